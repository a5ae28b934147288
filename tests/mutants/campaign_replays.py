"""What a campaign finds wrong is found again, byte for byte: of a program with a bug of its own, each case that a campaign
keeps is run again from the kept plan, twice, by the kept plan alone and by the command that the first run prints.

Usage: campaign_replays.py MUTANT CAMPAIGN OUT
"""
import filecmp
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

CASES, LEAST = 60, 5


def run(command, folder):
    """Output; of a program that must find something wrong."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 1:
        sys.exit(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def files_of(folder):
    """Paths of all files below a folder, from it on."""
    return sorted(os.path.relpath(os.path.join(parent, name), folder)
                  for parent, _, names in os.walk(folder) for name in names)


def compare(first, second):
    """Both folders hold the same bytes."""
    names = files_of(first)
    if names != files_of(second) or not any(name.endswith("trace.txt") for name in names):
        sys.exit(f"{first} holds {names}, {second} {files_of(second)}")
    for name in names:
        if not filecmp.cmp(os.path.join(first, name), os.path.join(second, name), shallow=False):
            sys.exit(f"{os.path.join(first, name)} and {second}'s differ")


def replay(mutant, plan, folder):
    """Record and report of a plan's run, and the command that it says runs it again."""
    os.makedirs(folder)
    shutil.copy(plan, os.path.join(folder, "kept.yaml"))
    said = run([mutant, "run", "kept.yaml", "--driver", "sim", "--out", "run", "--json", "report.json"], folder)
    again = re.search(r"reproduce: ddprove (.*)", said)
    # A report says how long the run took on this machine.
    report = os.path.join(folder, "report.json")
    with open(report, encoding="utf-8") as file:
        text = re.sub(r'"wall_ms": [0-9.e+-]+', '"wall_ms": 0', file.read())
    with open(report, "w", encoding="utf-8") as file:
        file.write(text)
    verdicts = [name for name in files_of(folder) if name.endswith("verdict.json")]
    if again is None or len(verdicts) != 1:
        sys.exit(f"no command, or no single verdict: {said}")
    with open(os.path.join(folder, verdicts[0]), encoding="utf-8") as file:
        verdict = json.load(file)
    with open(os.path.join(folder, "said.txt"), "w", encoding="utf-8") as file:
        file.write(said)
    return verdict, os.path.dirname(verdicts[0]), again.group(1)


def masked(text):
    """As a signature has it."""
    return re.sub(r"\d+", "#", text)


def check_case(mutant, kept, out):
    """One case that the campaign has kept."""
    name = os.path.basename(kept)
    plan = os.path.join(kept, "plan.yaml")
    folders = [os.path.join(out, turn, name) for turn in ("first", "second")]
    verdict, record, command = replay(mutant, plan, folders[0])
    replay(mutant, plan, folders[1])
    compare(*folders)
    if not filecmp.cmp(plan, os.path.join(folders[0], record, "plan.yaml"), shallow=False):
        sys.exit(f"{name}: another plan was run")
    with open(os.path.join(kept, "signature.txt"), encoding="utf-8") as file:
        signature = file.read().rstrip("\n")
    wanted = [verdict["outcome"], verdict["verdict"], masked(verdict["reason"][:60])]
    if not all(part in signature for part in wanted):
        sys.exit(f"{name} was {signature}, and is {wanted}")
    # The printed command, from the same folder: its record is the first one's, but for where it lies.
    run([mutant, *shlex.split(command), "--out", "again"], folders[0])
    shown = os.path.join(folders[0], record)
    again = os.path.join(folders[0], "again", *record.split(os.sep)[1:])
    for file_name in files_of(shown):
        if file_name != "verdict.json" and not filecmp.cmp(os.path.join(shown, file_name),
                                                           os.path.join(again, file_name), shallow=False):
            sys.exit(f"{name}: {file_name} of the command's run differs")
    return signature


def main():
    """Run the campaign twice, then all that it kept."""
    mutant, campaign, out = (os.path.abspath(arg) for arg in sys.argv[1:4])
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    for turn in ("all", "same"):
        run([mutant, "campaign", campaign, "--cases", str(CASES), "--driver", "sim", "--out", turn], out)
    failed = os.path.join(out, "all", "failed")
    if files_of(failed) != files_of(os.path.join(out, "same", "failed")):
        sys.exit("the same campaign kept other cases")
    for name in files_of(failed):
        if not filecmp.cmp(os.path.join(failed, name), os.path.join(out, "same", "failed", name), shallow=False):
            sys.exit(f"the same campaign kept another {name}")
    kept = sorted(os.listdir(failed))
    if len(kept) < LEAST:
        sys.exit(f"only {len(kept)} cases were wrong")
    signatures = {check_case(mutant, os.path.join(failed, name), out) for name in kept}
    print(f"{len(kept)} of {CASES} cases were wrong in {len(signatures)} ways, and are again")


if __name__ == "__main__":
    main()
