"""A scenario that runs on both drivers gets the same outcome, verdict and culprits from both, and where both say them, the same
phase and operation.

Usage: same_verdict.py SIM PROC: folders of run.py
"""
import json
import os
import sys


# Where phase and operation are not the same, and why.
OTHERWISE = {
    "hang.loader_worker": "the simulator's ranks have no threads, so they read no batch ahead of its step",
    "hang.timeout_in_broadcast": "who is late goes on while real ranks leave, and is seen one operation later",
    "resource.no_memory": "real ranks allocate for their transport, too: another allocation is the one that fails",
    "resource.no_memory_anywhere": "as resource.no_memory",
    "resource.no_memory_once": "as resource.no_memory",
}


def verdicts(folder):
    """{(id, cell): (outcome, verdict, culprits, phase, operation)}"""
    with open(os.path.join(folder, "r.json"), encoding="utf-8") as file:
        cells = json.load(file)["scenarios"]
    return {(cell["id"], cell["cell"]): (cell["outcome"], cell["verdict"], cell.get("culprit"), cell.get("phase"),
                                         operation(cell.get("op")))
            for cell in cells}


def operation(op):
    """Which one it is, as far as that is said."""
    return op and (op.get("seq"), op.get("kind"), op.get("bucket"))


def is_same(key, left, right):
    """Of phase and operation, what both have."""
    named = left[:3] == right[:3]
    return named and (key[0] in OTHERWISE or all(a is None or b is None or a == b for a, b in zip(left[3:], right[3:])))


sim, proc = verdicts(sys.argv[1]), verdicts(sys.argv[2])
both = [key for key in sim if key in proc and "SKIP" not in (sim[key][0], proc[key][0])]
different = [key for key in both if not is_same(key, sim[key], proc[key])]
for key in different:
    print(f"{' '.join(key)}: sim {sim[key]}, proc {proc[key]}")
print(f"{len(both) - len(different)} of {len(both)} cells agree")
sys.exit(bool(different or not both))
