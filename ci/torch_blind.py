#!/usr/bin/env python3
"""Faults drawn at random in PyTorch scripts, and what ddprove says of each: this script knows only what was done to whom,
and counts as wrong whatever names somebody else, another operation, another step, or nothing.

Usage: torch_blind.py DDPROVE [--seed N] [--count N] [--first N] [--only SCRIPT] [-j N] [--out FOLDER]
       torch_blind.py DDPROVE --scenarios RANKS [--only WORD] ...   instead of that, scenarios/guest/torch as they stand
Case k of a seed is the same whatever else is run. With two ranks, or before the fifth step, nobody may be able to tell who is
right: then it is enough if the culprit is among those named. All ranks are forked from one process that has imported
PyTorch (torch_zygote.py), so the point launch/spawn is not drawn, and its scenarios are left out.
Exit: 0 none wrong, 1 some, 77 without PyTorch."""
import argparse
import collections
import concurrent.futures
import glob
import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys

import torch_zygote

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "../tests/guest/torch")
STEPS = 12
FEW = 5  # steps before it, from which on the past of two ranks tells


class Script:
    """What a script does in each step: so many buckets, these parameters and buffers; from a loader's batches or not."""

    def __init__(self, arguments, buckets, params, buffers=(), has_loader=False, has_broadcast=False):
        self.arguments, self.buckets, self.params, self.buffers = arguments, buckets, params, buffers
        self.has_loader, self.has_broadcast = has_loader, has_broadcast


# Of digits one epoch is 256 samples: 8 batches for each of two ranks, 4 for each of four.
PLAIN = Script([], 3, ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "spare.weight"])
DRAWN = {
    "mlp": PLAIN,
    "mlp static": Script(["--variant", "static"], 3, PLAIN.params),
    "mlp no_sync": Script(["--variant", "no_sync"], 3, PLAIN.params),
    "mlp hook": Script(["--variant", "hook"], 3, PLAIN.params),
    "mlp_digits": Script([], 1, ["fc1.weight", "fc2.bias"], has_loader=True),
    "convnet": Script([], 1, ["conv1.weight", "bn1.bias", "conv2.weight"], ["bn1.running_mean"], True, True),
    "moe": Script([], 1, ["gate.weight"]),
    "gpt": Script([], 1, ["pos.weight", "tok.weight", "ln.bias"]),
}
MISMATCH = ("MISMATCH.MISSING", "MISMATCH.OP", "MISMATCH.COUNT", "MISMATCH.ORDER", "MISMATCH.EXTRA", "MISMATCH.REDUCTION")

