#!/usr/bin/env python3
"""Faults drawn at random in programs that show their calls, and what ddprove says of each: the script knows only what
was done to whom, and counts as wrong whatever names somebody else, another operation, another step, or nothing.

Usage: guest_blind.py BIN [--seed N] [--count N] [--first N] [--only PROGRAM] [-j N] [--out FOLDER] [--library FILE]
BIN: a build's bin folder. Case k of a seed is the same whatever else is run. With two ranks, or a past of fewer than
four like calls, nobody may be able to tell who is right: then it is enough if the culprit is among those named.
Exit: 0 none wrong, 1 some, 77 nothing could be run."""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys

class Calls:
    """One call that a program makes again and again: `first` + `every` times how often it was made before is its
    number in the communicator, `times` how often it comes in all."""

    def __init__(self, comm, kind, elems, first, every, times, step=False, bucket=0, root=False):
        self.comm, self.kind, self.elems, self.first, self.every = comm, kind, elems, first, every
        self.times, self.has_step, self.bucket, self.root = times, step, bucket, root

    point = "collective"

    def seq(self, hit):
        return self.first + self.every * (hit - 1)

    def what(self, hit):
        return f"{self.kind} {self.elems} {self.comm} hit {hit} (seq {self.seq(hit)})"

    def where(self, hit):
        """The trigger: as a person would write it, by step or by how often it came."""
        words = [f"comm: {self.comm}", f"kind: {self.kind}", f"hit: {hit}"]
        words += [f"elems: {self.elems}"] if self.elems is not None else []
        return ", ".join(words + ([f"bucket: {self.bucket - 1}"] if self.bucket else []))


class Place:
    """A place that a program comes by in each step."""

    comm, kind, elems, has_step, bucket, root = None, None, None, True, 0, False

    def __init__(self, point, times, tensor=None):
        self.point, self.times, self.tensor = point, times, tensor

    def what(self, hit):
        return f"{self.tensor or 'a place'} in step {hit - 1}"

    def where(self, hit):
        return f"step: {hit - 1}" + (f", tensor: {self.tensor}" if self.tensor else "")


def places(steps):
    return ([Place("data/next", steps), Place("data/next", steps)]
            + [Place("optimizer/updated", steps, tensor) for tensor in ("weight", "bias")])


def trainer(steps):
    return [Calls("world", "broadcast", 64, 1, 0, 1, root=True), Calls("world", "all_reduce", 32, 2, 2, steps, True, 1),
            Calls("world", "all_reduce", 32, 3, 2, steps, True, 2), Calls("metrics", "all_reduce", 1, 1, 1, steps, True)]


def mpi(steps):
    return [Calls("MPI_COMM_WORLD", "broadcast", 64, 2, 0, 1, root=True),
            Calls("MPI_COMM_WORLD", "all_reduce", 48, 3, 2, steps), Calls("MPI_COMM_WORLD", "all_reduce", 16, 4, 2, steps),
            Calls("MPI_Comm_dup", "reduce", 1, 1, 1, steps, root=True), Calls("MPI_Comm_dup", "barrier", None, steps + 1, 0, 1)]


def mesh(steps):
    return [Calls("MPI_Comm_split", "all_reduce", 8, 1, 1, steps), Calls("MPI_Comm_dup", "all_reduce", 32, 1, 1, steps),
            Calls("MPI_Comm_dup", "all_reduce", 1, 1, 1, steps)]


def core(steps):
    return [Calls("world", "all_reduce", 10, 3, 2, steps, True, 1), Calls("world", "all_reduce", 640, 4, 2, steps, True, 2)] + places(steps)


def model(steps):
    return ([Calls("world", "all_reduce", 1, 1, 3, steps, True, 1), Calls("world", "all_reduce", 64, 2, 3, steps, True, 2),
             Place("optimizer/pre", steps), Place("backward/grad_ready", steps, "weight"), Place("backward/grad_ready", steps, "bias")] + places(steps))


def nccl(steps):
    return [Calls("ncclCommInitRank", "all_reduce", 256, 3, 1, NCCL_STEPS),
            Calls("ncclCommSplit", "all_reduce", 64, 1, 1, NCCL_STEPS),  # two communicators: of even ranks, of odd ones
            Calls("ncclCommInitRank 2", "broadcast", 16, 2, 1, NCCL_STEPS, root=True)]


def python(steps):
    return [Calls("world", "all_reduce", None, 1, 1, steps, True)]


