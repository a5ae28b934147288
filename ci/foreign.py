#!/usr/bin/env python3
"""Programs that nobody here wrote, as their distribution ships them: what ddprove says of them when they are healthy,
and when a fault hits one of their collectives. Usage: foreign.py DDPROVE FOLDER [--only NAME] [--healthy N] [--seconds N] [-j N]
What was found of each run is kept in FOLDER/results.json: a run that was cut short, or that --seconds ended, goes on
where it was, with the same ddprove. --again starts anew.

Each row is a scenario for `ddprove exec SCENARIO -- PROGRAM`; it states the verdict, the culprit and the operation
beforehand, and is right if ddprove says exactly these. Which calls a program makes was read from the trace of a healthy
run, which the run folder keeps. Exit: 0 all right, 1 not, 3 not all was run, 77 fewer than three of the programs are
installed."""
import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time

WORLD = "MPI_COMM_WORLD"

MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
fix 1 all nve
thermo 10
run 100
"""

ALIGNMENT = """6 40
a ACGTTGCAAGCTTACGGATCCATTGCAACGTTAGCATGCA
b ACGTTGCTAGCTTACGGATCCATTGCAACGATAGCATGCA
c ACGATGCAAGCTAACGGTTCCATTGCTACGTTAGCTTGCA
d ACGATGCTAGCTAACGGTTCCATAGCTACGATAGCTTGCA
e TCGATGCAAGGTAACGCTTCCTTAGCTACGTTTGCTTGGA
f TCGTTGCATGGTTACGCATCCTTTGCAACGTTTGCATGGA
"""


def grid(side):
    """A square grid as a graph, in Scotch's format."""
    lines, edges = [], 0
    for i in range(side):
        for j in range(side):
            steps = ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1))
            near = [x * side + y for x, y in steps if 0 <= x < side and 0 <= y < side]
            edges += len(near)
            lines.append(" ".join(map(str, [len(near)] + near)))
    return f"0\n{side * side} {edges}\n0 000\n" + "\n".join(lines) + "\n"


def hpcc_input():
    """The input that comes with HPCC, with a small matrix."""
    text = open("/usr/share/doc/hpcc/examples/_hpccinf.txt", encoding="ascii").read()
    lines = text.split("\n")
    for i, line in enumerate(lines):
        words = line.split()
        if len(words) > 1 and words[1] in ("Ns", "NBs"):
            lines[i] = f"{64 if words[1] == 'Ns' else 16} {words[1]}"
    return "\n".join(lines)


def call(seq, kind, comm=WORLD, rank=1, hit=0, elems=0):
    """A call by its number, or where that varies from run to run by its kind and size, and how often that came."""
    return {"seq": seq, "kind": kind, "comm": comm, "rank": rank, "hit": hit, "elems": elems}


def name_of(at):
    if at["seq"]:
        return f"{at['kind']} {at['seq']} of {at['comm']}"
    return f"{at['kind']} of {at['elems']} elements in {at['comm']}, number {at['hit']}"


# What is done to a call, and what is to be said of it. The operation is the call itself, where a row does not say
# another one. Culprits: the rank; all ranks where nothing tells them apart.
FAULTS = {
    "kill": ("collective/pre", "kill: SIGKILL", "CRASH.SIGNALED", "injected"),
    "exit": ("collective/pre", "exit: 3", "CRASH.EXITED", "injected"),
    "stop": ("collective/pre", "stop: forever", "HANG.STOPPED", "injected"),
    "hang": ("collective/pre", "hang: true", "HANG.NOT_JOINED", "injected"),
    "skip": ("collective/pre", "skip: true", "MISMATCH.MISSING", "injected"),
    "twice": ("collective/pre", "dup: true", "MISMATCH.EXTRA", "injected"),
    "count": ("collective/pre", "arg: count, value: 0", "MISMATCH.COUNT", "injected"),
    "redop": ("collective/pre", "arg: redop, value: prod", "MISMATCH.REDUCTION", "injected"),
    "root": ("collective/pre", "arg: root, value: 3", "MISMATCH.ROOT", "injected"),
    "lost": ("collective/pre", "corrupt: zero", "VALUE.LOST", "injected"),
    "doubled": ("collective/pre", "corrupt: double", "VALUE.DUPLICATED", "injected"),
    "halved": ("collective/pre", "corrupt: half", "VALUE.SCALED", "injected"),
    "flipped": ("collective/pre", "corrupt: flip, bit: 50", "VALUE.CORRUPTED", "all"),
    "flipped low": ("collective/pre", "corrupt: flip, bit: 5", "VALUE.CORRUPTED", "all"),
    "nan": ("collective/pre", "corrupt: nan", "VALUE.NONFINITE", "all"),
    "result flipped high": ("collective/post", "corrupt: flip, bit: 50", "VALUE.DIVERGED", "injected"),
    "result flipped": ("collective/post", "corrupt: flip, bit: 1", "VALUE.DIVERGED", "injected"),
}


