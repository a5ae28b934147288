"""A mutant's link map must show its mutated objects and not the archive members they replace.

Usage: check_link.py MAP 'libNAME.a(FILE.o)'...
"""
import re
import sys

text = open(sys.argv[1]).read()
status = 0
for member in sys.argv[2:]:
    name = re.fullmatch(r"lib\w+\.a\((.+)\)", member).group(1)
    if member in text:
        print(f"{member} was linked: the mutant is not in the program", file=sys.stderr)
        status = 1
    if not re.search(r"ddprove_mutant_\w+\.dir/\S*/" + re.escape(name), text):
        print(f"no mutated {name} was linked", file=sys.stderr)
        status = 1
sys.exit(status)
