#!/usr/bin/env python3
"""What is said of a PyTorch script that goes wrong on one rank: by PyTorch itself with TORCH_DISTRIBUTED_DEBUG off and
DETAIL, by torchrun, and by `ddprove exec --prove sums`; and when, in milliseconds from the fault. One table.
Usage: torch_faults.py DDPROVE [--ranks 2,4] [--only FAULT] [-j N] [--rank R] [--short] [--keep FILE]

What PyTorch and torchrun say is measured first, N cells at a time: most of them wait for a limit of time. Then ddprove, one
at a time. Each cell is appended to FILE as it is done; another run with the same FILE goes on from there, and measures
again only what an older script, PyTorch or (ddprove's column) older code of ddprove gave.

The script is tests/guest/torch/faulty.py, the same in all four columns; it has no ddprove in it. Time-out of its
process group: 10 s. But under torchrun, its ranks are forked from a process that has imported PyTorch. DETAIL kills
every constructor of DistributedDataParallel over gloo in 2.15 (a cast of the wrapped backend in
Logger::set_construction_data_and_log), so that call is left out there.

Exit: 0, or 1 if ddprove did not say what EXPECTED states, or 77 without PyTorch."""
import argparse
import concurrent.futures
import importlib.util
import json
import multiprocessing
import os
import platform
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.normpath(os.path.join(HERE, "../../tests/guest/torch/faulty.py"))
sys.path.insert(0, os.path.normpath(os.path.join(HERE, "..")))
import torch_zygote  # noqa: E402  pylint: disable=wrong-import-position

SOCKET = os.path.join(tempfile.gettempdir(), f"torch_faults.{os.getpid()}")
TIMEOUT_S = 10
LIMIT_S = 30  # for a run after its fault; then it is ended
START_S = 240  # until its fault
SOON_MS = 100
# fault: what ddprove is to say, of the rank that goes wrong; the call that it is to name ("": none); within so long.
# "both": of two ranks, also both, or the other one beside it, where no past tells who is right.
# A rank that sleeps, or has not come yet, cannot be told from one that computes until PyTorch's own limit of time; one that raises an
# exception, or leaves, ends when Python has cleaned up.
EXPECTED = {
    "killed": ({"CRASH.SIGNALED"}, "all_reduce", SOON_MS),
    "raises": ({"CRASH.EXITED"}, "all_reduce", 3000),
    "stopped": ({"HANG.STOPPED"}, "", 150),
    "sleeps": ({"HANG.NOT_JOINED"}, "all_reduce", 1000 * LIMIT_S),
    "skipped sum": ({"MISMATCH.MISSING"}, "all_reduce", SOON_MS),
    "skipped barrier": ({"MISMATCH.MISSING"}, "barrier", SOON_MS),
    "one sum more": ({"MISMATCH.EXTRA"}, "all_reduce", SOON_MS),
    "swapped": ({"MISMATCH.ORDER"}, "all_reduce", SOON_MS),
    "max for sum": ({"MISMATCH.REDUCTION"}, "all_reduce", SOON_MS),
    "other type": ({"MISMATCH.DTYPE"}, "all_reduce", SOON_MS),
    "other shape": ({"MISMATCH.COUNT"}, "all_reduce", SOON_MS),
    "other collective": ({"MISMATCH.OP"}, "all_gather", SOON_MS),
    "other root": ({"MISMATCH.ROOT"}, "broadcast", SOON_MS),
    "no backward": ({"MISMATCH.MISSING"}, "bucket 0", SOON_MS),
    "no_sync": ({"MISMATCH.MISSING"}, "bucket 0", SOON_MS),
    "unused parameter": ({"USAGE.UNUSED_PARAMETER"}, "spare.weight", SOON_MS),
    "ends early": ({"CRASH.FINISHED_EARLY"}, "all_reduce", 5000),
    "order of parameters": ({"MISMATCH.MODEL", "both"}, "bucket 0", SOON_MS),
    "half types": ({"MISMATCH.DTYPE", "both"}, "broadcast", SOON_MS),
    "weight changed": ({"VALUE.DIVERGED", "both"}, "fc1.weight", 150),
    "gradient changed": ({"VALUE.DIVERGED", "both"}, "fc2.weight", SOON_MS),
    "no update": ({"VALUE.STALE"}, "left an update out", SOON_MS),
    "never joins": ({"LAUNCH.MISSING_RANK"}, "init_process_group", 1000 * LIMIT_S),
    "nan": ({"VALUE.NONFINITE"}, "all_reduce", SOON_MS),
}
ERROR = re.compile(r"(?:\[rank(\d+)\]:\s*)?((?:[\w.]+\.)?\w*(?:Error|Exception))\b:? ?(.*)")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def be_rank(rank, ranks, port, arguments, is_detailed=False):
    """This process, which has been forked, becomes a rank and ends."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    code = 1
    try:
        if is_detailed:
            import torch.distributed as dist
            dist.set_debug_level(dist.DebugLevel.DETAIL)
            dist.Logger.set_construction_data_and_log = lambda *_args, **_kwargs: None
        sys.argv = [SCRIPT, *arguments]
        runpy.run_path(SCRIPT, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        import atexit
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Said:
    """The lines of some processes, each with its time, until all have ended or the time is over."""

    def __init__(self):
        self.lines, self.fault_ns, self.is_over = [], None, False

    def read(self, streams, is_enough=lambda line: False):
        """streams: {file descriptor: rank}."""
        rest = {fd: b"" for fd in streams}
        end = time.monotonic() + START_S
        is_cut = False
        while streams:
            left = end - time.monotonic()
            if left <= 0:
                self.is_over = True
                return
            for fd in select.select(list(streams), [], [], left)[0]:
                data = os.read(fd, 65536)
                *whole, rest[fd] = (rest[fd] + data).split(b"\n")
                for line in whole:
                    text = line.decode(errors="replace")
                    self.lines.append((time.monotonic_ns(), streams[fd], text))
                    match = re.search(r"fault at (\d+)", text)
                    if match:
                        self.fault_ns = int(match[1])
                        end = time.monotonic() + LIMIT_S
                    if is_enough(text) and not is_cut:
                        is_cut, end = True, min(end, time.monotonic() + 10)
                if not data:
                    del streams[fd]

    def when(self, at_ns):
        if self.fault_ns is None:
            return "?"
        ms = (at_ns - self.fault_ns) / 1e6
        return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def start(function):
    """Fork a process for it; (its id, where its output can be read)."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(out)
        os.dup2(into, 1)
        os.dup2(into, 2)
        os.close(into)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        function()
        os._exit(0)
    os.close(into)
    return child, out


