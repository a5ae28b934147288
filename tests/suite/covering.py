"""What --cells covering left out was a combination, never a value: each value that a cell which was left out has of an axis,
another cell of its scenario that was run has too.

Usage: covering.py ALL COVERING: folders of run.py
"""
import json
import os
import sys


def cells_of(folder):
    """{(id, cell): outcome}"""
    with open(os.path.join(folder, "r.json"), encoding="utf-8") as file:
        return {(cell["id"], cell["cell"]): cell["outcome"] for cell in json.load(file)["scenarios"]}


def values_of(cell):
    """Its axes' values, "path=value": commas within brackets or quotes are the value's own."""
    found, depth, quote, begin = [], 0, None, 0
    for at, letter in enumerate(cell):
        if quote:
            quote = None if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(cell[begin:at])
            begin = at + 1
    return found + [cell[begin:]]


every, chosen = cells_of(sys.argv[1]), cells_of(sys.argv[2])
run = {(name, value) for (name, cell), outcome in chosen.items() if outcome != "SKIP" for value in values_of(cell)}
left_out = [key for key in every if key not in chosen]
bad = [f"{name}: no cell with {value} was run" for name, cell in left_out for value in values_of(cell)
       if (name, value) not in run]
bad += [f"{name} [{cell}]: is no cell of it" for name, cell in chosen if (name, cell) not in every]
print("\n".join(sorted(set(bad))))
print(f"{len(left_out)} of {len(every)} cells were left out, {len(set(bad))} values with them")
sys.exit(bool(bad or not left_out))
