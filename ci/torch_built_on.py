#!/usr/bin/env python3
"""What is built on torch.distributed, unmodified, under `ddprove exec`: Accelerate, Lightning, DeepSpeed (ZeRO 0, 1);
healthy, and with a rank that is killed and one that leaves out a collective. Usage: torch_built_on.py DDPROVE
[--ranks 2] [--only NAME]; with the Python of a virtual environment that has them:

    python3 -m venv V && V/bin/pip install torch==2.15.0 accelerate lightning deepspeed==0.19.8

The scripts are those of tests/guest/torch/built_on. Exit: 0 all right, 1 not, 77 fewer than two are installed."""
import argparse
import importlib.metadata
import importlib.util
import os
import platform
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "../tests/guest/torch")
sys.path.insert(0, TESTS)

import rows  # noqa: E402

# name: (package, script, its arguments, where its faults are)
PROGRAMS = {
    "Accelerate": ("accelerate", "accelerated", [], "step: 9, kind: all_reduce"),
    "Lightning": ("lightning", "in_lightning", None, "step: 9, kind: all_reduce"),
    "DeepSpeed, ZeRO 0": ("deepspeed", "deepspeeded", [], "kind: all_reduce, hit: 10"),
    "DeepSpeed, ZeRO 1": ("deepspeed", "deepspeeded", ["--stage", "1"], "kind: all_reduce, hit: 10"),
}


def command_of(script, arguments, ranks):
    path = os.path.join(TESTS, "built_on", script + ".py")
    if arguments is None:  # it starts its ranks itself
        return [sys.executable, path, "--ranks", str(ranks)]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), path,
            *arguments]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprove")
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    here = {package for package, *_ in PROGRAMS.values() if importlib.util.find_spec(package) is not None}
    if len(here) < 2 and not args.only:
        print("fewer than two of Accelerate, Lightning and DeepSpeed are installed; see the head of this file")
        return 77
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ["torch", *sorted(here)])
    print(f"{versions}, gloo, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}")
    chosen = []
    for ranks in map(int, args.ranks.split(",")):
        for name, (package, script, arguments, at) in PROGRAMS.items():
            if package in here and args.only in name:
                command = command_of(script, arguments, ranks)
                chosen.append(rows.Row(name, command, ranks, launcher="env"))
                chosen += [rows.Row(name, command, ranks, fault, at, launcher="env") for fault in ("kill", "skip")]
    return 1 if rows.run_all(os.path.abspath(args.ddprove), chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
