"""Two simulations of every scenario, several cells at a time and one at a time, write the same traces.

Usage: deterministic.py DDPROVE SCENARIOS OUT SIM: the folder of run.py
"""
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile

ROOM_BYTES = 8 << 30  # of memory: the runs' files take 2 GiB, and only a few of them are looked at

ddprove, scenarios, out, first_out = sys.argv[1:]


def traces(folder):
    """Paths of the run's trace.txt files, relative to its folder."""
    return {os.path.relpath(os.path.join(where, "trace.txt"), folder)
            for where, _, files in os.walk(folder) if "trace.txt" in files}


def available_bytes():
    """Of memory, for a file system in it; 0: there is none, or nobody says."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        room = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return min(int(lines["MemAvailable"].split()[0]) << 10, room.f_bavail * room.f_frsize)


shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)
scratch = tempfile.mkdtemp(prefix="ddprove-", dir="/dev/shm" if available_bytes() >= ROOM_BYTES else out)
first_runs, second_runs = os.path.join(first_out, "a b", "runs"), os.path.join(scratch, "runs")
with open(os.path.join(out, "log"), "w", encoding="utf-8") as log:
    code = subprocess.run([ddprove, "run", scenarios, "--driver", "sim", "-j", "1", "--out", second_runs],
                          stdout=log, stderr=log, check=False).returncode
if code not in (0, 1, 3, 4):
    shutil.rmtree(scratch)
    sys.exit(f"{ddprove} run: exit {code}, see {log.name}")
first, second = traces(first_runs), traces(second_runs)
for path in sorted(first ^ second):
    print(f"{path}: only one of the runs wrote it")
different = [path for path in sorted(first & second)
             if not filecmp.cmp(os.path.join(first_runs, path), os.path.join(second_runs, path), shallow=False)]
for path in different:
    print(f"{path}: the runs differ")
for path in different:  # so that they can be looked at
    shutil.copytree(os.path.join(second_runs, os.path.dirname(path)), os.path.join(out, "runs", os.path.dirname(path)))
shutil.rmtree(scratch)
print(f"{len(first & second) - len(different)} of {len(first | second)} traces are equal")
sys.exit(bool(first ^ second or different or not first))
