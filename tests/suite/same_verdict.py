"""A scenario that runs on both drivers gets the same outcome, verdict and culprits from both.

Usage: same_verdict.py DDPROVE SCENARIOS OUT
"""
import json
import os
import subprocess
import sys

ddprove, scenarios, out = sys.argv[1:]


def verdicts(driver):
    """{(id, cell): (outcome, verdict, culprits)}"""
    report = os.path.join(out, driver + ".json")
    with open(os.path.join(out, driver + ".log"), "w") as log:
        code = subprocess.run([ddprove, "run", scenarios, "--driver", driver, "--json", report,
                               "--out", os.path.join(out, driver)], stdout=log, stderr=log).returncode
    if code not in (0, 1, 3, 4):
        sys.exit(f"{ddprove} run: exit {code}, see {driver}.log")
    with open(report) as file:
        cells = json.load(file)["scenarios"]
    return {(cell["id"], cell["cell"]): (cell["outcome"], cell["verdict"], cell.get("culprit"))
            for cell in cells}


os.makedirs(out, exist_ok=True)
sim, proc = verdicts("sim"), verdicts("proc")
both = [key for key in sim if key in proc and "SKIP" not in (sim[key][0], proc[key][0])]
different = [key for key in both if sim[key] != proc[key]]
for key in different:
    print(f"{' '.join(key)}: sim {sim[key]}, proc {proc[key]}")
print(f"{len(both) - len(different)} of {len(both)} cells agree")
sys.exit(bool(different or not both))
