"""ddprove beside PyTorch DDP with gloo, in one run, one thread a rank: steps/s, whole-process time of a 20-step equivalence run,
memory a rank; then our DDP beside our DataParallel and one device. Prints ratios, and which miss the goals.

compare.py BUILD_DIR [--quick] [--torch PYTHON]... [--minutes N] [--kept FILE]

What is compared is measured in turn, several rounds, and medians taken, so that what else the machine does meets all alike. Each
--torch is a Python with PyTorch; of several, the faster one counts each time. Default: DDPROVE_TORCH_PYTHON of the build, and
/usr/bin/python3. Without any, the peer's columns are SKIP. --quick: one round. On a busy machine the figures say little: the load is
printed, the greatest of all that was measured too.

Each measurement is kept in FILE (BUILD_DIR/compare.jsonl) at once, with the program that was measured: the same command goes on where
the last one was stopped, and measures again what was of another program or Python. --minutes: begin nothing later than that; prints
what is there, and ends with 75 if something is missing. Remove FILE to begin anew.
"""
import argparse
import contextlib
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCENARIO = os.path.join(ROOT, "scenarios/equivalence/mlp_w4.yaml")
MODELS = {
    "mlp_s": ["job.widths=[64, 256, 256, 10]", "job.data=digits", "job.batch_per_rank=32"],
    "mlp_l": ["job.widths=[784, 1024, 1024, 10]", "job.data=synthetic", "job.features=784", "job.samples=2048",
              "job.batch_per_rank=64"],
    "gpt_s": ["job.model=gpt", "job.widths=[64, 128, 128, 256]", "job.heads=4", "job.data=text", "job.features=64",
              "job.batch_per_rank=8", "job.optimizer={kind: adamw, lr: 1e-3}"],
}
WORLDS = (1, 2, 4)
COUNTS = {"mlp_s": (4000, 2400, 1000), "mlp_l": (120, 90, 50), "gpt_s": (80, 60, 30)}
TORCH_COUNTS = {"mlp_s": (2000, 500, 120), "mlp_l": (80, 50, 30), "gpt_s": (40, 30, 15)}
GOALS = {"mlp_s": (3.2, 14, 18), "mlp_l": (1.7, 2.5, 2.5), "gpt_s": (1.2, 1.4, 1.5)}  # times the peer's steps/s
WHOLE_GOALS = {"mlp_s": 0.12, "mlp_l": 1.2, "gpt_s": 3}  # seconds
NOT_YET = 75  # EX_TEMPFAIL of sysexits.h
missed = []


class Kept:
    """Measurements by name, kept in a file as they are made."""

    def __init__(self, path, program, minutes):
        self.path, self.program = path, program
        self.end = time.monotonic() + 60 * minutes if minutes else None
        self.found, self.missing, self.load = {}, 0, 0.0
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                rows = [json.loads(line) for line in file if line.endswith("\n")]  # a last one that was cut short is no line
            self.found = {row["name"]: row for row in rows if row["program"] == program}

    def measure(self, name, run):
        """What run() returned, now or earlier; None: there is no time left for it."""
        if name not in self.found:
            if self.end is not None and time.monotonic() > self.end:
                self.missing += 1
                return None
            row = {"name": name, "program": self.program, "value": run(), "load": os.getloadavg()[0]}
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            self.found[name] = row
        self.load = max(self.load, self.found[name]["load"])
        return self.found[name]["value"]

    def rounds(self, name, count, runs):
        """Of each round that is there the results of runs ({what: function}), taken in turn."""
        out = []
        for number in range(count):
            row = [self.measure("%s, %s, round %d" % (name, what, number), run) for what, run in runs.items()]
            if None not in row:
                out.append(row)
        return out


def sets(model, world, steps):
    out = []
    for item in MODELS[model] + ["job.ranks=%d" % world, "job.steps=%d" % steps, "job.bucket_cap_kb=25600",
                                 "job.first_bucket_cap_kb=1024"]:
        out += ["--set", item]
    return out


