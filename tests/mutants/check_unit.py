"""A mutant is killed by a unit: the case that its patch names passes in the unit's own program and, with
the mutant, fails, and the first check that fails says the text that the patch states. (Of a case of several
ranks each one fails, and so does what they check behind that.)

Usage: check_unit.py PATCH UNIT MUTANT
"""
import re
import subprocess
import sys

patch, unit, mutant = sys.argv[1:]
text = open(patch).read()
case = re.search(r"^Killed-by-unit: \S+ (\S+)$", text, re.M).group(1)
stated = re.search(r"^Killed-with: (.+)$", text, re.M).group(1)


def run(program):
    done = subprocess.run([program, "--gtest_filter=" + case], capture_output=True, text=True)
    return done.returncode, done.stdout


code, output = run(unit)
if "[  SKIPPED ]" in output:
    print(f"{case} is skipped here: {output}")
    sys.exit(77)
if code != 0 or "[  PASSED  ] 1 test." not in output:
    sys.exit(f"{case} does not pass without a mutant, so nothing can be told from it\n{output}")
code, output = run(mutant)
if code == 0:
    sys.exit(f"{case}: the mutant SURVIVED")
# GoogleTest heads each failed check with this word.
failures = re.findall(r": Failure\n(.*?)(?=\n\S+: Failure|\n\[)", output, re.S)
if not failures or stated not in failures[0]:
    sys.exit(f"{case}: not killed with \"{stated}\"\n{output}")
print(f"{case}: killed with \"{stated}\"")
