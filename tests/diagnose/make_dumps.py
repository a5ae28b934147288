"""Make the sets of Flight Recorder dumps that tests/data/diagnose holds, with a real PyTorch.

    PYTHON tests/diagnose/make_dumps.py OUT [CASE...]

PYTHON is one that has torch (2.15). OUT/<case> gets the pickles of all ranks that could still write one. For some
cases OUT/<case>_json gets the same as JSON, OUT/<case>_logs what the ranks printed, and OUT/<case>_stacks what py-spy
shows of them, if PATH has it. OUT/fr_trace.txt has a line for each case with what PyTorch's own analyser says. The
cases torchrun_* are a run under torchrun: its console and its error files. Paths and names of this machine are cut out;
nothing else is changed. A case's ranks have come to rest when none of their records grew for two seconds, and none
computes.
"""

import os
import pickletools
import re
import selectors
import shutil
import socket
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "comm_lib_trace_rank_"
WITH_JSON = ("asleep3", "healthy2", "subgroup4", "swapped3", "overflown4")
WITH_LOGS = ("dead3", "timed_out3", "unused3", "shapes3", "swapped2", "skip_other_size3")
TORCHRUN = ("torchrun_raises", "torchrun_killed", "torchrun_exits")
WITH_STACKS = ("asleep3", "loader3", "message3")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Rank:
    """A process of the case, and what it answers; dead once it answers no more."""

    def __init__(self, case, rank, ranks, port, folder, extra):
        read_end, write_end = os.pipe()
        environment = dict(
            os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
            LOCAL_RANK=str(rank), REPLY_FD=str(write_end), TORCH_FR_DUMP_TEMP_FILE=f"{folder}/{PREFIX}",
            OMP_NUM_THREADS="1", **extra)
        with open(f"{folder}/stderr.{rank}", "w") as errors:
            self.process = subprocess.Popen([sys.executable, f"{HERE}/dump_rank.py", case], env=environment,
                                            stdin=subprocess.PIPE, stdout=errors, stderr=errors,
                                            pass_fds=[write_end], text=True)
        os.close(write_end)
        self.replies = os.fdopen(read_end)

    def ask(self, words, limit_s=60):
        try:
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return None
        with selectors.DefaultSelector() as selector:
            selector.register(self.replies, selectors.EVENT_READ)
            if not selector.select(limit_s):
                return None
        return self.replies.readline().strip() or None


def ticks(rank):
    """The processor time that it has taken."""
    try:
        with open(f"/proc/{rank.process.pid}/stat") as stat:
            words = stat.read().rpartition(")")[2].split()
        return int(words[11]) + int(words[12])
    except OSError:
        return 0


def rest(ranks):
    """Until no record has grown and no rank has computed for two seconds; ranks that died stay None."""
    before, used, same = None, [0] * len(ranks), 0
    while same < 8:
        time.sleep(0.25)
        now, took = [rank.ask("size") for rank in ranks], [ticks(rank) for rank in ranks]
        is_quiet = now == before and not any(a - b > 3 for a, b in zip(took, used))
        same = same + 1 if is_quiet and not any(size == "0/0" for size in now) else 0
        before, used = now, took


def without_paths(data):
    """The pickle with the folders of this machine cut off its strings; opcodes stay as they are."""
    out, last = [], 0
    for opcode, argument, place in pickletools.genops(data):
        if opcode.name == "BINUNICODE" and argument.startswith("/"):
            size = struct.unpack("<I", data[place + 1:place + 5])[0]
            text = cut(argument).encode()
            out += [data[last:place], b"X" + struct.pack("<I", len(text)) + text]
            last = place + 5 + size
    return b"".join(out) + data[last:]


def cut(path):
    path = re.sub(r"^.*/site-packages/", "", path)
    path = re.sub(r"^.*/lib/python3[.0-9]*/", "python3/", path)
    return re.sub(r"^.*/tests/diagnose/", "", path)


def analyse(folder):
    """What PyTorch's own analyser says of a folder with nothing but pickles in it, or how it fails."""
    done = subprocess.run([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder, "-p", PREFIX],
                          capture_output=True, text=True, cwd="/", timeout=120)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return "\n".join(cut(line) for line in (lines[-1:] if done.returncode else lines)) + "\n"


