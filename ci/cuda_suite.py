#!/usr/bin/env python3
"""Every scenario as a job on cards, on the stand-ins for CUDA, cuBLAS and NCCL: those that were written for CPUs, too.
Not a GPU result.

Each must end as it says, or be refused by lint with a place and a remedy, or be skipped. Those that answer otherwise by their
nature are listed here, each with its reason.

Usage: cuda_suite.py DDPROVE_STANDIN SCENARIOS OUT [--jobs N]; DDPROVE_CUBLAS and DDPROVE_NCCL name the stand-ins.
Exit: 0, or 1: a scenario answers otherwise."""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys

COUNTED = "a fault that counts allocations, messages or files: a job on a card makes others"
AGREED = "strict: ranks agree before any value is there, so who is missing is named"
ARGUED = {
    "checkpoint/bad_header": "states the hash of the CPU's bits",
    "io/disk_full_at_schedules": COUNTED,
    "io/link_broken_pipe": COUNTED,
    "io/link_lost": COUNTED,
    "io/link_silent": COUNTED,
    "mismatch/message_last": COUNTED,
    "mpi/measured_twice": "the altered sum is one that a tree of NCCL gives",
    "mpi/measured_unclear": "the altered sum is one that a tree of NCCL gives",
    "resource/no_memory": COUNTED,
    "resource/no_memory_at_save": COUNTED,
    "resource/no_memory_once": COUNTED,
    "several/exit_beside_no_memory": COUNTED,
    "several/type_beside_unsent": AGREED,
    "uneven/join_buffers_not_taken": AGREED,
}
RIGHT, REFUSED, SKIPPED = 0, 2, 77


def run(program, path, out):
    """(exit code, why)."""
    command = [program, "run", path, "--driver", "proc", "-j", "1", "--device", "cuda", "--ranks-per-gpu", "64",
               "--keep", "failed", "--out", out]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return 124, ["more than 600 s"]
    lines = (done.stdout + done.stderr).splitlines()
    return done.returncode, [line.strip() for line in lines if "why:" in line][:3]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("scenarios")
    parser.add_argument("out")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    names = sorted(f"{family}/{file[:-5]}" for family in os.listdir(options.scenarios)
                   if family != "guest" and os.path.isdir(os.path.join(options.scenarios, family))
                   for file in os.listdir(os.path.join(options.scenarios, family)) if file.endswith(".yaml"))
    for name in set(ARGUED) - set(names):
        print(f"there is no scenario {name}")
        return 1
    counts = dict.fromkeys(("right", "refused", "skipped", "argued", "wrong"), 0)

    def answer(name):
        return name, *run(options.program, os.path.join(options.scenarios, name + ".yaml"),
                          os.path.join(options.out, name))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, code, why in pool.map(answer, names):
            kind = {RIGHT: "right", REFUSED: "refused", SKIPPED: "skipped"}.get(code)
            if kind is None:
                kind = "argued" if name in ARGUED else "wrong"
            counts[kind] += 1
            if kind == "wrong":
                print(f"WRONG {name}: exit {code}", *why, sep="\n    ", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
