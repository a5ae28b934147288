"""How soon `ddprove exec` names what is wrong with a program that is not ddprove's: four ranks, in
each run another one is the culprit. Milliseconds from the moment at which the fault acts, noted by
the rank, to the finding; median and worst. A run with any other answer than the right verdict,
culprit and call is a failure.

guest_detect.py BUILD_DIR [RUNS]
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

RANKS = 4
SOCKETS = ("C trainer, sockets", "", "ddprove_guest_trainer", ["30"])
MPI = ("MPI trainer", ", launcher: mpirun, adapter: mpi", "ddprove_mpi_trainer", ["30"])

# What a rank does in the middle of a run, and what must be said of it, in so many milliseconds.
BUCKET = "at: {rank: %d, step: 12, bucket: 1}"
FIRST = "at: {rank: %d, step: 12, bucket: 0}"
BLOCKING = "at: {rank: %d, comm: MPI_COMM_WORLD, elems: 16, hit: 12}"
STARTED = "at: {rank: %d, comm: MPI_COMM_WORLD, elems: 48, hit: 12}"
ROOTED = "at: {rank: %d, kind: reduce, hit: 12}"
ROWS = [
    (SOCKETS, "dead rank", BUCKET, "kill: SIGKILL", "CRASH.SIGNALED", 5),
    (SOCKETS, "stopped rank", BUCKET, "stop: forever", "HANG.STOPPED", 100),
    (SOCKETS, "skipped collective", FIRST, "skip: true", "MISMATCH.MISSING", 100),
    (SOCKETS, "wrong count", BUCKET, "arg: count, value: 31", "MISMATCH.COUNT", 5),
    (SOCKETS, "wrong operator", BUCKET, "arg: redop, value: max", "MISMATCH.REDUCTION", 5),
    (MPI, "dead rank", BLOCKING, "kill: SIGKILL", "CRASH.SIGNALED", 5),
    (MPI, "stopped rank", BLOCKING, "stop: forever", "HANG.STOPPED", 100),
    (MPI, "skipped collective", STARTED, "skip: true", "MISMATCH.MISSING", 100),
    (MPI, "wrong count", STARTED, "arg: count, value: 47", "MISMATCH.COUNT", 5),
    (MPI, "wrong operator", BLOCKING, "arg: redop, value: max", "MISMATCH.REDUCTION", 5),
    (MPI, "wrong root", ROOTED, "arg: root, value: 1", "MISMATCH.ROOT", 5),
]


def run(bin_dir, folder, row, rank):
    """Milliseconds; None and the reason if the answer is wrong."""
    (_, guest, program, arguments), _, at, do, verdict, _ = row
    path = os.path.join(folder, "detect.yaml")
    with open(path, "w") as file:
        file.write("# Detection.\nid: bench.detect\njob: {guest: {command: [%s]%s}, ranks: %d}\n"
                   "faults:\n  - %s\n    point: collective/pre\n    do: {%s}\n"
                   "expect: {verdict: %s, culprit: injected}\n"
                   % (", ".join([program] + ['"%s"' % a for a in arguments]), guest, RANKS,
                      at % rank, do, verdict))
    out = os.path.join(folder, "run")
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run([os.path.join(bin_dir, "ddprove"), "run", path, "--out", out],
                          capture_output=True, text=True)
    if done.returncode == 77:
        return None, "SKIP"
    if done.returncode != 0:
        return None, done.stdout + done.stderr
    with open(os.path.join(out, "bench.detect/proc/verdict.json")) as file:
        return json.load(file)["detect_ms"], None


def main():
    bin_dir = os.path.join(sys.argv[1], "bin")
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    failures = 0
    print("%-20s %-20s %9s %9s %9s   ms, %d runs, %d ranks"
          % ("program", "fault", "median", "worst", "target", runs, RANKS))
    for row in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            answers = [run(bin_dir, folder, row, i % RANKS) for i in range(runs)]
        if answers[0][1] == "SKIP":
            print("%-20s %-20s SKIP" % (row[0][0], row[1]))
            continue
        for _, why in answers:
            if why is not None:
                failures += 1
                print("FAIL %s, %s: %s" % (row[0][0], row[1], why))
        times = [ms for ms, why in answers if why is None]
        if times:
            print("%-20s %-20s %9.2f %9.2f %9.0f%s"
                  % (row[0][0], row[1], statistics.median(times), max(times), row[5],
                     "" if max(times) <= row[5] else "   missed"), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
