"""Runs the sessions that a page shows, and compares what they print with what the page says.

In a ```console block a line "$ COMMAND" is run by sh in a copy-free view of ROOT, with BIN first in
PATH and build/bin/ddprove meaning ddprove; "> ..." continues a command. The lines up to the next
command are its output. A line "..." stands for any lines; "[exit N]" as the last one states the exit
status, else 0 is meant. Numbers with a time unit, dates, run folders' stamps, and the width of spaces
are not compared. A block after <!-- not run --> is left alone: installing, or what needs a GPU.

Usage: check_session.py PAGE ROOT BIN
"""
import os
import re
import subprocess
import sys
import tempfile


def sessions(text):
    """[(line number, command, [expected lines], exit status)]"""
    found, is_console, is_skipped = [], False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() == "<!-- not run -->":
            is_skipped = True
        elif line.startswith("```"):
            is_console = line.strip() == "```console" and not is_skipped
            is_skipped = is_skipped and line.strip() != "```"
        elif is_console and line.startswith("$ "):
            found.append([number, line[2:], [], 0])
        elif is_console and line.startswith("> ") and found and not found[-1][2]:
            found[-1][1] += "\n" + line[2:]
        elif is_console and found:
            status = re.fullmatch(r"\[exit (\d+)\]", line.strip())
            if status:
                found[-1][3] = int(status.group(1))
            else:
                found[-1][2].append(line)
    return found


def stable(line):
    line = re.sub(r"\x1b\[[0-9;]*[mK]", "", line)
    line = re.sub(r"\d{8}-\d{6}", "<date>", line)
    line = re.sub(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?", "<date>", line)
    line = re.sub(r"\d+(\.\d+)? ?(ns|us|µs|ms|s|min)\b", "<time>", line)
    # A second time is shown where it differs from the first one by a millisecond: that is chance here.
    line = re.sub(r" \(<time> after the first fault there\)", "", line)
    line = re.sub(r"\d+(\.\d+)? (steps/s|cases/s)", "<rate>", line)
    return re.sub(r"\s+", " ", line).strip()


def matches(expected, printed):
    """Lists of stable lines; "..." in expected matches any number of lines."""
    if not expected:
        return not printed
    if expected[0] == "...":
        return any(matches(expected[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and expected[0] == printed[0] and matches(expected[1:], printed[1:])


def lines_of(text_lines):
    return [line for line in map(stable, text_lines) if line]


def main(page, root, binary_folder):
    with open(page) as file:
        found = sessions(file.read())
    if not found:
        print(f"{page}: no ```console block with a \"$ \" line")
        return 1
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        # The page's commands see the repository, and write beside it, not into it.
        for name in os.listdir(root):
            if name not in ("build", "runs", ".git"):
                os.symlink(os.path.join(root, name), os.path.join(folder, name))
        os.mkdir(os.path.join(folder, "build"))
        os.symlink(binary_folder, os.path.join(folder, "build", "bin"))
        env = dict(os.environ, PATH=binary_folder + os.pathsep + os.environ["PATH"])
        for number, command, expected, status in found:
            done = subprocess.run(["sh", "-c", command], cwd=folder, env=env, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            is_good = done.returncode == status and matches(lines_of(expected),
                                                            lines_of(done.stdout.splitlines()))
            if not is_good:
                bad += 1
                print(f"{page}:{number}: $ {command}\n  the page says, with exit {status}:")
                print("".join(f"    {line}\n" for line in expected), end="")
                print(f"  it prints, with exit {done.returncode}:")
                print("".join(f"    {line}\n" for line in done.stdout.splitlines()), end="")
    print(f"{len(found) - bad} of {len(found)} commands do what {os.path.basename(page)} says")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