def below(process):
    """The processes that it has started, and those that they have: torchrun's ranks have sessions of their own."""
    parents = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parents.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(name))
        except OSError:
            pass  # it has ended
    found = [process]
    for one in found:
        found += parents.get(one, [])
    return found


def end(children):
    for child in children:
        for process in below(child):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.waitpid(child, 0)


def run_alone(ranks, arguments, is_detailed):
    port, streams, children, said = free_port(), {}, [], Said()
    for rank in range(ranks):
        child, out = start(lambda: be_rank(rank, ranks, port, arguments, is_detailed))
        children.append(child)
        streams[out] = rank
    # A process that is stopped holds its pipe; once an error has been said, the rest is not awaited for long.
    said.read(streams, lambda line: ERROR.match(line) is not None)
    end(children)
    return said


def under_torchrun(ranks, arguments):
    """torchrun leaves the folder of its logs behind: it is given one."""
    with tempfile.TemporaryDirectory() as folder:
        return in_folder(folder, ranks, arguments)


def in_folder(folder, ranks, arguments):
    def agent():
        from torch.distributed.run import main as torchrun
        try:
            torchrun(["--standalone", "--log-dir", folder, "--nproc-per-node", str(ranks), SCRIPT, *arguments])
            print("torchrun: all is well", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            print(f"torchrun: {error}", flush=True)
        sys.stdout.flush()
        os._exit(0)

    said = Said()
    child, out = start(agent)
    said.read({out: None})
    end([child])
    return said


def under_ddprove(ddprove, ranks, arguments):
    said = Said()
    command = [ddprove, "exec", "--prove", "sums", "--launcher", "env", "--", sys.executable, "-S", torch_zygote.__file__,
               SOCKET, str(ranks), SCRIPT, *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          process_group=0) as ran:
        said.read({ran.stdout.fileno(): None})
        if said.is_over:
            ran.terminate()  # it ends what it started
    return said


def shorten(text, size):
    text = re.sub(r"\[?/__w/\S*/(\w+\.cc:\d+)\]?", r"[\1]", text)
    text = re.sub(r"127\.0\.0\.1\]:\d+|\[127\.0\.0\.1\]:\d+", "a port", text)
    return text if len(text) <= size else text[:size - 3] + "..."


def weights(said):
    return sorted((line.split()[1], line.split()[-1]) for _, _, line in said.lines if " ends with weights " in line)


def first_error(said, healthy):
    """What PyTorch says first, when, and of which rank that is; or how the run ended without a word."""
    for at_ns, rank, line in said.lines:
        match = ERROR.match(line)
        if match and "ChildFailedError" not in line:
            text = shorten(match[2].split(".")[-1] + ": " + match[3], 88)
            return f"{said.when(at_ns)}, rank {match[1] or rank}: {text}"
    ended = weights(said)
    if said.is_over:
        return f"nothing in {LIMIT_S} s"
    if len(ended) < len(healthy):
        return "no message; a rank is gone"
    found = {code for _, code in ended}
    return "nothing; weights " + ("of the ranks differ" if len(found) > 1 else
                                  "are right" if found == {code for _, code in healthy} else "are wrong, and equal")


def torchrun_says(said):
    text = "\n".join(line for _, _, line in said.lines)
    at_ns = next((at for at, _, line in said.lines if line.startswith("torchrun:")), None)
    if at_ns is None:
        return f"nothing in {LIMIT_S} s"
    root = re.search(r"Root Cause.*?rank\s*: (\d+).*?exitcode\s*: (\S+)", text, re.S)
    if root is None:
        return "nothing" if "all is well" in text else shorten(text.split("torchrun: ")[1].split("\n")[0], 60)
    return f"{said.when(at_ns)}, rank {root[1]}, exit code {root[2]}"


def ddprove_says(said):
    """[(milliseconds or None, verdict, ranks, text)]"""
    found = []
    for at_ns, _, line in said.lines:
        match = re.match(r"ddprove: ([A-Z_]+\.[A-Z_]+), rank ([\d,]*): (.*)", line)
        if match:
            ms = (at_ns - said.fault_ns) / 1e6 if said.fault_ns is not None else None
            found.append((ms, match[1], match[2], re.sub(r" \[after [\d.]+ ms\]$", "", match[3])))
        # Which call a dead rank owes is said when others come to it: of a finding that was said before.
        more = [i for i, one in enumerate(found) if line.startswith(f"ddprove: {one[3]}") and match is None]
        for i in more:
            found[i] = (*found[i][:3], line.removeprefix("ddprove: "))
    return found


PYTORCH = ("off", "detail", "torchrun")
# What a cell's answer depends on, beside PyTorch.
CODE = {"pytorch": ["tests/guest/torch/faulty.py", "ci/bench/torch_faults.py", "ci/torch_zygote.py"]}
CODE["ddprove"] = CODE["pytorch"] + ["harness/guest", "harness/watch", "harness/exec", "harness/results",
                                     "harness/observed"]


def hash_of(paths):
    """As ci/results has it: of what git tracks there."""
    ran = subprocess.run(["bash", os.path.join(HERE, "../stale"), "hash", *paths], stdout=subprocess.PIPE, text=True,
                         check=True)
    return ran.stdout.strip()


def measure(job):
    """A cell: what it says. Of PyTorch's columns a text, which depends on the weights of a healthy run; of ddprove's
    what it has found, and its lines. Of no fault: the weights, or ddprove's lines."""
    ddprove, fault, ranks, culprit, column, healthy = job
    arguments = ["--timeout", str(TIMEOUT_S), "--rank", str(culprit)] + (["--fault", fault] if fault else [])
    if column == "torchrun":
        return torchrun_says(under_torchrun(ranks, arguments))
    if column in PYTORCH:
        said = run_alone(ranks, arguments, column == "detail")
        return first_error(said, healthy) if fault else weights(said)
    watched = under_ddprove(ddprove, ranks, arguments)
    return {"found": ddprove_says(watched), "lines": [line for _, _, line in watched.lines]}


class Cells:
    """What has been measured, in a file as well; a line of it is {"cell": [...], "code": hash, "says": ...}."""

    def __init__(self, path, version):
        self.path, self.version, self.found = path, version, {}
        self.codes = {name: hash_of(paths) for name, paths in CODE.items()}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    self.take(line)

    def code_of(self, column):
        return f"{self.version} {self.codes['ddprove' if column == 'ddprove' else 'pytorch']}"

    def take(self, line):
        try:
            row = json.loads(line)
            cell, code, says = tuple(row["cell"]), row["code"], row["says"]
        except (ValueError, LookupError):
            return  # cut short when a run was ended: it is measured again
        if code == self.code_of(cell[-1]):
            self.found[cell] = says

    def add(self, cell, says):
        self.found[cell] = json.loads(json.dumps(says))
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"cell": cell, "code": self.code_of(cell[-1]), "says": says}) + "\n")


