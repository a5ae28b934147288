"""The proof: what was judged of a run's kept steps and usage, what was found, and what could not be judged.

`proof.json` in the run folder: schema, outcome (PASS, FAIL, INCONCLUSIVE), verdict, world, steps, judged {oracle:
count}, not_judged [{oracle, step, ranks, why}], notes, findings [{oracle, verdict, ranks, step, steps,
parameters, text, explained_by}], table [{parameter, verdict, ranks, since, steps, distance}]."""
import os

from . import context, record as files, scripts, share, store
from .steps import Step

# Replicas differ because of what went into an update: findings that explain differences which come after them.
CAUSES = ("VALUE.LOST", "USAGE.NO_SYNC", "VALUE.SCALED", "VALUE.CORRUPTED", "VALUE.NONFINITE", "VALUE.DUPLICATED")
NEEDED = ("gradient", "reduction", "update", "replicas")


class Report:
    """Findings of all steps. One that goes on is told once, with the steps in which it was there."""

    def __init__(self, world):
        self.world = world
        self.findings, self.passed_over, self.notes, self.judged = [], [], [], {}
        self.steps = []  # judged so far
        self.drawn = {}  # random numbers by rank and pass: the step that drew them
        self.inputs = {}  # by rank: [(step, what its passes were given)]

    def find(self, oracle, verdict, ranks, step, names, text, distances=None):
        """names: of parameters or buffers. distances: how far each is from what is right, where that is known."""
        going_on = [step] + self.steps[-2:]  # in the step before, of those that were kept
        for finding in self.findings:
            if (finding["oracle"], finding["verdict"], finding["kind"]) == (oracle, verdict, kind_of(text)) \
                    and finding["steps"][-1] in going_on:
                finding["ranks"] = sorted(set(finding["ranks"]) | set(ranks))
                finding["steps"] = sorted(set(finding["steps"]) | {step})
                break
        else:
            finding = {"oracle": oracle, "verdict": verdict, "ranks": sorted(ranks), "step": step, "steps": [step],
                       "parameters": [], "text": text, "kind": kind_of(text), "distances": {},
                       "explained_by": self.cause(verdict, step, names)}
            self.findings.append(finding)
        finding["parameters"] += [name for name in names if name not in finding["parameters"]]
        for name, distance in (distances or {}).items():
            finding["distances"][name] = max(distance, finding["distances"].get(name, 0.0))

    def cause(self, verdict, step, names):
        """The finding that a difference of replicas follows from."""
        if verdict != "VALUE.DIVERGED":
            return None
        for number, other in enumerate(self.findings):
            if other["verdict"] in CAUSES and other["step"] < step and (
                    not other["parameters"] or set(names) <= set(other["parameters"])):
                return number
        return None

    def pass_over(self, oracle, step, ranks, why):
        for entry in self.passed_over:
            if (entry["oracle"], entry["why"]) == (oracle, why):
                entry["steps"] = sorted(set(entry["steps"]) | {step})
                entry["ranks"] = sorted(set(entry["ranks"]) | set(ranks))
                return
        self.passed_over.append({"oracle": oracle, "steps": [step], "ranks": sorted(ranks), "why": why})

    def note(self, step, ranks, text):
        for entry in self.notes:
            if entry["text"] == text:
                entry["ranks"] = sorted(set(entry["ranks"]) | set(ranks))
                return
        self.notes.append({"step": step, "ranks": sorted(ranks), "text": text})

    def count(self, oracle):
        self.judged[oracle] = self.judged.get(oracle, 0) + 1

    def draw(self, rank, number, step, state):
        """A pass draws random numbers from this state of the generator on."""
        first = self.drawn.setdefault((rank, number, state), step)
        if first != step:
            self.find("data", "VALUE.STALE", [rank], step, [], f"pass {number} draws the random numbers of step {first} "
                      "again: the generator is set back between steps")

    def draw_inputs(self, rank, step, sums):
        self.inputs.setdefault(rank, []).append((step, sums))

    def take(self, step, told):
        """What was told of a step. Steps come in their order."""
        self.steps.append(step)
        for name, values in told:
            getattr(self, name)(*values)

    def proof(self, steps):
        first = next((f for f in self.findings if f["explained_by"] is None), None)
        lacking = [oracle for oracle in NEEDED if not self.judged.get(oracle)]
        outcome = "FAIL" if first else "INCONCLUSIVE" if lacking or self.passed_over_needed() else "PASS"
        return {"schema": 1, "outcome": outcome, "verdict": first["verdict"] if first else "NONE", "world": self.world,
                "steps": steps, "judged": self.judged, "not_judged": self.passed_over, "notes": self.notes,
                "lacking": lacking,
                "findings": [{key: f[key] for key in f if key not in ("kind", "distances")} for f in self.findings],
                "table": self.table()}

    def passed_over_needed(self):
        return any(entry["oracle"] in NEEDED for entry in self.passed_over)

    def table(self):
        rows = []
        for finding in self.findings:
            rows += [{"parameter": name, "verdict": finding["verdict"], "ranks": finding["ranks"],
                      "since": finding["step"], "steps": len(finding["steps"]),
                      "distance": finding["distances"].get(name)}
                     for name in finding["parameters"]]
        return rows


def kind_of(text):
    """A finding's text without its numbers."""
    return "".join(letter for letter in text if not letter.isdigit())


class Told:
    """What a report would be told of one step, as plain values, so that steps can be judged in any order and process."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        if name not in ("find", "pass_over", "note", "count", "draw", "draw_inputs"):
            raise AttributeError(name)
        return lambda *values: self.calls.append([name, values])


def read_step(folder, ranks, step):
    """Each rank's record of a step: {rank: record}."""
    records = {}
    for rank in ranks:
        path = store.step_path(folder, rank, step)
        if not os.path.exists(path):
            continue
        record = files.read(path)
        last = None
        for key, left in (("before", "after"), ("state_before", "state_after")):
            if key in record and record[key] is None:
                last = last or files.read(store.step_path(folder, rank, step - 1))
                record[key] = last[left]
        for event in record["events"]:
            if event["kind"] == "forward":
                event["attributes"] = context.read_attributes(event["attributes"])
        records[rank] = record
    return records


def judge_step(folder, player, step):
    """What is told of a step: [[what, values]]."""
    told, records = Told(), read_step(folder, range(player.world), step)
    one = Step(told, player, records, step)
    one.judge()
    if one.is_whole():
        scripts.judge_inputs(told, records, step)
    return told.calls


def judge(folder, player):
    world = player.world
    facts = {rank: store.read_json(store.usage_path(folder, rank)) for rank in range(world)}
    steps = sorted({step for usage in facts.values() for step in usage["kept"]})
    told = share.rest(folder, steps, lambda step: judge_step(folder, player, step))
    report = Report(world)
    for step in steps:
        report.take(step, told[step])
    scripts.judge(report, facts)
    for rank, usage in facts.items():
        if usage["failure"]:
            report.pass_over("gradient", usage["steps"], [rank], f"nothing more was kept: {usage['failure']}")
    return report.proof(steps)


def write(folder, proof):
    store.write_json(os.path.join(folder, "proof.json"), proof)
