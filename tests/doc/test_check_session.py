"""check_session.py refuses a page that is wrong, and accepts one whose times and dates moved."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_session  # noqa: E402

CASES = [
    ("$ echo done in 3.2 ms\ndone in 99 ms", 0),
    ("$ echo one; echo two; echo three\none\n...", 0),
    ("$ echo 'named in 1 ms (7.0 ms after the first fault there)'\nnamed in 0.03 ms", 0),
    ("$ echo 'a   b'\na b", 0),
    ("$ false\n[exit 1]", 0),
    ("$ printf 'a\\nb\\n' |\n> tail -n 1\nb", 0),
    ("$ echo runs/20260101-000000/x\nruns/20251231-235959/x", 0),
    ("$ echo one\ntwo", 1),
    ("$ echo 4 ranks\n3 ranks", 1),
    ("$ echo one; echo two\none", 1),
    ("$ false", 1),
    ("no command", 1),
]
bad = 0
with tempfile.TemporaryDirectory() as root:
    page = os.path.join(root, "page.md")
    for body, expected in CASES:
        with open(page, "w") as file:
            file.write(f"text\n```console\n{body}\n```\n```sh\n$ exit 9\n```\n")
        if check_session.main(page, root, root) != expected:
            print(f"WRONG, {expected} was expected: {body!r}")
            bad += 1
    with open(page, "w") as file:
        file.write("<!-- not run -->\n```console\n$ exit 3\n```\n```console\n$ true\n```\n")
    bad += check_session.main(page, root, root)
sys.exit(1 if bad else 0)