def measure_all(cells, ddprove, wanted, workers):
    """wanted: [(fault, ranks, culprit, column)], of which those that are known are not measured."""
    wanted = [cell for cell in wanted if cell not in cells.found]
    if not wanted:
        return
    with concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        running = {}
        for fault, ranks, culprit, column in wanted:
            healthy = cells.found.get((None, ranks, culprit, "off"), [])
            running[pool.submit(measure, (ddprove, fault, ranks, culprit, column, healthy))] = (
                fault, ranks, culprit, column)
        for done in concurrent.futures.as_completed(running):
            cells.add(running[done], done.result())


def is_right(row, culprit):
    """Whether ddprove said what was to be said, in time, and nothing else."""
    expected = EXPECTED.get(row["fault"])
    if expected is None:
        return False
    verdicts, kind, limit_ms = expected
    who = {str(culprit)}
    if "both" in verdicts and row["ranks"] == 2:
        who = {",".join(map(str, range(2))), "0", "1"}
    return bool(row["found"]) and all(
        verdict in verdicts and ranks in who and kind in text and (ms is None or ms <= limit_ms)
        for ms, verdict, ranks, text in row["found"])


def show(row, culprit):
    print(f"\n{row['fault']}, {row['ranks']} ranks{'' if is_right(row, culprit) else '    WRONG'}")
    for column in [name for name in ("off", "detail", "torchrun") if name in row]:
        print(f"    {column:9} {row[column]}")
    for ms, verdict, ranks, text in row["found"]:
        when = "?" if ms is None else f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"
        print(f"    {'ddprove':9} {when}, rank {ranks}: {verdict}: {text}")
    if not row["found"]:
        print(f"    {'ddprove':9} nothing; {' / '.join(row['lines'][-3:])[-300:]}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprove")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--only", default="")
    parser.add_argument("--rank", type=int, default=1, help="who goes wrong")
    parser.add_argument("--short", action="store_true", help="ddprove's column only")
    parser.add_argument("-j", type=int, default=4, help="cells of PyTorch's at a time")
    parser.add_argument("--keep", metavar="FILE", help="of what has been measured")
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("no PyTorch here; python3 -m venv V && V/bin/pip install torch==2.15.0")
        return 77
    torch_zygote.serve(SOCKET)
    import torch
    import torch._dynamo  # noqa: F401
    import torch.distributed.run  # noqa: F401
    sys.path.insert(0, os.path.dirname(SCRIPT))
    import faulty
    torch.set_num_threads(1)
    ddprove, wrong, count, began = os.path.abspath(args.ddprove), 0, 0, time.monotonic()
    load = os.getloadavg()[0]
    cells = Cells(args.keep, torch.__version__)
    known = len(cells.found)
    faults = [fault for fault in faulty.FAULTS if args.only in fault]
    worlds = list(map(int, args.ranks.split(",")))
    pytorch = () if args.short else PYTORCH
    measure_all(cells, ddprove, [(None, ranks, args.rank, "off") for ranks in worlds], len(worlds))
    measure_all(cells, ddprove, [(fault, ranks, args.rank, column) for column in reversed(pytorch)
                                 for ranks in reversed(worlds) for fault in faults], args.j)
    measure_all(cells, ddprove, [(fault, ranks, args.rank, "ddprove") for ranks in worlds
                                 for fault in (None, *faults)], 1)
    print(f"PyTorch {torch.__version__}, gloo, Linux {platform.release()}, {os.cpu_count()} cores, load {load:.1f} to "
          f"{os.getloadavg()[0]:.1f}; {len(cells.found) - known} cells in {time.monotonic() - began:.0f} s, {known} known; "
          f"rank {args.rank} goes wrong; time-out {TIMEOUT_S} s\ncode {cells.codes['ddprove']}")
    for ranks in worlds:
        said = [line for line in cells.found[None, ranks, args.rank, "ddprove"]["lines"] if line.startswith("ddprove")]
        print(f"\nhealthy, {ranks} ranks: weights {cells.found[None, ranks, args.rank, 'off']}; {said}")
        for fault in faults:
            row = {"fault": fault, "ranks": ranks, **cells.found[fault, ranks, args.rank, "ddprove"]}
            row.update({column: cells.found[fault, ranks, args.rank, column] for column in pytorch})
            show(row, args.rank)
            count += 1
            wrong += not is_right(row, args.rank)
    os.unlink(SOCKET)
    print(f"\n{count} rows, {wrong} of ddprove's wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
