"""`explain` names the culprit as the monitor saw it, `check` knows how a run was made.

Usage: explain.py DDPROVE SCENARIOS OUT sim|proc|standin

standin: ddprove on the stand-ins for a GPU's libraries, with a scenario of the device.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

SETTINGS = ["--set", "job.ranks=3", "--set", "faults.0.at.rank=1"]
WAIT = r"^ *r[02] waits for r1: all_reduce seq \d+ \(bucket \d+: fc\d\.bias, fc\d\.weight\)$"
# What explain says about r1, and of those who wait for it.
SIGHTS = {
    "hang/before_bucket": [r"^ *r1 \(culprit\) running, in step 2, backward; .*; has not posted all_reduce seq \d+ \(bucket 1: "
                           r"fc1\.bias, fc1\.weight\); silent in host code for [\d.]+ ms \(budget \d+ ms\)", WAIT],
    "stop/sigstop_forever": [r"^ *r1 \(culprit\) stopped for [\d.]+ ms, in step 2, backward; posted all_reduce ", WAIT],
    "mismatch/redop": [r"^ *r1 \(culprit\) .*; posted all_reduce seq 10 \(bucket 1: fc1\.bias, fc1\.weight\), not the "
                       r"program's \(MISMATCH\.REDUCTION\)"],
    "crash/sigkill_in_allreduce": [r"^ *r1 \(culprit\) ended by signal 9 \(SIGKILL\), [\d.]+ ms ago, last seen in step 5, "
                                   r"backward; "],
}
DEVICE_SIGHTS = {
    "device/spin_in_comm": [r"^ *r1 \(culprit\) running, ",
                            r"^ *r1 device: compute idle \(mark \d+\); comm before all_reduce seq \d+ \(bucket 1: [^)]*\): "
                            r"enqueued, not started; no mark for [\d.]+ ms$",
                            r"^ *r0 device: .*; comm in all_reduce seq \d+ \(bucket 1: [^)]*\): started, not ended; ",
                            r"^ *r0 device waits for r1 device: all_reduce seq \d+ \(bucket 1: fc1\.bias, fc1\.weight\)$"],
}
SKIP = 77

ddprove, scenarios, out, driver = sys.argv[1:]
ddprove, scenarios, out = (os.path.abspath(path) for path in (ddprove, scenarios, out))
failures = 0


def expect(is_true, text):
    """Note a failure."""
    global failures
    if not is_true:
        failures += 1
        print(f"FAIL {text}")


def run(*args):
    """Exit code and output of ddprove."""
    done = subprocess.run([ddprove, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def record(name, folder, *options):
    """The folder of the only cell of a scenario."""
    code, text = run("run", os.path.join(scenarios, name + ".yaml"), "--out", folder, *options)
    cells = [os.path.dirname(path) for path in glob.glob(f"{folder}/*/**/verdict.json", recursive=True)]
    if code == SKIP:
        print(text)
        sys.exit(SKIP)
    expect(code == 0 and len(cells) == 1, f"run {name}: exit {code}, {cells}: {text}")
    return cells[0]


def read(*path):
    """A file's text."""
    with open(os.path.join(*path)) as file:
        return file.read()


def check_sights(name, sights, folder):
    """Everything that is to be seen is said, from graph.txt and before the timeline."""
    code, text = run("explain", folder, "--events")
    saw, _, timeline = text.partition("    the last events of each rank before ")
    expect(code == 0 and "    what the monitor saw:\n" in saw, f"explain {name}: exit {code}: {text}")
    expect(re.search(r"^ +\d+\.\d+ ms +\d+ r1#\d+ ", timeline, re.M), f"explain {name}: no timeline: {text}")
    for line in read(folder, "graph.txt").splitlines():
        expect(f"        {line}\n" in saw, f"explain {name}: not said: {line}")
    for sight in sights:
        expect(re.search(sight, saw, re.M), f"explain {name}: nothing like {sight}: {text}")


def check_order(name, folder):
    """What happened, what to do, and the ranks come first; events only if asked for."""
    code, text = run("explain", folder)
    verdict = json.loads(read(folder, "verdict.json"))
    lines = text.splitlines()
    expect(code == 0 and lines[0] == f"{verdict['verdict']}: {verdict['text']}", f"explain {name}: no headline: {text}")
    expect(any(line.startswith("    next: ") for line in lines[:6]), f"explain {name}: no next step: {text}")
    expect(re.search(r"^    1 +culprit  ", text, re.M), f"explain {name}: no culprit in the table: {text}")
    expect(len(re.findall(r"^    \d+ +(?:culprit|victim|-) ", text, re.M)) == 3, f"explain {name}: not 3 ranks: {text}")
    expect("what the monitor saw:" not in text and "the last events" not in text.partition("with --events")[0],
           f"explain {name}: events that nobody asked for: {text}")