def make(case, out):
    import cases

    _, count, extra = cases.CASES[case]
    folder = os.path.join(out, case)
    shutil.rmtree(folder, ignore_errors=True)
    work = folder + ".work"
    for place in (folder, work):
        os.makedirs(place)
    port = free_port()
    ranks = [Rank(case, rank, count, port, work, extra) for rank in range(count)]
    for rank in ranks:
        rank.ask("size")
    rest(ranks)
    for rank in ranks:
        rank.ask(f"dump {work}")
    if case in WITH_STACKS and shutil.which("py-spy"):
        take_stacks(folder, ranks)
    for rank in ranks:
        rank.process.kill()
        rank.process.wait()
    names = sorted(name for name in os.listdir(work) if re.fullmatch(PREFIX + r"\d+", name))
    for name in names:
        with open(f"{work}/{name}", "rb") as source, open(f"{folder}/{name}", "wb") as target:
            target.write(without_paths(source.read()))
    answer = analyse(folder)
    for name in names if case in WITH_JSON else []:
        os.makedirs(f"{folder}_json", exist_ok=True)
        shutil.copy(f"{work}/{name}.json", f"{folder}_json/{name}.json")
    note(out, case, answer.splitlines()[-1] if answer.strip() else "-")
    if case in WITH_LOGS:
        os.makedirs(f"{folder}_logs", exist_ok=True)
        for rank in range(count):
            with open(f"{work}/stderr.{rank}") as source, open(f"{folder}_logs/rank{rank}.log", "w") as target:
                target.write("".join(cut_line(line) for line in source))
    shutil.rmtree(work)
    print(f"{case}: {len(names)} of {count} dumps")


def note(out, case, answer):
    """One line for the case in fr_trace.txt, in place of an older one."""
    path = f"{out}/fr_trace.txt"
    lines = {}
    if os.path.exists(path):
        with open(path) as text:
            lines = dict(line.rstrip("\n").split(": ", 1) for line in text)
    lines[case] = answer
    with open(path, "w") as text:
        text.write("".join(f"{name}: {lines[name]}\n" for name in sorted(lines)))


def take_stacks(folder, ranks):
    """What py-spy shows of each rank that still runs, as text and as JSON."""
    os.makedirs(f"{folder}_stacks", exist_ok=True)
    for number, rank in enumerate(ranks):
        for option, name in (([], f"rank{number}.txt"), (["--json"], f"rank{number}.json")):
            done = subprocess.run(["py-spy", "dump", *option, "--pid", str(rank.process.pid)], capture_output=True,
                                  text=True)
            if done.returncode == 0:
                text = re.sub(r"\(/\S*/bin/python", "(/usr/bin/python", done.stdout)
                text = re.sub(r"^(Process \d+: ).*$", r"\1python dump_rank.py", text, flags=re.M)
                with open(f"{folder}_stacks/{name}", "w") as target:
                    target.write(re.sub(r'(\(|")/[^" ]*?((?:torch|tests/diagnose|lib/python3[.0-9]*)/)', r"\1\2", text))


def cut_line(line):
    """Without the folders of this machine, its name and its clock's address."""
    line = re.sub(r'(File "|\[)/[^"\]]*?/(site-packages/|tests/diagnose/|third_party/)', r"\1", line)
    line = re.sub(r"^/\S*/tests/diagnose/", "", line)
    line = line.replace(socket.getfqdn(), "host").replace(socket.gethostname(), "host")
    return re.sub(r"(error_file: |of binary: |\"/)\S*?(/attempt_0|/bin/python\S*)", r"\1\2", line)


def make_torchrun(case, out):
    """A run under torchrun in which rank 1 goes wrong: its console, and the error files of its ranks."""
    folder = os.path.join(out, case)
    work = folder + ".work"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--master-port",
                           str(free_port()), "--log-dir", work, f"{HERE}/torchrun_rank.py", case],
                          capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    with open(f"{folder}/console.log", "w") as text:
        text.write("".join(cut_line(line) for line in done.stderr.splitlines(keepends=True)))
    for place, _, names in os.walk(work):
        for name in names:
            if name == "error.json" and "attempt_0" in place:
                target = f"{folder}/attempt_0/{os.path.basename(place)}"
                os.makedirs(target)
                with open(f"{place}/{name}") as source, open(f"{target}/{name}", "w") as text:
                    text.write("".join(re.sub(r"/[^\\ ]*?/(site-packages|tests/diagnose)/", "", line)
                                       for line in source))
    shutil.rmtree(work, ignore_errors=True)
    print(f"{case}: exit {done.returncode}")


def main():
    import cases

    out = os.path.abspath(sys.argv[1])
    for case in sys.argv[2:] or [*cases.CASES, *TORCHRUN]:
        (make_torchrun if case in TORCHRUN else make)(case, out)


if __name__ == "__main__":
    main()