# name: command, launcher, adapter, announces steps, calls
PROGRAMS = {
    "sockets": (["ddprove_guest_trainer"], "own", "none", True, trainer),
    "mpi": (["ddprove_mpi_trainer"], "mpirun", "mpi", False, mpi),
    "mesh": (["ddprove_mpi_mesh"], "mpirun", "mpi", False, mesh),
    "core": (["ddprove_guest_core_trainer"], "own", "none", True, core),
    "python": (["python3", "{trainer}"], "own", "none", True, python),
    "model": (["ddprove_guest_model_trainer"], "own", "none", True, model),
    "nccl": (["guest_nccl_program", "{ranks}"], "own", "nccl", False, nccl),
}
NCCL_STEPS = 60  # it makes as many, whatever it is told

MISMATCH = ("MISMATCH.MISSING", "MISMATCH.OP", "MISMATCH.COUNT", "MISMATCH.ROOT", "MISMATCH.BUCKET", "MISMATCH.ORDER",
            "MISMATCH.REDUCTION", "MISMATCH.DTYPE", "MISMATCH.EXTRA")
GONE = ("CRASH.SIGNALED", "CRASH.EXITED", "CRASH.FINISHED_EARLY")

# What is done, and what it may be called. A call that is left out or made twice shows as the next one that does not
# fit, as a wait that cannot end, or as a rank that is done too early; what the program does with a result that it did
# not get is its own affair, so it may also end.
ACTIONS = {
    "kill": ("kill: {signal}", ("CRASH.SIGNALED",)),
    "abort": ("abort: true", ("CRASH.SIGNALED",)),
    "exit": ("exit: 3", ("CRASH.EXITED",)),
    "exit 0": ("exit: 0", ("CRASH.FINISHED_EARLY",)),
    "stop": ("stop: forever", ("HANG.STOPPED",)),
    "hang": ("hang: true", ("HANG.NOT_JOINED", "HANG.HOST")),
    "delay": ("delay: 20", ("NONE",)),
    "skip": ("skip: true", MISMATCH + GONE + ("HANG.CYCLE", "HANG.NOT_JOINED", "VALUE.STALE", "VALUE.DIVERGED")),
    "dup": ("dup: true", MISMATCH + GONE + ("HANG.CYCLE", "HANG.NOT_JOINED")),
    "count": ("arg: count, value: {fewer}", ("MISMATCH.COUNT",)),
    "redop": ("arg: redop, value: prod", ("MISMATCH.REDUCTION",)),
    "dtype": ("arg: dtype, value: i32", ("MISMATCH.DTYPE",)),
    "root": ("arg: root, value: {root}", ("MISMATCH.ROOT",)),
    "zero": ("corrupt: zero", ("VALUE.LOST",)),
    "double": ("corrupt: double", ("VALUE.DUPLICATED",)),
    "half": ("corrupt: half", ("VALUE.SCALED",)),
    "flip": ("corrupt: flip, bit: 30", ("VALUE.",)),
    "nan": ("corrupt: nan", ("VALUE.NONFINITE", "VALUE.DIVERGED")),
}
# Of what is done in other places than calls. A lost batch may end an epoch, and then the program, sooner.
IN_PLACES = {
    ("data/next", "skip"): ("DATA.",),
    ("data/next", "dup"): ("DATA.",),
    ("backward/grad_ready", "skip"): MISMATCH + ("USAGE.", "HANG.CYCLE", "HANG.NOT_JOINED"),
    ("backward/grad_ready", "nan"): ("VALUE.NONFINITE",),
    ("optimizer/pre", "skip"): ("VALUE.STALE", "VALUE.DIVERGED"),
    ("optimizer/updated", "zero"): ("VALUE.DIVERGED",),
    ("optimizer/updated", "double"): ("VALUE.DIVERGED",),
    ("optimizer/updated", "half"): ("VALUE.DIVERGED",),
    ("optimizer/updated", "flip"): ("VALUE.DIVERGED", "VALUE.NONFINITE"),
    ("optimizer/updated", "nan"): ("VALUE.DIVERGED", "VALUE.NONFINITE"),
}
STOPPING = ("kill", "abort", "exit", "exit 0", "stop", "hang", "delay")
OF_RESULT = STOPPING + ("flip", "nan")
FEW = 4  # like calls before it, from which on the past tells


def draw(seed, number, names):
    prng = random.Random(f"{seed} {number}")
    name = prng.choice(sorted(PROGRAMS))
    steps = prng.choice((8, 12, 20, 30))
    ranks = prng.choice((2, 3, 4, 4, 5, 6))
    rank = prng.randrange(ranks)
    call = prng.choice(PROGRAMS[name][4](steps))
    hit = prng.choice((1, call.times, prng.randint(1, call.times), prng.randint(1, call.times)))
    point = prng.choice(("pre", "pre", "pre", "post"))
    action = prng.choice(sorted(ACTIONS))
    signal = prng.choice(("SIGKILL", "SIGTERM", "SIGSEGV"))
    other_root = prng.randrange(1, ranks)
    is_alone = members_of({"ranks": ranks, "rank": rank, "call": call}) == 1
    if name in names and not is_alone and is_possible(name, call, point, action):
        return {"program": name, "steps": steps, "ranks": ranks, "rank": rank, "call": call, "hit": hit, "point": point,
                "action": action, "signal": signal, "root": other_root, "number": number}
    return None


