"""Each mutant that ddpcore/BUGS.md names for a bug is killed by a test of the same row, and at least 40 bugs have one.

Usage: bugs.py SOURCE
"""
import os
import re
import sys

MUTANTS_MIN = 40


def killers(patch):
    """What a patch is killed by, as BUGS.md writes it."""
    with open(patch) as file:
        text = file.read()
    scenarios = [name.replace(".", "/", 1) for name in re.findall(r"^Killed-by: (\S+) ", text, re.M)]
    units = ["unit_" + " ".join(found) for found in re.findall(r"^Killed-by-unit: (\S+) (\S+)$", text, re.M)]
    return set(scenarios + units)


def check(source, page):
    """What is wrong with a page; and how many of its rows have a mutant."""
    wrong, count = [], 0
    for row in page.splitlines():
        shown = re.findall(r"`([^`]+)`", row.split("|")[3]) if row.count("|") == 4 else []
        mutants = [name[len("mutant."):] for name in shown if name.startswith("mutant.")]
        count += bool(mutants)
        for name in mutants:
            patch = os.path.join(source, "tests", "mutants", name + ".patch")
            if not os.path.exists(patch):
                wrong.append(f"there is no mutant {name}")
            elif not killers(patch) & set(shown):
                wrong.append(f"{name} is killed by {', '.join(sorted(killers(patch)))}, which its row does not name")
    if count < MUTANTS_MIN:
        wrong.append(f"{count} bugs have a mutant, not {MUTANTS_MIN}")
    return wrong, count


source = sys.argv[1]
with open(os.path.join(source, "ddpcore", "BUGS.md")) as file:
    text = file.read()
# It must be able to fail: without the tests of one row, and without its mutants.
first = re.search(r"`mutant\.\w+`", text[text.index("\n|---"):]).group(0)
others = check(source, re.sub(r"(\| )`.* (" + re.escape(first) + ")", r"\1\2", text))[0]
if not others or not check(source, text.replace("`mutant.", "`"))[0]:
    sys.exit("anything passes")
problems, found = check(source, text)
print("\n".join(problems + [f"{found} bugs have a mutant that a test of theirs kills"]))
sys.exit(bool(problems))