def rows(at, faults, **other):
    """faults: names, separated by commas. other: of a fault with these letters (spaces are _) what is said instead of
    the above: a verdict, or a dictionary of verdict, culprit, seq and kind."""
    made = []
    for name in faults.split(","):
        changed = other.get(name.replace(" ", "_"), {})
        changed = {"verdict": changed} if isinstance(changed, str) else changed
        made.append((name, at, changed))
    return made


PROCESS = "kill,exit,stop"
SUM = "lost,doubled,halved,flipped,nan"


def programs(sources):
    """sources: folder with mpi4py's source, whose demonstrations and tests no package has."""
    python = "/usr/bin/python3"
    tests = f"{sources}/test/runtests.py"
    return [
        {"name": "LAMMPS", "package": "lammps", "needs": ["/usr/bin/lmp"],
         "command": ["lmp", "-in", "melt.in", "-log", "none"], "files": {"melt.in": MELT},
         "ranks": [2, 3, 4, 7],
         "rows":
            rows(call(102, "all_reduce"), f"{PROCESS},hang,count,redop,{SUM},result flipped")
            + rows(call(102, "all_reduce", rank=0), "kill,stop,lost")
            + rows(call(102, "all_reduce", rank=3), "exit,doubled")
            + rows(call(155, "all_reduce"), "kill,count,flipped low,result flipped")
            + rows(call(74, "all_reduce", rank=2), "stop,skip,count", skip="MISMATCH.OP")
            + rows(call(52, "reduce"), "kill,stop,count,redop,root")
            + rows(call(145, "all_reduce"), "skip,redop,result flipped")
            + rows(call(146, "all_reduce", rank=3), "kill,skip")
            + rows(call(60, "barrier"), "kill,stop")
            + rows(call(26, "broadcast"), "kill,stop,count,root")
            + rows(call(20, "scan"), "count,redop,twice", twice={"seq": 21, "kind": "all_reduce",
                                                                 "verdict": "MISMATCH.OP"})},
        {"name": "PT-Scotch", "package": "ptscotch", "needs": ["/usr/bin/dgord"],
         "command": ["dgord", "grid.grf", "out.ord"], "files": {"grid.grf": grid(24)}, "ranks": [2, 3, 4, 7],
         "rows":
            rows(call(14, "all_reduce"), f"{PROCESS},twice", twice={"seq": 15, "kind": "broadcast",
                                                                     "verdict": "MISMATCH.OP"})
            + rows(call(4, "all_reduce"), "stop,skip,twice,count,redop,result flipped", skip="MISMATCH.OP",
                   twice={"seq": 5, "kind": "all_gather", "verdict": "MISMATCH.OP"})
            + rows(call(18, "all_gather"), "kill,count,result flipped")
            + rows(call(17, "all_reduce", rank=3), "kill,count,redop,flipped low")
            + rows(call(15, "broadcast"), "stop,count,root,result flipped")},
        {"name": "HPCC", "package": "hpcc", "needs": ["/usr/bin/hpcc"],
         "command": ["hpcc"], "files": {"hpccinf.txt": hpcc_input}, "ranks": [4, 7],
         "rows":
            rows(call(0, "all_reduce", hit=1, elems=40), f"{PROCESS},count,redop,result flipped high")
            + rows(call(0, "gather", hit=1, elems=3), "stop,count,root")
            + rows(call(0, "reduce", hit=4, elems=1, rank=2), f"kill,stop,count,redop,root,{SUM}")},
        {"name": "PhyML", "package": "phyml", "needs": ["/usr/bin/phyml-mpi"],
         "command": ["phyml-mpi", "-i", "in.phy", "-b", "8", "--r_seed", "7", "--no_memory_check"],
         "files": {"in.phy": ALIGNMENT}, "ranks": [2, 4],
         "rows":
            rows(call(2, "reduce"), f"{PROCESS},count,redop,root,flipped low")
            + rows(call(3, "reduce", rank=3), "kill,stop")
            + rows(call(1, "broadcast"), "count,root")},
        {"name": "mpi4py's tests", "package": "python3-mpi4py", "needs": [python, tests],
         "command": [python, tests, "-q", "-i", "test_cco_nb_buf$"], "files": {}, "ranks": [2, 3, 4],
         "rows": []},
        {"name": "mpi4py's OSU all-to-all", "package": "python3-mpi4py",
         "needs": [python, f"{sources}/demo/osu_alltoall.py"],
         "command": [python, f"{sources}/demo/osu_alltoall.py"], "files": {}, "ranks": [4],
         "rows": rows(call(5000, "all_to_all"), f"{PROCESS},hang")},
    ]


