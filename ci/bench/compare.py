"""ddprove beside PyTorch DDP with gloo, in one run: steps/s, whole-process time of a 20-step
equivalence run, memory a rank. Prints ratios. Without python3-torch the peer's columns are SKIP.

compare.py BUILD_DIR [--quick]
"""
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
    "mlp_l": ["job.widths=[784, 1024, 1024, 10]", "job.data=synthetic", "job.features=784",
              "job.samples=2048", "job.batch_per_rank=64"],
}
COUNTS = {"mlp_s": {1: 6000, 2: 3000, 4: 1200}, "mlp_l": {1: 150, 2: 100, 4: 60}}
TORCH_COUNTS = {"mlp_s": {1: 3000, 2: 600, 4: 150}, "mlp_l": {1: 100, 2: 60, 4: 40}}


def sets(model, world, steps):
    out = []
    for item in MODELS[model] + ["job.ranks=%d" % world, "job.steps=%d" % steps,
                                 "job.bucket_cap_kb=25600", "job.first_bucket_cap_kb=1024"]:
        out += ["--set", item]
    return out


def find_torch():
    for python in ("/usr/bin/python3", sys.executable):
        if os.access(python, os.X_OK) and subprocess.run(
                [python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                capture_output=True).returncode == 0:
            return python
    return None


def peer(python, mode, model, world, count):
    if python is None:
        return None
    done = subprocess.run([python, os.path.join(HERE, "torch_ddp.py"), mode, model, str(world),
                           str(count)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("torch_ddp.py failed: " + done.stderr[-2000:])
    return dict(re.findall(r"(\w+)=([-+.\de]+)", done.stdout))


def ours(binary, model, world, count):
    """Steps per second, and peak memory of the largest rank (wait4 reports the maximum over the
    command and the processes it has reaped)."""
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen([binary, "train", SCENARIO, "--driver", "proc"] +
                                 sets(model, world, count), stdout=log, stderr=log)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        text = log.read()
    found = re.search(r": ([\d.]+) steps/s", text)
    if child.returncode != 0 or not found:
        sys.exit("ddprove train failed: " + text)
    return float(found.group(1)), usage.ru_maxrss / 1024


def whole(command):
    """Median wall time of a command over 5 runs after a warm-up."""
    times = []
    for i in range(6):
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        times.append(time.perf_counter() - begin)
        if done.returncode != 0:
            sys.exit("%s failed:\n%s%s" % (" ".join(command), done.stdout, done.stderr))
    return statistics.median(times[1:])


def ratio(ours_value, peer_value, is_time=False):
    if peer_value is None:
        return "SKIP"
    return "%.1fx" % (peer_value / ours_value if is_time else ours_value / peer_value)


def show(name, ours_text, peer_text, ratio_text):
    print("%-44s %14s %14s %9s" % (name, ours_text, peer_text, ratio_text), flush=True)


def main():
    binary = os.path.join(sys.argv[1], "bin/ddprove")
    python = find_torch()
    if python is None:
        print("SKIP peer: python3-torch with gloo is not installed "
              "(apt-get install python3-torch libopenblas0-pthread)")
    print("%-44s %14s %14s %9s" % ("", "ddprove", "torch+gloo", "better by"))
    memory = []
    for model in MODELS:
        for world in (1, 2, 4):
            mine = sorted(ours(binary, model, world, COUNTS[model][world]) for _ in range(3))[1]
            other = peer(python, "steps", model, world, TORCH_COUNTS[model][world])
            memory.append((model, world, mine[1], float(other["rss_mb"]) if other else None))
            theirs = float(other["steps_per_s"]) if other else None
            show("steps/s %s, %d ranks" % (model, world), "%.0f" % mine[0],
                 "-" if theirs is None else "%.0f" % theirs, ratio(mine[0], theirs))
    for model in MODELS:
        with tempfile.TemporaryDirectory() as out:
            mine = whole([binary, "run", SCENARIO, "--driver", "proc", "--out", out] +
                         sets(model, 4, 20))
        theirs = None if python is None else whole(
            [python, os.path.join(HERE, "torch_ddp.py"), "equal", model, "4"])
        show("20-step equivalence, %s, 4 ranks, seconds" % model, "%.3f" % mine,
             "-" if theirs is None else "%.3f" % theirs, ratio(mine, theirs, True))
    for model, world, mine, theirs in memory:
        show("peak memory of a rank, %s, %d ranks, MB" % (model, world), "%.1f" % mine,
             "-" if theirs is None else "%.1f" % theirs, ratio(mine, theirs, True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
