"""All-reduces of ddprove beside those of other libraries, in one run: `ddprove coll bench` with MPI's all-reduce as a plug-in, of
the MPI of PATH and of each folder of programs that is named (a virtual environment with Open MPI 5 or MPICH from PyPI: its bin),
and PyTorch's gloo where a python has it. Prints a line a size: ours, every peer, the yardstick, ratios. What is missing is SKIP.

coll.py BUILD_DIR [--ranks N]... [--mpi FOLDER]... [--python PYTHON] [--iterations N] [--max SIZE] [--json FILE]
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PLUGIN = os.path.join(ROOT, "harness/plugin")


def build_plugin(folder, number, where):
    """MPI's all-reduce of the mpicc in `folder` (None: of PATH). Returns (name, plug-in, environment), or None."""
    path = os.environ["PATH"] if folder is None else folder + os.pathsep + os.environ["PATH"]
    compiler = shutil.which("mpicc", path=path)
    if compiler is None or shutil.which("mpirun", path=path) is None:
        print("SKIP MPI of %s: no mpicc or no mpirun" % (folder or "PATH"))
        return None
    plugin = os.path.join(where, "mpi%d.so" % number)
    env = dict(os.environ, PATH=path)
    done = subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-I", PLUGIN, "-o", plugin, os.path.join(PLUGIN, "example/mpi.c")],
                          env=env, capture_output=True, text=True)
    if done.returncode != 0:
        print("SKIP MPI of %s: %s" % (folder or "PATH", done.stderr.strip().splitlines()[-1:]))
        return None
    version = subprocess.run(["mpirun", "--version"], env=env, capture_output=True, text=True).stdout.split("\n")[0].strip()
    return version or (folder or "MPI"), plugin, env


def bench(binary, names, ranks, args, env, where):
    report = os.path.join(where, "bench.json")
    command = [binary, "coll", "bench"] + names + ["--ranks", str(ranks), "-b", "1K", "-e", args.max, "-f", "4", "-n",
                                                   str(args.iterations), "--json", report]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit("%s: %s%s" % (" ".join(command), done.stdout, done.stderr))
    with open(report) as file:
        return json.load(file)["algorithms"]


def times_of(algorithm):
    return {row["size"]: row["in_place"]["median_us"] for row in algorithm["rows"]}


def gloo(args, ranks, sizes):
    for python in [args.python] if args.python else ["/usr/bin/python3", sys.executable]:
        if os.access(python, os.X_OK) and subprocess.run(
                [python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"], capture_output=True).returncode == 0:
            done = subprocess.run([python, os.path.join(HERE, "coll_gloo.py"), str(ranks), str(args.iterations)] +
                                  [str(size) for size in sizes], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit("coll_gloo.py failed: " + done.stderr[-2000:])
            rows = [line.split() for line in done.stdout.splitlines()]
            if any(int(row[3]) for row in rows):
                print("gloo: wrong sums: %s" % rows)
            return {int(row[0]): float(row[1]) for row in rows}
    print("SKIP gloo: no python with PyTorch and gloo")
    return None


def compare(binary, args, ranks, peers, where):
    ours = {a["name"]: times_of(a) for a in bench(binary, [], ranks, args, os.environ, where)}
    yardstick, copy = ours.pop("zero_copy"), ours.pop("copy")
    others = {}
    for name, plugin, env in peers:
        algorithm = bench(binary, [plugin], ranks, args, env, where)[0]
        if algorithm["error"]:
            print("SKIP %s: %s" % (name, algorithm["error"]))
        else:
            others[name] = times_of(algorithm)
    measured = gloo(args, ranks, sorted(yardstick))
    if measured:
        others["gloo"] = measured
    print("%d ranks, in place, median us of %d calls" % (ranks, args.iterations))
    for size in sorted(yardstick):
        best = min(ours, key=lambda name: ours[name].get(size, float("inf")))
        line = "%10d B  %-20s %10.2f  zero_copy %10.2f (%.2fx)  copy %10.2f" % (
            size, best, ours[best][size], yardstick[size], ours[best][size] / yardstick[size], copy[size])
        if "tuned" in ours:
            line += "  tuned %10.2f" % ours["tuned"][size]
        for name in others:
            line += "  %s %10.2f (%.2fx)" % (name, others[name][size], others[name][size] / ours[best][size])
        print(line, flush=True)
    return {"ranks": ranks, "ours": ours, "zero_copy": yardstick, "copy": copy, "peers": others}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--ranks", type=int, action="append")
    parser.add_argument("--mpi", action="append", default=[])
    parser.add_argument("--python")
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--max", default="64M")
    parser.add_argument("--json")
    args = parser.parse_args()
    binary = os.path.abspath(os.path.join(args.build, "bin/ddprove"))
    with tempfile.TemporaryDirectory() as where:
        peers = [build_plugin(folder, number, where) for number, folder in enumerate([None] + args.mpi)]
        results = [compare(binary, args, ranks, [peer for peer in peers if peer], where) for ranks in args.ranks or [2, 4]]
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