def scenario(ranks, row):
    text = ("# Somebody else's program.\nid: guests.row\n"
            f"job: {{guest: {{launcher: mpirun, adapter: mpi}}, ranks: {ranks}, timeout_ms: 10000}}\n")
    if row is None:
        return text + "expect: {verdict: NONE}\n"
    fault, at, changed = row
    point, action, verdict, culprit = FAULTS[fault]
    said = {"verdict": verdict, "culprit": culprit, "seq": at["seq"], "kind": at["kind"], **changed}
    where = f"seq: {at['seq']}" if at["seq"] else f"kind: {at['kind']}, elems: {at['elems']}, hit: {at['hit']}"
    number = f", seq: {said['seq']}" if said["seq"] else ""
    return (text + f"faults:\n  - at: {{rank: {at['rank']}, comm: {at['comm']}, {where}}}\n"
            f"    point: {point}\n    do: {{{action}}}\n"
            f"expect: {{verdict: {said['verdict']}, culprit: {said['culprit']}, "
            f"op: {{comm: {at['comm']}, kind: {said['kind']}{number}}}}}\n")


def hash_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Kept:
    """What was found of each run, in a file: by what was run, and of which build of ddprove and of the adapter."""

    def __init__(self, path, ddprove, is_again):
        adapter = os.path.join(os.path.dirname(ddprove), "../lib/libddprove_guest_mpi.so")
        self.path, self.lock, self.found = path, threading.Lock(), {}
        self.build = [hash_of(file) for file in (ddprove, adapter) if os.path.exists(file)]
        if os.path.exists(path) and not is_again:
            with open(path, encoding="utf-8") as file:
                kept = json.load(file)
            self.found = kept["found"] if kept["build"] == self.build else {}

    def add(self, key, found):
        with self.lock:
            self.found[key] = {name: found[name] for name in ("outcome", "verdict", "culprit", "op", "reason")}
            with open(self.path + ".new", "w", encoding="utf-8") as file:
                json.dump({"build": self.build, "found": self.found}, file, indent=1)
            os.replace(self.path + ".new", self.path)