# point: {action: (what is done, what it may be called)}. Of a call that is left out or made twice the next one may not fit.
STOPPING = {
    "kill": ("kill: {signal}", ("CRASH.SIGNALED",)),
    "abort": ("abort: true", ("CRASH.SIGNALED",)),
    "exit": ("exit: 3", ("CRASH.EXITED",)),
    "exit 0": ("exit: 0", ("CRASH.FINISHED_EARLY",)),
    "stop": ("stop: forever", ("HANG.STOPPED",)),
    "hang": ("hang: true", ("HANG.NOT_JOINED", "HANG.HOST")),
    "delay": ("delay: 60", ("NONE",)),
}
POINTS = {
    "collective/pre": {
        **STOPPING,
        "skip": ("skip: true", MISMATCH),
        "dup": ("dup: true", MISMATCH),
        "count": ("arg: count, value: 5", ("MISMATCH.COUNT",)),
        "redop": ("arg: redop, value: {redop}", ("MISMATCH.REDUCTION",)),
        "dtype": ("arg: dtype, value: i32", ("MISMATCH.DTYPE",)),
        "zero": ("corrupt: zero", ("VALUE.LOST",)),
        "double": ("corrupt: double", ("VALUE.DUPLICATED", "VALUE.SCALED")),
        "half": ("corrupt: half", ("VALUE.SCALED",)),
        "flip": ("corrupt: flip, elem: 3, bit: 30", ("VALUE.CORRUPTED", "VALUE.NONFINITE")),
        "nan": ("corrupt: nan, elem: 3", ("VALUE.NONFINITE",)),
    },
    "broadcast": {  # of buffers, in each forward pass: collective/pre of that kind
        **STOPPING,
        "skip": ("skip: true", MISMATCH),
        "dup": ("dup: true", MISMATCH),
        "count": ("arg: count, value: 3", ("MISMATCH.COUNT",)),
        "root": ("arg: root, value: 1", ("MISMATCH.ROOT",)),
        "dtype": ("arg: dtype, value: i32", ("MISMATCH.DTYPE",)),
    },
    "checkpoint/key": {  # but no skip: the next epoch's checkpoint takes the place of the one left out
        "kill": STOPPING["kill"],
        "stop": STOPPING["stop"],
        "hang": STOPPING["hang"],
        "delay": STOPPING["delay"],
        "doubled": ("edit: add_prefix", ("CHECKPOINT.PREFIX",)),
        "stripped": ("edit: strip_prefix", ("CHECKPOINT.PREFIX",)),
    },
    "collective/post": {
        **STOPPING,
        "flip": ("corrupt: flip, elem: 3, bit: 30", ("VALUE.DIVERGED", "VALUE.NONFINITE")),
        "nan": ("corrupt: nan, elem: 3", ("VALUE.NONFINITE", "VALUE.DIVERGED")),
    },
    "data/next": {
        **STOPPING,
        "skip": ("skip: true", ("DATA.",)),
        "dup": ("dup: true", ("DATA.",)),
    },
    "backward/grad_ready": {
        **STOPPING,
        "skip": ("skip: true", ("USAGE.UNUSED_PARAMETER",)),
        "zero": ("corrupt: zero", ("VALUE.LOST",)),
        "half": ("corrupt: half", ("VALUE.SCALED",)),
        "flip": ("corrupt: flip, elem: 1, bit: 26", ("VALUE.CORRUPTED", "VALUE.NONFINITE")),
        "nan": ("corrupt: nan, elem: 1", ("VALUE.NONFINITE",)),
    },
    "optimizer/pre": {
        **STOPPING,
        "skip": ("skip: true", ("VALUE.STALE", "VALUE.DIVERGED")),
    },
    "optimizer/updated": {
        **STOPPING,
        "set": ("corrupt: set, elem: 1, value: 0.5", ("VALUE.DIVERGED",)),
        "flip": ("corrupt: flip, elem: 1, bit: 20", ("VALUE.DIVERGED",)),
        "nan": ("corrupt: nan, elem: 1", ("VALUE.DIVERGED", "VALUE.NONFINITE")),
    },
}
# Nobody can say whose value it was: a sum of which all get the same, or two models of two ranks.
OF_ALL = {("collective/pre", "flip"), ("collective/pre", "nan"), ("collective/post", "flip"), ("collective/post", "nan")}


def draw(seed, number):
    prng = random.Random(f"{seed} {number}")
    name = prng.choice(sorted(DRAWN))
    script = DRAWN[name]
    case = {"number": number, "script": name, "ranks": prng.choice((2, 2, 3, 4)), "step": prng.randrange(1, STEPS - 1),
            "point": prng.choice(sorted(POINTS)), "signal": prng.choice(("SIGKILL", "SIGTERM", "SIGSEGV")),
            "redop": prng.choice(("max", "prod", "min")), "bucket": prng.randrange(script.buckets)}
    case["rank"] = prng.randrange(case["ranks"])
    case["action"] = prng.choice(sorted(POINTS[case["point"]]))
    case["tensor"] = prng.choice(script.params + (list(script.buffers) if case["point"] == "optimizer/updated" else []))
    return case if is_possible(case) else None


def is_possible(case):
    script, point, action = DRAWN[case["script"]], case["point"], case["action"]
    if point == "data/next" and not script.has_loader or point == "broadcast" and not script.has_broadcast:
        return False
    if point == "checkpoint/key" and (case["script"] != "convnet" or case["rank"] != 0):
        return False  # rank 0 saves
    if point == "data/next" and action in ("skip", "dup") and case["step"] >= {2: 8, 3: 10, 4: 12}[case["ranks"]]:
        return False  # of an epoch that the script breaks off
    if point == "backward/grad_ready" and action == "skip" and case["script"] in ("moe", "mlp static"):
        return False  # it looks for parameters without a gradient, or is told once which have none
    if case["tensor"] == "bn1.running_mean" and action not in STOPPING and case["ranks"] == 2:
        return False  # rank 0's buffers are handed out: what it says of two ranks is a scenario
    return not (case["script"] == "mlp no_sync" and point == "backward/grad_ready")  # twice a step


