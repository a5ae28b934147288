"""Two simulations of every scenario, several cells at a time and one at a time, write the same traces. The second one is of a
choice of cells (run.py's is of all).

Usage: deterministic.py DDPROVE SCENARIOS OUT SIM: the folder of run.py
"""
import filecmp
import os
import shutil
import subprocess
import sys

import memory

ddprove, scenarios, out, first_out = sys.argv[1:]


def traces(folder):
    """Paths of the run's trace.txt files, relative to its folder."""
    return {os.path.relpath(os.path.join(where, "trace.txt"), folder)
            for where, _, files in os.walk(folder) if "trace.txt" in files}


shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)
scratch = memory.make(out)
first_runs, second_runs = os.path.join(first_out, "a b", "runs"), os.path.join(scratch, "runs")
with open(os.path.join(out, "log"), "w", encoding="utf-8") as log:
    code = subprocess.run([ddprove, "run", scenarios, "--driver", "sim", "-j", "1", "--cells", "covering",
                           "--out", second_runs],
                          stdout=log, stderr=log, check=False).returncode
if code not in (0, 1, 3, 4):
    shutil.rmtree(scratch)
    sys.exit(f"{ddprove} run: exit {code}, see {log.name}")
first, second = traces(first_runs), traces(second_runs)
for path in sorted(second - first):
    print(f"{path}: only the second run wrote it")
different = [path for path in sorted(first & second)
             if not filecmp.cmp(os.path.join(first_runs, path), os.path.join(second_runs, path), shallow=False)]
for path in different:
    print(f"{path}: the runs differ")
for path in different:  # so that they can be looked at
    shutil.copytree(os.path.join(second_runs, os.path.dirname(path)), os.path.join(out, "runs", os.path.dirname(path)))
shutil.rmtree(scratch)
print(f"{len(first & second) - len(different)} of {len(second)} traces are equal")
sys.exit(bool(second - first or different or len(second) < 1000))
