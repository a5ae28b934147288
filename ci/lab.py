"""What is claimed of the built-in collectives, shown in full: `ddprove list collectives` through `coll check --full`, which
proves worlds 1 to 64 with every count up to 4 * ranks + 3, `coll conform --full`, in the simulator, over shared memory and over
TCP, and `coll bench`, which compares every bit of more than a million elements with what the schedules predict. And MPI's
all-reduce by each algorithm that the MPI of PATH, or of a folder of programs, can be forced to: judged by `coll check`, with the
tree that shows which one ran, and in jobs of 2 to 8 ranks, whose sums are compared bit for bit with that tree. A line each; exit 1
if one fails or was not judged to its end. An MPI that is not there is SKIP.

lab.py BUILD_DIR [--part proofs|conform|predict|mpi]... [--algorithm NAME]... [--mpi FOLDER]... [--ranks N]...
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time


def algorithms(binary):
    lines = subprocess.run([binary, "list", "collectives"], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split()[:2] for line in lines if not line.startswith("all kinds")]
    return [(kind, name) for kind, name in rows if "/" not in name]


def judge(binary, words):
    """Runs ddprove with a JSON report. Returns (report, wall seconds, processor seconds)."""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, "report.json")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        done = subprocess.run([binary] + words + ["--json", path], capture_output=True, text=True)
        wall = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not os.path.exists(path):
            sys.exit("%s: exit %d: %s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr))
        with open(path) as file:
            report = json.load(file)
    return report, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def prove(binary, name):
    report, wall, cpu = judge(binary, ["coll", "check", name, "--full"])
    failed = [p["name"] for p in report["properties"] if p["state"] == "FAIL"]
    return report, "worlds %d-%d  counts %d-%d  %6d cases  %6.1f s, %6.1f s of processor time%s" % (
        report["worlds"][0], report["worlds"][1], report["counts"][0], report["counts"][1], report["cases"], wall, cpu,
        "  fails in " + " ".join(failed) if failed else "")


def conform(binary, name, transport):
    report, wall, cpu = judge(binary, ["coll", "conform", name, "--full", "--transport", transport])
    failed = [p["name"] for p in report["properties"] if p["state"] == "FAIL"]
    return report, "%s  %2d properties  %5d trials  %6d orders  %6.1f s, %6.1f s of processor time%s" % (
        transport, len(report["properties"]), report["cases"], report["orders"], wall, cpu,
        ("  fails in " + " ".join(failed) if failed else "") +
        ("  not tried: " + report["not_tried"] if report["not_tried"] else ""))


def long_calls(binary):
    """(outcome, line): a collective that counts bytes in 32 bits passes all calls but one, which must be found."""
    with tempfile.TemporaryDirectory() as where:
        plugin = os.path.join(where, "narrow.so")
        built = subprocess.run(["cc", "-O2", "-w", "-DWHAT=NARROW", "-shared", "-fPIC", "-I", os.path.join(ROOT, "harness/plugin"), "-o",
                                plugin, os.path.join(ROOT, "tests/coll/opaque.c"), "-lm"], capture_output=True, text=True)
        if built.returncode != 0:
            return "SKIP", "there is no compiler"
        report, line = conform(binary, plugin, "shm")
    failed = [p["name"] for p in report["properties"] if p["state"] == "FAIL"]
    if report["not_tried"]:
        return "SKIP", line
    return "PASS" if failed == ["large"] else "FAIL", "must fail in large alone: " + line


def predict(binary, name):
    """1 Mi elements, 3 ranks, both modes: each rank's output of each call beside the judge's own sums."""
    report, wall, cpu = judge(binary, ["coll", "bench", name, "-b", "4M", "-e", "4M", "-n", "2", "-w", "0", "--ranks", "3"])
    row = report["algorithms"][0]
    times = [row["rows"][0][mode] for mode in ("out_of_place", "in_place")]
    wrong = sum(time["wrong"] for time in times)
    outputs = {"reduce_scatter": 1, "reduce": 1}.get(row["kind"], 3)  # of the size of a row, on all ranks together
    count = outputs * 2 * len(times) * row["rows"][0]["size"] // 4
    if row["checked"] != "bits":
        report["outcome"] = "INCONCLUSIVE"
    return report, "%9d elements of fp32, %s compared, %d wrong  %6.1f s" % (count, row["checked"], wrong, wall)


ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPEN_MPI = ["1", "2", "3", "4", "5", "6"]  # basic linear, nonoverlapping, recursive doubling, ring, segmented ring, Rabenseifner
MPICH = ["recursive_doubling", "reduce_scatter_allgather", "tree", "ring", "recexch"]


def forced(is_open_mpi, algorithm):
    """What it falls back to for counts that are too small for it, is the MPI's affair: the trees show it."""
    if is_open_mpi:
        return {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_allreduce_algorithm": algorithm,
                "OMPI_MCA_coll_han_priority": "0", "OMPI_MCA_coll_sm_priority": "0", "OMPI_MCA_coll_xhc_priority": "0"}
    return {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": algorithm, "MPIR_CVAR_DEVICE_COLLECTIVES": "none"}


def run_mpi(binary, folder, ranks):
    """Yields (outcome, line) for every algorithm of one MPI."""
    path = os.environ["PATH"] if folder is None else folder + os.pathsep + os.environ["PATH"]
    compiler = shutil.which("mpicc", path=path)
    where = tempfile.mkdtemp()
    env = dict(os.environ, PATH=path)
    if compiler is None or shutil.which("mpirun", path=path) is None:
        yield "SKIP", "MPI of %s: no mpicc or no mpirun" % (folder or "PATH")
        return
    plugin = os.path.join(where, "mpi.so")
    headers = os.path.join(ROOT, "harness/plugin")
    built = subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-I", headers, "-o", plugin, os.path.join(headers, "example/mpi.c")],
                           env=env, capture_output=True, text=True)
    if built.returncode != 0:
        yield "SKIP", "MPI of %s: %s" % (folder or "PATH", built.stderr.strip().splitlines()[-1:])
        return
    version = subprocess.run(["mpirun", "--version"], env=env, capture_output=True, text=True).stdout.strip()
    is_open_mpi = "HYDRA" not in version
    name = version.split("\n")[0].strip() if is_open_mpi else "MPICH " + version.split("Version:")[1].split()[0]
    for algorithm in OPEN_MPI if is_open_mpi else MPICH:
        own = dict(env, **forced(is_open_mpi, algorithm))
        report_path = os.path.join(where, "check.json")
        subprocess.run([binary, "coll", "check", plugin, "--worlds", "4", "--json", report_path], env=own, capture_output=True)
        with open(report_path) as file:
            report = json.load(file)
        failed = [p["name"] for p in report["properties"] if p["state"] == "FAIL"]
        tree = report["trees"].strip().splitlines()
        outcome = report["outcome"]
        jobs = []
        for count in ranks if is_open_mpi else []:
            out = os.path.join(where, "job%d" % count)
            done = subprocess.run([binary, "run", os.path.join(ROOT, "scenarios/equivalence/mlp_w4.yaml"), "--collective", plugin,
                                   "--launcher", "mpirun", "--set", "job.ranks=%d" % count, "--driver", "proc", "-j", "1", "--out",
                                   out], env=own, capture_output=True, text=True)
            jobs.append("%d:%s" % (count, done.stdout.split(" ")[0]))
            if done.returncode != 0:
                outcome = "FAIL"
                print(done.stdout[:2000], done.stderr[:500], file=sys.stderr)
        yield outcome, "%-28s %-24s 4 ranks: %s%s  jobs by ranks: %s" % (
            name, algorithm, " | ".join(line.strip() for line in tree[-2:]), "  fails in " + " ".join(failed) if failed else "",
            " ".join(jobs) or "none, mpirun is another one's")
    shutil.rmtree(where, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--part", action="append", choices=["proofs", "conform", "predict", "mpi"])
    parser.add_argument("--algorithm", action="append")
    parser.add_argument("--mpi", action="append", default=[])
    parser.add_argument("--ranks", action="append", type=int)
    args = parser.parse_args()
    binary = os.path.abspath(os.path.join(args.build, "bin/ddprove"))
    titles = {"proofs": "coll check NAME --full", "conform": "coll conform NAME --full", "predict": "coll bench NAME -b 4M -e 4M",
              "mpi": "coll check, and jobs by a plug-in"}
    bad = 0
    for part in args.part or ["proofs", "conform", "predict", "mpi"]:
        print("== %s: ddprove %s" % (part, titles[part]), flush=True)
        for folder in [None] + args.mpi if part == "mpi" else []:
            for outcome, line in run_mpi(binary, folder, args.ranks or range(2, 9)):
                bad += outcome not in ("PASS", "SKIP")
                print("%-13s %s" % (outcome, line), flush=True)
        if part == "conform":
            outcome, line = long_calls(binary)
            bad += outcome not in ("PASS", "SKIP")
            print("%-13s %-39s %s" % (outcome, "all_reduce     of 2^31 bytes", line), flush=True)
        for kind, name in algorithms(binary) if part != "mpi" else []:
            if (args.algorithm and name not in args.algorithm) or (part != "proofs" and kind == "barrier"):
                continue  # a barrier leaves nothing that could be compared
            runs = {"proofs": [lambda: prove(binary, name)], "predict": [lambda: predict(binary, name)],
                    "conform": [lambda t=t: conform(binary, name, t) for t in ("shm", "tcp")]}
            for run in runs[part]:
                report, line = run()
                bad += report["outcome"] != "PASS"
                print("%-13s %-14s %-24s %s" % (report["outcome"], kind, name, line), flush=True)
    print("%d of them did not pass" % bad if bad else "all pass")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