def scenario(case):
    at = {"collective/pre": "bucket: {bucket}", "collective/post": "bucket: {bucket}",
          "backward/grad_ready": "tensor: {tensor}", "optimizer/updated": "tensor: {tensor}", "broadcast": "kind: broadcast"}.get(case["point"], "")
    at = f"step: {case['step']}" + (", " + at.format(**case) if at else "")
    at = f"rank: {case['rank']}" + (", " + at if case["point"] != "checkpoint/key" else "")
    point = "collective/pre" if case["point"] == "broadcast" else case["point"]
    do = POINTS[case["point"]][case["action"]][0].format(**case)
    prove = f", prove: [{case['step']}]" if case["point"] == "backward/grad_ready" else ""
    timeout_ms = 6000 if case["action"] == "hang" else 60000
    return (f"# Drawn: {case['number']}\nid: blind.case{case['number']}\njob: {{guest: {{adapter: torch{prove}}}, ranks: "
            f"{case['ranks']}, steps: {STEPS}, timeout_ms: {timeout_ms}}}\nfaults:\n  - at: {{{at}}}\n    point: {point}\n"
            f"    do: {{{do}}}\nexpect: {{verdict: NONE}}\n")


def judge(case, said):
    """(class, why). said: verdict.json."""
    point, action, rank, ranks = case["point"], case["action"], case["rank"], case["ranks"]
    verdict, culprit, op = said["verdict"], said["culprit"], said["op"]
    if not said["fired"]:
        return "never fired", ""
    if action == "delay":
        return ("right", "") if verdict == "NONE" else ("wrong", "a delay is no fault")
    if verdict == "NONE":
        return "wrong", "nothing was found"
    of_all = (point, action) in OF_ALL or verdict in ("VALUE.NONFINITE",)
    is_unclear = ranks == 2 and (case["step"] < FEW or point in ("optimizer/updated", "collective/post"))
    if rank not in culprit and not (of_all and not culprit):
        return "wrong", f"culprit {culprit}"
    if culprit != [rank] and not is_unclear and not of_all:
        return "wrong", f"others are named too: {culprit}"
    if not any(verdict.startswith(name) for name in POINTS[point][action][1]):
        return "wrong", f"called {verdict}"
    later = action in STOPPING and point in ("optimizer/updated", "optimizer/pre", "collective/post")
    if point == "data/next" and action == "dup":  # the second one is used in the next step
        later = True
    if verdict == "DATA.UNEVEN":
        later = said["step"] > case["step"]  # at the end of the epoch it is known that a batch is missing, not which
        case = {**case, "step": said["step"]} if later else case
    if point != "checkpoint/key" and said["step"] not in ([case["step"], case["step"] + 1] if later else [case["step"]]):
        return "wrong", f"step {said['step']}"
    if point == "collective/pre" and (op is None or op["bucket"] != case["bucket"]) and action not in ("skip", "dup"):
        return "wrong", f"operation {op}"
    if point in ("backward/grad_ready", "optimizer/updated") and action not in STOPPING and \
            not any(case["tensor"] in param for param in (op or {}).get("params", [])):
        return "wrong", f"parameters {(op or {}).get('params')}"
    return ("right", "") if culprit == [rank] or of_all else ("among others", "")


