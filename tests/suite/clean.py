"""When all tests have looked at a run: what it left in memory goes, and of cells that failed it is kept on the disk.

Usage: clean.py RUN: a folder of run.py
"""
import json
import os
import shutil
import sys

import memory

os.chdir(sys.argv[1])
if os.path.islink("a b"):
    cells = []
    if os.path.exists("r.json"):
        with open("r.json", encoding="utf-8") as file:
            cells = json.load(file)["scenarios"]
    for cell in cells:
        if cell["outcome"] not in ("PASS", "SKIP") and os.path.isdir(cell["run_dir"]):
            kept = os.path.join("failed", os.path.relpath(cell["run_dir"], os.path.join("a b", "runs")))
            shutil.copytree(cell["run_dir"], kept)
            print(f"kept: {os.path.abspath(kept)}")
    memory.remove("a b")
