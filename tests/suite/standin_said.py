"""What ddprove says of devices that stand still, and of the trees in which NCCL sums, on the stand-ins of CUDA and NCCL, is
what tests/data/standin.txt has: findings with all that they name, their words, and what the monitor saw. Ranks are real
processes in real time: compared is what does not depend on it, since nothing has moved for longer than a budget when the
verdict is given. What differs is run again, in case the machine stood still meanwhile.

Usage: standin_said.py DDPROVE_STANDIN ROOT OUT FILE [--write]

The environment names the stand-ins (DDPROVE_CUBLAS, DDPROVE_NCCL). --write makes FILE of what is said now: look at the
difference before you commit it.
"""
import json
import os
import re
import shutil
import subprocess
import sys

import said

# (what NCCL's stand-in does: tests/standin/nccl/script.c, scenarios)
RUNS = [
    ("", ["scenarios/device/spin_in_forward.yaml", "scenarios/device/spin_in_comm.yaml",
          "scenarios/device/spin_in_two.yaml", "scenarios/device/spin_in_optimizer.yaml",
          "scenarios/device/host_hang_after_launch.yaml", "scenarios/device/event_skipped.yaml",
          "scenarios/device/events_skipped.yaml"]),
    ("rank1:op33=hang", ["tests/standin/hangs/comm.yaml"]),
    ("rank1:launch33=hang", ["tests/standin/hangs/launch.yaml"]),
    ("rank2:op2=hang", ["tests/standin/hangs/comm_ended.yaml"]),
    ("rank1:op63=hang", ["tests/standin/hangs/probe.yaml"]),
    ("rank2:corrupt_after_op=14", ["tests/standin/probes/corrupted.yaml"]),
    ("", ["tests/standin/probes/healthy.yaml", "tests/standin/probes/reordered.yaml",
          "tests/standin/memory/refused.yaml", "tests/standin/memory/refused_unchecked.yaml"]),
    ("sum=exact", ["tests/standin/probes/exact.yaml"]),
]
SILENT = re.compile(r"for (\d+) ms \(budget (\d+) ms")
TIMES = 1000  # a silence above its budget by so much is a wrong number, not a busy machine: no test lasts as long
STARVED = re.compile(r"; kept from a CPU for ~ ms")
PAUSED = re.compile(r"^    HANG\.DETECTOR \|.*\n.*\n", re.MULTILINE)  # the machine stood still, and the monitor with it
ONE_BY_ONE = ("device.spin_in_two",)  # culprits whose budgets end one after the other: seen is what the first one's end showed
TRIES = 3


def silence(found):
    """How long nothing moved, if that can be: longer than the budget."""
    value, budget = map(int, found.groups())
    return f"for ~ ms (budget {budget} ms" if budget <= value < budget * TIMES else found.group(0)


def lines_of(cells, out):
    """What is said of some cells, and seen, without what differs from run to run."""
    lines = []
    for cell in sorted(cells, key=lambda cell: (cell["id"], cell["cell"])):
        seen_in = None if cell["id"] in ONE_BY_ONE or any(line.startswith(cell["id"] + " ") for line in lines) else out
        text = PAUSED.sub("", "\n".join(said.lines_of([cell], seen_in)[1:]) + "\n")
        lines += [STARVED.sub("", SILENT.sub(silence, line)) for line in text.splitlines()]
    return lines


def difference_of(expected, cells, out):
    """Lines of a difference with the file, of the scenarios of these cells; empty: there is none."""
    with open(expected, encoding="utf-8") as file:
        lines = file.read().splitlines()
    wanted = {cell["id"] for cell in cells}
    kept, is_kept = [], False
    for line in lines:
        is_kept = is_kept if line.startswith("    ") else line.split(" ", 1)[0] in wanted
        kept += [line] if is_kept else []
    return said.changes(["", *kept], ["", *lines_of(cells, out)])


def run(program, root, out):
    """All cells; None, and what was said, if one is not as expected."""
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    cells = []
    for number, (script, scenarios) in enumerate(RUNS):
        report = os.path.join(out, f"{number}.json")
        done = subprocess.run([program, "run", *(os.path.join(root, one) for one in scenarios), "--driver", "proc", "-j", "8",
                               "--out", f"runs{number}", "--json", report], cwd=out, check=False, text=True,
                              env={**os.environ, "DDP_NCCL_STANDIN_SCRIPT": script}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode != 0:
            return None, done.stdout
        with open(report, encoding="utf-8") as file:
            cells += json.load(file)["scenarios"]
    return cells, ""


def main():
    """Run, and compare or write."""
    program, root, out, expected = (os.path.abspath(arg) for arg in sys.argv[1:5])
    for _ in range(TRIES):
        cells, printed = run(program, root, out)
        if cells is None:
            print(printed)
            return 1
        if "--write" in sys.argv:
            with open(expected, "w", encoding="utf-8") as file:
                file.write("".join(line + "\n" for line in lines_of(cells, out)))
            return 0
        different = difference_of(expected, cells, out)
        if not different:
            return 0
        print("\n".join(different))
    return 1


if __name__ == "__main__":
    sys.exit(main())