def watch(options, path, ranks, script, arguments, folder, more=()):
    """(the rows of its --json, what it said, its exit code)"""
    command = [options.ddprove, "exec", path, "--launcher", "env", "--set", f"job.ranks={ranks}", "-j", "1", "--out",
               os.path.join(folder, "run"), "--json", os.path.join(folder, "said.json"), *more, "--", sys.executable, "-S",
               os.path.join(HERE, "torch_zygote.py"), options.socket, str(ranks), script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        with open(os.path.join(folder, "said.json"), encoding="utf-8") as said:
            rows = json.load(said)["scenarios"]
    except (OSError, ValueError, LookupError):
        rows = []
    return rows, done.stdout + done.stderr, done.returncode


def run_drawn(case, options):
    folder = os.path.join(options.out, str(case["number"]))
    path = os.path.join(folder, "scenario", "blind", f"case{case['number']}.yaml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as out:
        out.write(scenario(case))
    name = case["script"].split()[0]
    more = ["--checkpoint", os.path.join(folder, "model.pt")] if case["point"] == "checkpoint/key" else []
    rows, text, code = watch(options, path, case["ranks"], os.path.join(SCRIPTS, name + ".py"),
                             ["--steps", str(STEPS), *DRAWN[case["script"]].arguments, *more], folder)
    if code in (2, 3) or not rows or rows[0]["outcome"] in ("SKIP", "ERROR"):
        return "error", text[-600:], describe(case)
    kind, why = judge(case, rows[0])
    if kind not in ("wrong", "never fired"):
        shutil.rmtree(folder, ignore_errors=True)
    return kind, f"{why}; {rows[0]['verdict']} of {rows[0]['culprit']}: {(rows[0].get('reason') or '')[:500]}", describe(case)


def describe(case):
    return (f"{case['number']:5} {case['script']}, {case['ranks']} ranks: {case['action']} at {case['point']} of rank "
            f"{case['rank']} in step {case['step']}, bucket {case['bucket']}, {case['tensor']}")


def run_scenario(path, options):
    """A scenario as it stands, whose ranks begin at once."""
    name = os.path.basename(path)[:-5]
    with open(path, encoding="utf-8") as file:
        command = re.search(r"command: \[ddprove_torch, (.*?)\]", file.read(), re.S)
    os.makedirs(os.path.join(options.out, name), exist_ok=True)
    words = [word.strip().strip('"') for word in command[1].split(",")]
    rows, text, code = watch(options, path, options.scenarios, os.path.join(SCRIPTS, words[0] + ".py"), words[1:],
                             os.path.join(options.out, name))
    if not rows:
        return "error", text[-600:], name
    outcomes = {row["outcome"] for row in rows}
    kind = "right" if outcomes == {"PASS"} else "skipped" if outcomes == {"SKIP"} else "wrong" if code == 1 else "error"
    return kind, "; ".join(row["reason"] for row in rows if row["outcome"] != "PASS")[:700], name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprove")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--scenarios", type=int, metavar="RANKS")
    parser.add_argument("-j", type=int, default=2)
    parser.add_argument("--out", default="blind")
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("no PyTorch here; python3 -m venv V && V/bin/pip install torch==2.15.0")
        return 77
    options.ddprove = os.path.abspath(options.ddprove)
    options.out = os.path.abspath(options.out)
    os.makedirs(options.out, exist_ok=True)
    options.socket = os.path.join(options.out, f"zygote.{os.getpid()}")
    cases, number = [], options.first
    while not options.scenarios and len(cases) < options.count:
        case = draw(options.seed, number)
        cases += [case] if case is not None and options.only in case["script"] else []
        number += 1
    if options.scenarios:
        cases = [path for path in sorted(glob.glob(os.path.join(HERE, "../scenarios/guest/torch/*.yaml")))
                 if options.only in path and not os.path.basename(path).startswith("launch_")]
    torch_zygote.serve(options.socket)
    tally = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for kind, why, what in pool.map(lambda one: (run_scenario if options.scenarios else run_drawn)(one, options), cases):
            tally[kind] += 1
            if kind not in ("right", "among others", "skipped"):
                print(f"{kind}: {what}\n    {why}", flush=True)
    os.unlink(options.socket)
    print(f"{len(cases)} {'run' if options.scenarios else 'drawn'}: "
          + ", ".join(f"{count} {kind}" for kind, count in sorted(tally.items())))
    return int(tally["wrong"] + tally["error"] + tally["never fired"] > 0)


if __name__ == "__main__":
    sys.exit(main())