class Bench:
    def __init__(self, ddprove, folder):
        self.ddprove, self.folder, self.numbers = ddprove, folder, itertools.count(1)

    def run(self, program, ranks, row, times=0):
        """verdict.json of one run, as it was kept or anew; None: there is no time for it."""
        key = hashlib.sha256(json.dumps([program["name"], program["command"], times, scenario(ranks, row)]).encode()).hexdigest()
        if key not in self.kept.found:
            if time.monotonic() > self.deadline:
                return None
            self.kept.add(key, self.run_now(program, ranks, row))
        return self.kept.found[key]

    def run_now(self, program, ranks, row):
        """verdict.json of one run, in a folder of its own."""
        place = os.path.join(self.folder, str(next(self.numbers)))
        os.makedirs(os.path.join(place, "guests"))
        for name, content in program["files"].items():
            with open(os.path.join(place, name), "w", encoding="ascii") as file:
                file.write(content() if callable(content) else content)
        path = os.path.join(place, "guests", "row.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(scenario(ranks, row))
        json_path = os.path.join(place, "all.json")
        try:
            run = subprocess.run([self.ddprove, "exec", path, "--out", "runs", "--json", json_path, "--"]
                                 + program["command"], cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return {"outcome": "ERROR", "verdict": "NONE", "culprit": [], "op": None, "reason": "it did not end in 300 s"}
        try:
            with open(json_path, encoding="utf-8") as file:
                found = json.load(file)["scenarios"][0]
        except (OSError, ValueError, LookupError):
            found = {"outcome": "ERROR", "verdict": "NONE", "culprit": [], "op": None, "reason": run.stdout}
        if found["outcome"] == "PASS":
            shutil.rmtree(place)
        return found


def said(found):
    operation = found["op"]
    words = f"{found['verdict']} of {','.join(map(str, found['culprit'])) or 'nobody'}"
    if operation is not None:
        words += f", {operation['kind']} {operation['seq']} of {operation['comm']}"
    return words


def version_of(package):
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False)
    return shown.stdout or "?"


def test(bench, program, healthy):
    """Returns how many rows are wrong, and how many runs there was no time for."""
    wrong, left = 0, 0
    words = " ".join(program["command"]).replace(bench.sources, "MPI4PY")
    print(f"== {program['name']} ({program['package']} {version_of(program['package'])}): {words}")
    for ranks in program["ranks"]:
        times = healthy if ranks == program['ranks'][-1] or ranks == 4 else max(1, healthy // 3)
        all_found = [bench.run(program, ranks, None, i) for i in range(times)]
        left += all_found.count(None)
        all_found = [found for found in all_found if found is not None]
        times = len(all_found)
        bad = [found for found in all_found if found["outcome"] != "PASS"]
        print(f"{'' if not bad else 'WRONG '}healthy, {ranks} ranks: {times - len(bad)} of {times} without a finding")
        for found in bad:
            print(f"    {found['outcome']}: {said(found)}: {found['reason']}")
        wrong += len(bad)
        sys.stdout.flush()
    pool = concurrent.futures.ThreadPoolExecutor(bench.jobs)
    results = pool.map(lambda row: bench.run(program, 4, row), program["rows"])
    for row, found in zip(program["rows"], results):
        fault, at, _ = row
        if found is None:
            left += 1
            continue
        is_right = found["outcome"] == "PASS"
        print(f"{'right' if is_right else 'WRONG'}  {fault:19} rank {at['rank']}, {name_of(at)}: "
              f"{said(found)}")
        if not is_right:
            print(f"    {found['outcome']}: {found['reason']}")
            wrong += 1
        sys.stdout.flush()
    return wrong, left


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprove")
    parser.add_argument("folder", help="for runs and mpi4py's source")
    parser.add_argument("--only", default="", help="programs whose name has this")
    parser.add_argument("-j", type=int, default=2, help="rows at a time")
    parser.add_argument("--healthy", type=int, default=10, help="runs of each program with 4 ranks")
    parser.add_argument("--seconds", type=float, default=1e9, help="no run begins later")
    parser.add_argument("--again", action="store_true", help="forget what was kept")
    args = parser.parse_args()
    folder = os.path.abspath(args.folder)
    bench = Bench(os.path.abspath(args.ddprove), os.path.join(folder, "runs"))
    bench.jobs = args.j
    bench.sources = os.path.join(folder, "mpi4py")
    shutil.rmtree(bench.folder, ignore_errors=True)
    os.makedirs(bench.folder)
    bench.deadline = time.monotonic() + args.seconds
    bench.kept = Kept(os.path.join(folder, "results.json"), bench.ddprove, args.again)
    tested, wrong, left, count = 0, 0, 0, 0
    print(f"Linux {platform.release()}; ddprove exec ROW.yaml -- PROGRAM, 4 ranks by mpirun; a row is")
    print("    at: {rank, comm, seq}, point: collective/pre (results: collective/post), do: {...}")
    for program in programs(bench.sources):
        missing = [path for path in program["needs"] if not os.path.exists(path)]
        if args.only not in program["name"]:
            continue
        if missing:
            print(f"== {program['name']}: not here, no {missing[0]} (Debian's {program['package']})")
            continue
        tested += 1
        count += len(program["rows"])
        bad, missing = test(bench, program, args.healthy)
        wrong += bad
        left += missing
    print("== Horovod over MPI: not here, its build from PyPI's source (0.28.1, PyTorch 2.7) did not end within 25 minutes")
    print(f"{tested} programs, {count} rows with a fault, {wrong} wrong" + (f", {left} runs not made" if left else ""))
    return 1 if wrong > 0 else 3 if left > 0 else 77 if tested < 3 and args.only == "" else 0


if __name__ == "__main__":
    sys.exit(main())
