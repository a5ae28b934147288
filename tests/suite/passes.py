"""Every cell of a run passed, or could not run here.

Usage: passes.py RUN: a folder of run.py
"""
import json
import os
import sys

folder = sys.argv[1]
with open(os.path.join(folder, "r.json"), encoding="utf-8") as file:
    cells = json.load(file)["scenarios"]
bad = [cell for cell in cells if cell["outcome"] not in ("PASS", "SKIP")]
for cell in bad:
    print(f"{cell['outcome']} {cell['id']} {cell['cell']}: {cell['verdict']}: {cell['reason']}\n    {cell['reproduce']}")
passed = sum(cell["outcome"] == "PASS" for cell in cells)
print(f"{passed} passed, {len(bad)} failed, {len(cells) - passed - len(bad)} skipped")
sys.exit(bool(bad or not passed))
