"""All that a fixed campaign finds is what the file says: a change of the judge shows which cases it changes.

Usage: campaign_said.py DDPROVE CAMPAIGN OUT FILE [--write]

--write makes FILE of what is found now: look at the difference before you commit it.
"""
import difflib
import os
import shutil
import subprocess
import sys

SHOWN = 30  # lines of a difference


def lines_of(path):
    """The answers, without the head, which has a hash of the campaign's file, and without checksums."""
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").rsplit(" #", 1)[0] for line in file if not line.startswith("#")]


def difference_of(expected_path, results_path):
    """Lines of a difference; empty: there is none."""
    return list(difflib.unified_diff(lines_of(expected_path), lines_of(results_path), "expected", "found", n=0,
                                     lineterm=""))


def main():
    """Run, compare."""
    ddprove, campaign, out, expected = (os.path.abspath(arg) for arg in sys.argv[1:5])
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run([ddprove, "campaign", campaign, "--out", out], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout)
        return 1
    results = os.path.join(out, "results.txt")
    if "--write" in sys.argv:
        with open(expected, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines_of(results)))
    different = difference_of(expected, results)
    print("\n".join(different[:SHOWN]))
    print(f"{len(lines_of(results))} cases, {sum(line.startswith('-') for line in different[2:])} found otherwise")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
