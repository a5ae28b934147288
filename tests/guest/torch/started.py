#!/usr/bin/env python3
"""PyTorch programs as people start and write them, under `ddprove exec`: healthy, and with a crash, a stop and a
skipped call of one rank. Usage: started.py DDPROVE [--ranks 2,4] [--only NAME]

Exit: 0 all rows are right, 1 not, 77 this Python has no PyTorch."""
import argparse
import importlib.util
import os
import sys

import rows

FOLDER = os.path.dirname(os.path.abspath(__file__))
STEPS = ["--steps", "14"]
# Where ranks that wait for each other in different groups are told apart by their past alone, it must be long.
MANY_STEPS = ["--steps", "50"]


def script(name):
    return os.path.join(FOLDER, name + ".py")


def ways(ranks):
    """The same training, started in each way: name, command, launcher."""
    torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
    count = ["--nproc-per-node", str(ranks)]
    spawned = [sys.executable, script("spawned"), "--ranks", str(ranks)] + STEPS
    return [
        ("torchrun --standalone", [torchrun, "--standalone"] + count + [script("mlp")] + STEPS),
        ("python -m torch.distributed.run",
         [sys.executable, "-m", "torch.distributed.run", "--standalone"] + count + [script("mlp")] + STEPS),
        ("variables", [sys.executable, script("mlp")] + STEPS),
        ("mp.spawn", spawned),
        ("mp fork", spawned + ["--method", "fork"]),
        ("mp forkserver", spawned + ["--method", "forkserver"]),
    ]


def rows_of_ways(ranks):
    made = []
    for name, command in ways(ranks):
        launcher = "own" if name == "variables" else "env"
        at = "step: 9, kind: all_reduce"
        made += [rows.Row(name, command, ranks, launcher=launcher)]
        made += [rows.Row(name, command, ranks, fault, at, launcher=launcher,
                          said="step: 9, op: {comm: world}" if fault == "skip" else "step: 9")
                 for fault in ("kill", "stop", "skip")]
    return made


# What a script's faults hit: a call whose like has come often enough before, so that its lack shows.
CALLS = {
    "groups": ["comm: world, kind: all_reduce, hit: 40"],
    "two_models": ["step: 9, kind: all_reduce"],
    "functional": ["kind: all_gather, hit: 9", "kind: reduce_scatter, hit: 9", "kind: all_to_all, hit: 9",
                   "kind: broadcast, hit: 9"],
    "works": ["kind: broadcast, hit: 9", "kind: reduce, hit: 9", "kind: barrier, hit: 9"],
    "objects": ["kind: gather, hit: 9", "kind: scatter, hit: 9", "kind: barrier, hit: 9"],
    "messages": ["kind: send, hit: 9"],
    "sharded": ["kind: reduce_scatter, hit: 30", "kind: all_gather, hit: 50"],
}
# In groups of their own, which two ranks do not have.
CALLS_OF_4 = {"groups": ["comm: column 1, kind: all_reduce, hit: 40", "comm: 'group 0,1', kind: all_reduce, hit: 40",
                         "kind: all_reduce, comm: 'default_pg:split:0', hit: 40"]}


def rows_of_scripts(ranks):
    made = []
    for name in CALLS:
        if name == "objects" and importlib.util.find_spec("numpy") is None:
            continue  # PyTorch itself cannot send objects then
        command = [sys.executable, script(name)] + (MANY_STEPS if name == "groups" else STEPS)
        made.append(rows.Row(name, command, ranks))
        for i, at in enumerate(CALLS[name] + (CALLS_OF_4.get(name, []) if ranks > 2 else [])):
            faults = ("kill", "stop", "skip") if i == 0 else ("skip",)
            # Ranks in several groups then wait for each other in a circle; who began it is named, and with what.
            circle = "HANG.CYCLE" if name == "groups" else None
            made += [rows.Row(name, command, ranks, fault, at, verdict=circle if fault == "skip" else None)
                     for fault in faults]
    # Variants that are right: see broken.py.
    made += [rows.Row(name, [sys.executable, script("broken"), name, *more, *STEPS], ranks)
             for name, more in (("joined_epochs", ["--join"]), ("played_again", []))]
    if importlib.util.find_spec("numpy") is not None:  # PyTorch's hook needs it
        command = [sys.executable, script("features"), "--with", "powersgd"] + MANY_STEPS
        made += [rows.Row("powersgd", command, ranks),
                 rows.Row("powersgd", command, ranks, "skip", "step: 30, kind: all_reduce")]
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprove")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--short", action="store_true", help="healthy scripts, and ways to start with a call left out")
    parser.add_argument("--only", default="", help="rows whose name has this")
    parser.add_argument("--fault", default="", help="rows with this fault; none: the healthy ones")
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("no PyTorch here; python3 -m venv V && V/bin/pip install torch==2.15.0")
        return 77
    chosen = []
    for ranks in map(int, args.ranks.split(",")):
        chosen += rows_of_ways(ranks) + rows_of_scripts(ranks)
    if args.short:
        chosen = [row for row in chosen if row.fault == ("skip" if "spawned" in " ".join(row.command) or
                                                         row.name == "variables" else None)]
    chosen = [row for row in chosen if args.only in row.name and
              args.fault in ("", row.fault or "none")]
    return 1 if rows.run_all(os.path.abspath(args.ddprove), chosen) > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
