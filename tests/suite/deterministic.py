"""Two simulations of every scenario, one cell at a time and four at a time, write the same traces.

Usage: deterministic.py DDPROVE SCENARIOS OUT
"""
import filecmp
import os
import shutil
import subprocess
import sys

ddprove, scenarios, out = sys.argv[1:]


def traces(name, jobs):
    """Paths of the run's trace.txt files, relative to its folder."""
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    with open(os.path.join(out, name + ".log"), "w") as log:
        code = subprocess.run([ddprove, "run", scenarios, "--driver", "sim", "--seed", "1", "-j", jobs,
                               "--out", folder], stdout=log, stderr=log).returncode
    if code not in (0, 1, 3, 4):
        sys.exit(f"{ddprove} run: exit {code}, see {name}.log")
    return {os.path.relpath(os.path.join(where, "trace.txt"), folder)
            for where, _, files in os.walk(folder) if "trace.txt" in files}


os.makedirs(out, exist_ok=True)
first, second = traces("first", "1"), traces("second", "4")
for path in sorted(first ^ second):
    print(f"{path}: only one of the runs wrote it")
different = [path for path in sorted(first & second)
             if not filecmp.cmp(os.path.join(out, "first", path), os.path.join(out, "second", path),
                                shallow=False)]
for path in different:
    print(f"{path}: the runs differ")
print(f"{len(first & second) - len(different)} of {len(first | second)} traces are equal")
sys.exit(bool(first ^ second or different or not first))
