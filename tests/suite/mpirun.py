"""A scenario gets the same outcome, verdict and culprits under mpirun as under the own launcher, with
2 and with 4 ranks, and so it does with 4 if its collectives are MPI's; and nothing is left behind,
even if ddprove is killed in between. Without MPI's module its part is left out, and said so.

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
MPI_SCENARIOS = """crash/exit0_early crash/sigkill_in_allreduce crash/sigkill_in_teardown equivalence/mlp_w4
    hang/before_bucket mismatch/count mismatch/redop mismatch/skipped stop/sigstop_forever unused/flag_off_pytorch
    unused/globally value/lost""".split()
SKIP = 77

ddprove, scenarios, out = sys.argv[1:]
out = os.path.abspath(out)


def paths_of(names):
    return [os.path.join(scenarios, name + ".yaml") for name in names]


def command(name, launcher, paths, *options):
    return [ddprove, "run", *paths, "--launcher", launcher, *options, "--json",
            os.path.join(out, name + ".json"), "--out", os.path.join(out, name)]


def run(name, launcher, paths, *options):
    """The cells of a run, and why it was skipped if it was."""
    with open(os.path.join(out, name + ".log"), "w") as log:
        code = subprocess.run(command(name, launcher, paths, *options), stdout=log,
                              stderr=log).returncode
    if code == SKIP:
        return [], next(line for line in open(log.name) if "why:" in line).strip()
    if code not in (0, 1, 3, 4):
        sys.exit(f"ddprove run: exit {code}, see {log.name}")
    with open(os.path.join(out, name + ".json")) as file:
        return json.load(file)["scenarios"], None


def verdicts(launcher, ranks, names, *options):
    """{(ranks, id, cell): (outcome, verdict, culprits)}; ends the test if this launcher is missing."""
    cells, reason = run("-".join([launcher, str(ranks), *options]), launcher, paths_of(names), "--set",
                        f"job.ranks={ranks}", *options)
    if reason:
        print(reason)
        sys.exit(SKIP)
    for cell in cells:
        if cell["outcome"] not in ("PASS", "SKIP"):
            print(f"{launcher}, {ranks} ranks: {cell['id']} {cell['cell']}: {cell['outcome']}: {cell['reason']}")
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


def foreign_files():
    """What Open MPI is known to leave."""
    return set(glob.glob("/tmp/ompi.*") + glob.glob("/dev/shm/*vader*") + glob.glob("/dev/shm/*sm_seg*"))


def mpi_files():
    return glob.glob(os.path.join(out, "killed/**/mpirun/vader*"), recursive=True)


def left_behind():
    """What a run left, in words; processes get a while to disappear."""
    for _ in range(200):
        if not processes():
            break
        time.sleep(0.05)
    return ([f"process {pid}: {open(f'/proc/{pid}/cmdline').read()!r}" for pid in processes()] +
            sorted(foreign_files() - before) +
            glob.glob(os.path.join(out, "**/mpirun/*"), recursive=True))


def kill_in_between(*options):
    """Kill ddprove while ranks run or hang, and mpirun with its guards above them."""
    with open(os.path.join(out, "killed.log"), "w") as log:
        killed = subprocess.Popen(command("killed", "mpirun", paths_of(["hang/in_data"]), "--set",
                                          "job.ranks=4", *options), stdout=log, stderr=log)
        # It, a worker, mpirun, 4 guards and ranks; and what MPI shares between these.
        while ((len(processes()) < 11 or options and len(mpi_files()) < 4) and killed.poll() is None):
            time.sleep(0.01)
        if killed.poll() is not None:
            sys.exit(f"ddprove ended before it could be killed, see {log.name}")
        killed.send_signal(signal.SIGKILL)
        killed.wait()


def compare(own, other, what):
    """Print where they differ, and where the own launcher does not do either; returns how many."""
    different = [key for key in own if own[key] != other.get(key)]
    failed = [key for key in own if own[key][0] not in ("PASS", "INCONCLUSIVE")]
    for key in different:
        print(f"{key}: own {own[key]}, {what} {other.get(key)}")
    for key in failed:
        print(f"{key}: {own[key]} with the own launcher")
    print(f"{what}: {len(own) - len(different)} of {len(own)} cells agree")
    return len(different) + len(failed) + (not own)


def compare_mpi():
    """The same for MPI's collectives, and the scenarios that are about them. Returns how many differ,
    or None without MPI."""
    cells, reason = run("mpi", "mpirun", [os.path.join(scenarios, "mpi")])
    if reason:
        print(f"MPI's collectives are left out: {reason}")
        return None
    bad = 0
    for cell in cells:
        if cell["outcome"] != "PASS":
            print(f"{cell['id']} {cell['cell']}: {cell['outcome']} {cell['verdict']}: {cell['reason']}")
            bad += 1
    return bad + compare(verdicts("own", 4, MPI_SCENARIOS),
                         verdicts("mpirun", 4, MPI_SCENARIOS, "--collective", "mpi"), "MPI")


shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)
before = foreign_files()
bad = compare(verdicts("own", 2, SCENARIOS) | verdicts("own", 4, SCENARIOS),
              verdicts("mpirun", 2, SCENARIOS) | verdicts("mpirun", 4, SCENARIOS), "mpirun")
bad_mpi = compare_mpi()
left = left_behind()
kill_in_between()
left += left_behind()
if bad_mpi is not None:
    kill_in_between("--collective", "mpi")
    left += left_behind()
for line in left:
    print(f"left behind: {line}")
sys.exit(bool(bad or bad_mpi or left))