def check_grouped():
    """Ranks that are alike share a line, beyond 8 of them."""
    folder = record("hang/before_bucket", "grouped", "--driver", driver, "--set", "job.ranks=12",
                    "--set", "faults.0.at.rank=5")
    text = run("explain", folder)[1]
    rows = re.findall(r"^    ([\d,-]+) +(culprit|victim|-) .*  ([\d,]+|-)$", text, re.M)
    ranks = []
    for row in rows:
        for part in row[0].split(","):
            first, _, last = part.partition("-")
            ranks += range(int(first), int(last or first) + 1)
    expect(sorted(ranks) == list(range(12)) and len(rows) < 12, f"12 ranks are not grouped: {text}")
    expect(("5", "culprit", "-") in rows and any(row[2] == "5" for row in rows), f"who waits for 5 is not said: {text}")


def check_without(name, folder):
    """A run folder without graph.txt is explained from its trace, and judged the same."""
    judged = run("check", folder)
    os.remove(os.path.join(folder, "graph.txt"))
    expect(run("check", folder) == judged, f"check {name}: needs graph.txt")
    code, text = run("explain", folder)
    expect(code == 0 and "    the ranks at the first diagnosis, " in text and "what the monitor saw:" not in text,
           f"explain {name} without graph.txt: exit {code}: {text}")


def check_made(options):
    """A run that fails is judged to fail again, with the command that made it."""
    settings = [*options, "--set", "expect.culprit=[2]"]
    code, text = run("run", os.path.join(scenarios, "crash/sigkill_in_forward.yaml"), "--out", "made", *SETTINGS, *settings)
    if code == SKIP:
        print(text)
        return
    folder = os.path.dirname(glob.glob("made/*/**/verdict.json", recursive=True)[0])
    made = json.loads(read(folder, "verdict.json"))
    expect(code == 1 and made["reproduce"].endswith(" ".join(options)), f"run {options}: exit {code}: {text}")
    code, text = run("check", folder, *(option for option in options if option == "--enforce-time"))
    expect(code == 1 and f"reproduce: {made['reproduce']}\n" in text, f"check {options}: exit {code}: {text}")
    shutil.rmtree("made")


shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)
os.chdir(out)
if driver == "standin":
    for scenario, sights in DEVICE_SIGHTS.items():
        check_sights(scenario, sights, record(scenario, "once", "--driver", "proc"))
    sys.exit(failures > 0)
if driver == "sim":  # real survivors hear of a death by themselves, and may be gone before the monitor looks
    SIGHTS["crash/sigkill_in_allreduce"].append(WAIT.replace("r1", "r[012]"))
for scenario, sights in SIGHTS.items():
    once = record(scenario, f"once/{scenario}", "--driver", driver, *SETTINGS)
    check_sights(scenario, sights, once)
    check_order(scenario, once)
    if driver == "sim":
        again = record(scenario, f"again/{scenario}", "--driver", driver, *SETTINGS)
        expect(read(once, "graph.txt") == read(again, "graph.txt"), f"{scenario}: another graph.txt for the same seed")
    check_without(scenario, once)
check_grouped()
# A run in which nothing is found takes away what an earlier one left in its folder.
healthy = record("equivalence/mlp_w4", "healthy", "--driver", driver, "--set", "job.ranks=2")
expect(not os.path.exists(os.path.join(healthy, "graph.txt")), "a graph of a healthy run")
with open(os.path.join(healthy, "graph.txt"), "w") as file:
    file.write("r0 waits for r1\n")
record("equivalence/mlp_w4", "healthy", "--driver", driver, "--set", "job.ranks=2")
expect(not os.path.exists(os.path.join(healthy, "graph.txt")), "a graph of an earlier run")
if driver == "sim":
    check_made(["--driver", "sim", "--seed", "7"])
else:
    check_made(["--driver", "proc", "--seed", "3", "--enforce-time"])
    check_made(["--driver", "proc", "--seed", "0", "--launcher", "mpirun"])
print(f"{failures} failures")
sys.exit(failures > 0)
