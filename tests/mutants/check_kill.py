"""A mutant is killed: each run its patch names passes with the real program and, with the mutant, ends
in the outcome and verdict that the patch states ("FAIL|INCONCLUSIVE": in one of these, as the moment
decides in which a job of real processes is cut off).

Usage: check_kill.py PATCH DDPROVE MUTANT SCENARIOS OUT
"""
import json
import os
import re
import subprocess
import sys

patch, ddprove, mutant, scenarios, out = sys.argv[1:]


def run(program, scenario, driver, name):
    """Exit code and [(outcome, verdict)] of a scenario's cells."""
    report = os.path.join(out, name + ".json")
    path = os.path.join(scenarios, *scenario.split(".", 1)) + ".yaml"
    done = subprocess.run([program, "run", path, "--driver", driver, "--json", report,
                           "--out", os.path.join(out, name)])
    if not os.path.exists(report):
        return done.returncode, []
    with open(report) as file:
        cells = json.load(file)["scenarios"]
    os.remove(report)
    return done.returncode, [(cell["outcome"], verdict_of(cell)) for cell in cells]


def verdict_of(cell):
    """Of the run, or of the one that starts from its checkpoint."""
    restore = cell.get("restore")
    return restore["verdict"] if cell["verdict"] == "NONE" and restore is not None else cell["verdict"]


os.makedirs(out, exist_ok=True)
kills = re.findall(r"^Killed-by: (\S+) (sim|proc) (\S+) (\S+)$", open(patch).read(), re.M)
status = 0 if kills else 1
# Guests that come with ddprove lie beside it.
os.environ["PATH"] += os.pathsep + os.path.dirname(ddprove)
# Libraries that are loaded into guests lie in the folder lib beside a program's own.
beside = os.path.join(os.path.dirname(mutant), "..", "lib")
try:
    os.symlink(os.path.abspath(os.path.join(os.path.dirname(ddprove), "..", "lib")), beside)
except FileExistsError:
    pass
for scenario, driver, outcome, verdict in kills:
    code, cells = run(ddprove, scenario, driver, "original")
    if code == 77:
        print(f"skipped: {scenario} {driver} cannot be run here")
        sys.exit(77)
    if code != 0 or not cells:
        print(f"{scenario} {driver}: exit {code} without a mutant, so nothing can be told from it")
        status = 1
        continue
    code, cells = run(mutant, scenario, driver, "mutant")
    found = sorted({" ".join(cell) for cell in cells if cell[0] != "PASS"})
    if code == 0 or not found:
        print(f"{scenario} {driver}: the mutant SURVIVED")
        status = 1
    elif not set(found) <= {f"{one} {verdict}" for one in outcome.split("|")}:
        print(f"{scenario} {driver}: {', '.join(found)} instead of {outcome} {verdict}")
        status = 1
    else:
        print(f"{scenario} {driver}: killed by {', '.join(found)}")
sys.exit(status)
