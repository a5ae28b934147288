"""A scenario gets the same outcome, verdict and culprits under mpirun as under the own launcher, with
2 and with 4 ranks; and nothing is left behind, even if ddprove is killed in between.

Usage: mpirun.py DDPROVE SCENARIOS OUT
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time

SCENARIOS = """control/dummy_injection control/never_fired control/no_fault crash/exit0_early
    crash/sigkill_before_rendezvous crash/sigkill_in_forward crash/sigkill_in_teardown crash/signals
    hang/before_bucket hang/in_data mismatch/count mismatch/skipped stop/sigstop_continued
    stop/sigstop_forever""".split()
SKIP = 77

ddprove, scenarios, out = sys.argv[1:]
out = os.path.abspath(out)
paths = [os.path.join(scenarios, name + ".yaml") for name in SCENARIOS]


def command(launcher, ranks, paths):
    name = f"{launcher}.{ranks}"
    return [ddprove, "run", *paths, "--launcher", launcher, "--set", f"job.ranks={ranks}", "--json",
            os.path.join(out, name + ".json"), "--out", os.path.join(out, name)]


def verdicts(launcher, ranks):
    """{(ranks, id, cell): (outcome, verdict, culprits)}; ends the test if this launcher is missing."""
    with open(os.path.join(out, f"{launcher}.{ranks}.log"), "w") as log:
        code = subprocess.run(command(launcher, ranks, paths), stdout=log, stderr=log).returncode
    if code == SKIP:
        print(next(line for line in open(log.name) if "why:" in line).strip())
        sys.exit(SKIP)
    if code not in (0, 1, 3, 4):
        sys.exit(f"ddprove run: exit {code}, see {log.name}")
    with open(os.path.join(out, f"{launcher}.{ranks}.json")) as file:
        cells = json.load(file)["scenarios"]
    return {(ranks, cell["id"], cell["cell"]): (cell["outcome"], cell["verdict"], cell.get("culprit"))
            for cell in cells}


def processes():
    """Living processes of a run in our folder: their environment or command line names it."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            text = open(path + "/environ", "rb").read() + open(path + "/cmdline", "rb").read()
        except OSError:
            continue
        pid = int(os.path.basename(path))
        if out.encode() in text and pid not in (os.getpid(), os.getppid()):
            found.append(pid)
    return found


def left_behind():
    """What a run left, in words; processes get a while to disappear."""
    for _ in range(200):
        if not processes():
            break
        time.sleep(0.05)
    return ([f"process {pid}: {open(f'/proc/{pid}/cmdline').read()!r}" for pid in processes()] +
            sorted(set(glob.glob("/tmp/ompi.*")) - before) +
            glob.glob(os.path.join(out, "**/mpirun/*"), recursive=True))


def kill_in_between():
    """Kill ddprove while ranks run or hang, and mpirun with its guards above them."""
    path = os.path.join(scenarios, "hang/in_data.yaml")
    with open(os.path.join(out, "killed.log"), "w") as log:
        run = subprocess.Popen(command("mpirun", 4, [path]), stdout=log, stderr=log)
        while len(processes()) < 11 and run.poll() is None:  # it, a worker, mpirun, 4 guards and ranks
            time.sleep(0.01)
        if run.poll() is not None:
            sys.exit(f"ddprove ended before it could be killed, see {log.name}")
        run.send_signal(signal.SIGKILL)
        run.wait()


shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)
before = set(glob.glob("/tmp/ompi.*"))
mpirun = verdicts("mpirun", 2) | verdicts("mpirun", 4)
own = verdicts("own", 2) | verdicts("own", 4)
left = left_behind()
kill_in_between()
left += left_behind()
different = [key for key in own if own[key] != mpirun.get(key)]
for key in different:
    print(f"{key}: own {own[key]}, mpirun {mpirun.get(key)}")
for line in left:
    print(f"left behind: {line}")
failed = [key for key in own if own[key][0] not in ("PASS", "INCONCLUSIVE")]
for key in failed:
    print(f"{key}: {own[key]} with the own launcher")
print(f"{len(own) - len(different)} of {len(own)} cells agree")
sys.exit(bool(different or failed or left or not own))
