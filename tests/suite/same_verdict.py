"""A scenario that runs on both drivers gets the same outcome, verdict and culprits from both.

Usage: same_verdict.py SIM PROC: folders of run.py
"""
import json
import os
import sys


def verdicts(folder):
    """{(id, cell): (outcome, verdict, culprits)}"""
    with open(os.path.join(folder, "r.json"), encoding="utf-8") as file:
        cells = json.load(file)["scenarios"]
    return {(cell["id"], cell["cell"]): (cell["outcome"], cell["verdict"], cell.get("culprit"))
            for cell in cells}


sim, proc = verdicts(sys.argv[1]), verdicts(sys.argv[2])
both = [key for key in sim if key in proc and "SKIP" not in (sim[key][0], proc[key][0])]
different = [key for key in both if sim[key] != proc[key]]
for key in different:
    print(f"{' '.join(key)}: sim {sim[key]}, proc {proc[key]}")
print(f"{len(both) - len(different)} of {len(both)} cells agree")
sys.exit(bool(different or not both))