def members_of(case):
    """How many ranks are in the call's communicator."""
    ranks, rank = case["ranks"], case["rank"]
    if case["call"].comm == "ncclCommSplit":  # even ones, and odd ones
        return (ranks + 1 - rank % 2) // 2
    if case["call"].comm == "MPI_Comm_split":  # pairs
        return min(2, ranks - rank // 2 * 2)
    return ranks


def is_possible(name, call, point, action):
    if isinstance(call, Place):
        return point == "pre" and (action in STOPPING or (call.point, action) in IN_PLACES)
    if name == "nccl" and (point == "post" or action in ("zero", "double", "half", "flip", "nan")):
        return False  # calls end on the device
    if point == "post" and action not in OF_RESULT:
        return False
    if action in ("root",) and not call.root or action in ("redop", "zero", "double", "half") and call.kind != "all_reduce":
        return False
    if action in ("redop", "zero", "double", "half", "flip", "nan") and call.elems == 1:
        return False  # a maximum, or a loss of which nothing follows
    if call.kind in ("barrier", "reduce") and action in ("count", "dtype", "flip", "nan"):
        return False
    if call.kind == "broadcast" and action in ("flip", "nan", "dup", "skip") and point == "pre":
        return False  # only the root gives anything, and only the others get it
    return not (name == "python" and action in ("count", "redop", "root"))


def scenario(case):
    command, launcher, adapter, has_steps, _ = PROGRAMS[case["program"]]
    call = case["call"]
    do = ACTIONS[case["action"]][0].format(signal=case["signal"], root=case["root"], fewer=(call.elems or 8) - 1)
    point = call.point if isinstance(call, Place) else f"collective/{case['point']}"
    words = ", ".join(f'"{word}"' for word in command + [str(case["steps"])])
    return (f"# Drawn: {case['number']}\nid: blind.case{case['number']}\n"
            f"job: {{guest: {{command: [{words}], launcher: {launcher}, adapter: {adapter}}}, ranks: {case['ranks']}, "
            + (f"steps: {case['steps']}, " if has_steps else "") + "timeout_ms: 1500}\n"
            f"faults:\n  - at: {{rank: {case['rank']}, {call.where(case['hit'])}}}\n    point: {point}\n"
            f"    do: {{{do}}}\nexpect: {{verdict: NONE}}\n")


def judge_place(case, said):
    """The same of a fault in another place. What a rank did to itself is never two ranks' fault, but for what only
    a comparison of two replicas shows; that is dated where it was done."""
    call, action, rank, step = case["call"], case["action"], case["rank"], case["hit"] - 1
    verdict, culprit = said["verdict"], said["culprit"]
    wanted = ACTIONS[action][1] if action in STOPPING else IN_PLACES[call.point, action]
    is_last = step == call.times - 1
    if verdict == "NONE":
        # A lost batch of a program that shuffles is no other program; one that is to come again needs a next step;
        # of a rank that is as good as done, nobody may want anything.
        is_right = action == "delay" or (action == "dup" and is_last)
        is_harmless = is_last and action in STOPPING
        return ("right", "") if is_right else ("no effect" if is_harmless else "wrong", "nothing was found")
    if rank not in culprit:
        return "wrong", f"culprit {culprit}"
    is_compared = case["ranks"] == 2 and verdict.startswith(("VALUE.", "DATA."))
    if culprit != [rank] and not is_compared and not (case["ranks"] == 2 and verdict.startswith("MISMATCH")):
        return "wrong", f"others are named too: {culprit}"
    # Before the first update nothing is known of what it starts from.
    is_first = step == 0 and call.point == "optimizer/updated"
    if not any(verdict.startswith(name) for name in wanted + (("MISMATCH.MODEL",) if is_first else ())):
        return "wrong", f"called {verdict}"
    # Of a rank that goes no further, the step is that of the call that it owes.
    due = (step, step + 1) if action in STOPPING else (step + 1,) if action == "dup" else (step,)
    if said["step"] not in due:
        return "wrong", f"step {said['step']}, not {due[0]}"
    return ("right", "") if culprit == [rank] else ("among others", "")


def judge(case, said):
    """(class, why). said: verdict.json."""
    call, action, rank = case["call"], case["action"], case["rank"]
    verdict, culprit, op = said["verdict"], said["culprit"], said["op"]
    wanted = ACTIONS[action][1]
    if not any(fault["times"] for fault in said["fired"]):
        return "never fired", ""
    if isinstance(call, Place):
        return judge_place(case, said)
    if verdict == "NONE":
        harmless = action == "delay" or action in ("exit 0",) or (action in STOPPING and case["point"] == "post" and
                                                                  case["hit"] == call.times)
        return ("right", "") if action == "delay" else ("no effect" if harmless else "wrong", "nothing was found")
    if action == "delay":
        return "wrong", "a delay is no fault"
    members = members_of(case)
    is_unclear = members == 2 or case["hit"] <= FEW
    of_all = action in ("flip", "nan") or (action in ("zero", "double", "half") and
                                          (case["ranks"] == 2 or case["program"] == "python"))  # alike contributions
    if rank not in culprit and not (of_all and len(culprit) == 0):
        return "wrong", f"culprit {culprit}"
    if culprit != [rank] and not is_unclear and not of_all:
        return "wrong", f"others are named too: {culprit}"
    # Of contributions that are alike, what is lost cannot be told from what is scaled.
    if not any(verdict.startswith(name) for name in wanted + (("VALUE.CORRUPTED",) if of_all else ())):
        return "wrong", f"called {verdict}"
    if PROGRAMS[case["program"]][3] and call.has_step and case["point"] == "pre" and said["step"] != case["hit"] - 1:
        return "wrong", f"step {said['step']}"
    if action in ("count", "redop", "dtype", "root", "zero", "double", "half") and op is not None and \
            (op["comm"], op["seq"]) != (call.comm, call.seq(case["hit"])):
        return "wrong", f"operation {op['kind']} {op['seq']} of {op['comm']}"
    return ("right", "") if culprit == [rank] or of_all else ("among others", "")


def run(case, options):
    folder = os.path.join(options.out, str(case["number"]))
    os.makedirs(folder, exist_ok=True)
    ranks = os.path.join(folder, "ranks")  # where they find each other
    path = os.path.join(folder, "scenario", "blind", f"case{case['number']}.yaml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    trainer_py = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness/guest/example/trainer.py")
    with open(path, "w", encoding="ascii") as out:
        out.write(scenario(case).replace("{trainer}", trainer_py).replace("{ranks}", os.path.abspath(ranks)))
    shutil.rmtree(ranks, ignore_errors=True)
    os.makedirs(ranks)
    environment = dict(os.environ, DDPROVE_GUEST_LIBRARY=options.library)
    done = subprocess.run([os.path.join(options.bin, "ddprove"), "run", path, "--driver", "proc", "-j", "1", "--out",
                           os.path.join(folder, "run"), "--json", os.path.join(folder, "said.json")], env=environment,
                          capture_output=True, text=True, check=False)
    try:
        with open(os.path.join(folder, "said.json"), encoding="utf-8") as said:
            said = json.load(said)["scenarios"][0]
    except (OSError, ValueError, IndexError):
        said = {"outcome": "ERROR"}
    if said["outcome"] in ("SKIP", "ERROR") or done.returncode in (2, 3, 77):
        return case, "skipped" if said["outcome"] == "SKIP" else "error", (done.stdout + done.stderr)[-600:], said
    verdict = judge(case, said)
    if verdict[0] not in ("wrong", "error"):
        shutil.rmtree(folder, ignore_errors=True)
    return case, *verdict, said


def describe(case):
    call = case["call"]
    return (f"{case['number']:5} {case['program']:8} {case['steps']:2} steps, {case['ranks']} ranks: {case['action']} at "
            f"{call.point if isinstance(call, Place) else case['point']} of {call.what(case['hit'])}, rank {case['rank']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", action="append")
    parser.add_argument("-j", type=int, default=2)
    parser.add_argument("--out", default="blind")
    parser.add_argument("--library", default="")
    options = parser.parse_args()
    cases, number = [], options.first
    while len(cases) < options.count:
        case = draw(options.seed, number, options.only or PROGRAMS)
        cases += [case] if case is not None else []
        number += 1
    tally = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for case, kind, why, said in pool.map(lambda c: run(c, options), cases):
            tally[kind] += 1
            if kind in ("wrong", "error", "never fired"):
                print(f"{kind}: {describe(case)}\n    {why}; {said.get('verdict')} of {said.get('culprit')}: "
                      f"{(said.get('text') or '')[:400]}", flush=True)
    print(f"{len(cases)} drawn: " + ", ".join(f"{count} {kind}" for kind, count in sorted(tally.items())))
    sys.exit(77 if tally["skipped"] == len(cases) else int(tally["wrong"] + tally["error"] + tally["never fired"] > 0))


main()
