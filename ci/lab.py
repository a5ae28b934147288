"""What is claimed of the built-in collectives, shown in full: `ddprove list collectives` through `coll check --full`, which
proves worlds 1 to 64 with every count up to 4 * ranks + 3, and `coll conform --full`, in the simulator, over shared memory and
over TCP. A line an algorithm, with the processor time that it took; exit 1 if one fails or was not judged to its end.

lab.py BUILD_DIR [--part proofs|conform]... [--algorithm NAME]... [--json FILE]
"""
import argparse
import json
import os
import resource
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
        "  fails in " + " ".join(failed) if failed else "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--part", action="append", choices=["proofs", "conform"])
    parser.add_argument("--algorithm", action="append")
    args = parser.parse_args()
    binary = os.path.abspath(os.path.join(args.build, "bin/ddprove"))
    parts = args.part or ["proofs", "conform"]
    bad = 0
    for part in parts:
        print("== %s: ddprove coll %s NAME --full" % (part, "check" if part == "proofs" else "conform"))
        for kind, name in algorithms(binary):
            if args.algorithm and name not in args.algorithm:
                continue
            if part == "proofs":
                runs = [lambda: prove(binary, name)]
            elif kind == "barrier":
                continue  # it leaves nothing that could be compared
            else:
                runs = [lambda t=t: conform(binary, name, t) for t in ("shm", "tcp")]
            for run in runs:
                report, line = run()
                bad += report["outcome"] != "PASS"
                print("%-13s %-14s %-24s %s" % (report["outcome"], kind, name, line), flush=True)
    print("%d of them did not pass" % bad if bad else "all pass")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