def has_torch(python):
    return os.access(python, os.X_OK) and subprocess.run(
        [python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
        capture_output=True, check=False).returncode == 0


def find_peers(build, given):
    """{version: python} of those that have PyTorch."""
    if not given:
        given = ["/usr/bin/python3"]
        with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
            found = re.search(r"^DDPROVE_TORCH_PYTHON:[A-Z]+=(\S+)", file.read(), re.M)
        given += [found.group(1)] if found else []
    peers = {}
    for python in filter(has_torch, given):
        version = subprocess.run([python, "-W", "ignore", "-c", "import torch; print(torch.__version__)"],
                                 capture_output=True, text=True, check=True).stdout.strip()
        peers[version.split("+")[0]] = python
    return peers


def peer(python, mode, model, world, count=20):
    """What torch_ddp.py says; steps/s and memory."""
    done = subprocess.run([python, os.path.join(HERE, "torch_ddp.py"), mode, model, str(world), str(count)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("torch_ddp.py failed: " + done.stderr[-2000:])
    said = dict(re.findall(r"(\w+)=([-+.\de]+)", done.stdout))
    return float(said.get("steps_per_s", 0)), float(said.get("rss_mb", 0))


def ours(binary, model, world, count, *options):
    """Steps per second, and peak memory of the largest rank (wait4 reports the maximum over the command and the processes it
    has reaped)."""
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen([binary, "train", SCENARIO, "--driver", "proc", *options] + sets(model, world, count),
                                 stdout=log, stderr=log)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        text = log.read()
    found = re.search(r": ([\d.]+) steps/s", text)
    if child.returncode != 0 or not found:
        sys.exit("ddprove train failed: " + text)
    return float(found.group(1)), usage.ru_maxrss / 1024


def whole(command):
    """Wall time of a command."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("%s failed:\n%s%s" % (" ".join(command), done.stdout, done.stderr))
    return time.perf_counter() - begin


def whole_ours(binary, model):
    with tempfile.TemporaryDirectory() as out:
        return whole([binary, "run", SCENARIO, "--driver", "proc", "--out", out] + sets(model, 4, 20))


def show(name, mine, theirs, ratio, note="", rounds=None):
    """rounds: how many the figures are medians of."""
    print("%-44s %12s %20s %8s  %s%s" % (name, mine, theirs, ratio, note, "" if rounds is None else " [%d]" % rounds), flush=True)


def against(goal, value, name):
    """How a figure stands to its goal; lower is worse."""
    if goal is None or value is None:
        return ""
    if value < goal:
        missed.append(name)
    return "goal %.3gx%s" % (goal, "" if value >= goal else ": MISSED")


def medians(results):
    """Of each column of rounds."""
    return [tuple(statistics.median(values) for values in zip(*column)) for column in zip(*results)]


def compare_steps(binary, peers, rounds, kept):
    """Returns rows of memory, to be shown behind."""
    memory = []
    for model, counts in COUNTS.items():
        for place, world in enumerate(WORLDS):
            name = "steps/s %s, %d rank%s" % (model, world, "" if world == 1 else "s")
            runs = {"ours": lambda: ours(binary, model, world, counts[place])}
            for version, python in peers.items():
                runs[version] = lambda python=python: peer(python, "steps", model, world, TORCH_COUNTS[model][place])
            results = kept.rounds(name, rounds, runs)
            if not results:
                show(name, "not yet", "", "")
                continue
            mine, *others = medians(results)
            best = max(others, default=None)
            ratio = mine[0] / best[0] if best else None
            which = list(peers)[others.index(best)] if best else ""
            show(name, "%.0f" % mine[0] if mine[0] > 100 else "%.1f" % mine[0], "%.1f (%s)" % (best[0], which) if best else "-",
                 "%.1fx" % ratio if best else "SKIP", against(GOALS[model][place], ratio, name), len(results))
            memory.append((model, world, mine[1], min(other[1] for other in others) if others else None))
    return memory


def compare_whole(binary, peers, rounds, kept):
    for model, goal in WHOLE_GOALS.items():
        name = "20-step equivalence, %s, 4 ranks, seconds" % model
        runs = {"ours": lambda: whole_ours(binary, model)}
        for version, python in peers.items():
            runs[version] = lambda python=python: whole([python, os.path.join(HERE, "torch_ddp.py"), "equal", model, "4"])
        results = kept.rounds(name, rounds, runs)
        if not results:
            show(name, "not yet", "", "")
            continue
        mine, *others = (statistics.median(column) for column in zip(*results))
        best = min(others, default=None)
        if mine > goal:
            missed.append(name)
        show(name, "%.3f" % mine, "%.3f" % best if best else "-", "%.1fx" % (best / mine) if best else "SKIP",
             "goal %.3g s%s" % (goal, "" if mine <= goal else ": MISSED"), len(results))


def compare_parallel(binary, rounds, kept):
    """The same samples a step in three ways: a process a rank, a thread a device, one device."""
    show("steps/s of 4 ranks' samples a step", "ddp", "DataParallel, single", "", "")
    for model, counts in COUNTS.items():
        count = max(10, counts[2] // 2)
        runs = {how: lambda how=how: ours(binary, model, 4, count, "--parallel", how) for how in ("ddp", "dp", "single")}
        results = kept.rounds("parallel " + model, rounds, runs)
        if not results:
            show("  " + model, "not yet", "", "")
            continue
        ddp, dp, single = (value[0] for value in medians(results))
        show("  " + model, "%.1f" % ddp, "%.1f, %.1f" % (dp, single), "%.2fx" % (ddp / dp), "%.2fx one device" % (ddp / single),
             len(results))


def program_of(binary, peers):
    """What is measured: our program's bytes, and the peers."""
    with open(binary, "rb") as file:
        return " ".join([hashlib.sha256(file.read()).hexdigest()[:16]] + sorted(peers))


def measure_only(binary, peers, rounds, kept):
    """All that `rounds` rounds need, without a word."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        compare_steps(binary, peers, rounds, kept)
        compare_whole(binary, peers, rounds, kept)
        compare_parallel(binary, rounds, kept)
    missed.clear()
    kept.missing = 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--torch", action="append", default=[])
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--kept")
    args = parser.parse_args()
    binary = os.path.join(args.build, "bin/ddprove")
    peers = find_peers(args.build, args.torch)
    rounds = 1 if args.quick else 3
    kept = Kept(args.kept or os.path.join(args.build, "compare.jsonl"), program_of(binary, peers), args.minutes)
    if not peers:
        print("SKIP peer: no PyTorch with gloo (pip install torch, or apt-get install python3-torch libopenblas0-pthread)")
    print("%d cores, load %.1f; PyTorch %s; medians of [rounds]" % (os.cpu_count(), os.getloadavg()[0], ", ".join(peers) or "none"))
    for count in range(1, rounds):  # a round of everything before the next of anything
        measure_only(binary, peers, count, kept)
    show("", "ddprove", "torch + gloo", "better by")
    memory = compare_steps(binary, peers, rounds, kept)
    compare_whole(binary, peers, rounds, kept)
    for model, world, mine, theirs in memory:
        show("peak memory of a rank, %s, %d ranks, MB" % (model, world), "%.1f" % mine, "-" if theirs is None else "%.1f" % theirs,
             "SKIP" if theirs is None else "%.1fx" % (theirs / mine))
    compare_parallel(binary, rounds, kept)
    print("load %.1f, at most %.1f; %s" % (os.getloadavg()[0], kept.load,
                                           "missed: " + "; ".join(missed) if missed else
                                           "no goal missed so far" if kept.missing else "all goals met"))
    if kept.missing:
        print("%d measurements are missing: the same command goes on" % kept.missing)
    return NOT_YET if kept.missing else 0


if __name__ == "__main__":
    sys.exit(main())
