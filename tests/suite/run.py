"""Runs every scenario on one driver, for the tests of the suite that look at what came of it.

Usage: run.py DDPROVE SCENARIOS OUT sim|proc

In OUT: "a b/runs" (a folder with a space, in memory if there is room: see clean.py), r.json, r.xml, log, code (the exit code), bin/ddprove.
"""
import os
import shutil
import subprocess
import sys

import memory

ddprove, scenarios, out, driver = (os.path.abspath(arg) if at < 3 else arg for at, arg in enumerate(sys.argv[1:]))
memory.remove(os.path.join(out, "a b"))
shutil.rmtree(out, ignore_errors=True)
os.makedirs(os.path.join(out, "bin"))
os.chdir(out)
memory.link(os.path.join(out, "a b"))
os.symlink(ddprove, os.path.join("bin", "ddprove"))
# On real processes most of the time is spent in waits, and a cell costs ten times what it does in the simulator: there a
# choice of cells is run, which covering.py looks at. ci/deep proc runs all of them.
jobs = (os.cpu_count() or 1) * (2 if driver == "proc" else 1)
cells = "covering" if driver == "proc" else "all"
with open("log", "w", encoding="utf-8") as log:
    code = subprocess.run([ddprove, "run", scenarios, "--driver", driver, "-j", str(jobs), "--cells", cells, "--out",
                           "a b/runs", "--json", "r.json", "--junit", "r.xml"], stdout=log, stderr=log,
                          check=False).returncode
with open("code", "w", encoding="utf-8") as file:
    file.write(str(code))
print(f"exit {code}")
sys.exit(code not in (0, 1, 3, 4))
