"""Runs of other people's PyTorch programs under `ddprove exec`, each with what is to be said of it.

A row is a scenario: a command, a number of ranks, a fault in one of its calls (or none), and the verdict, the culprit
and the call that are to be named. It is right if ddprove says exactly these, and a healthy one if nothing is said and
the program ends well. No process of a row may be left behind."""
import json
import os
import select
import shutil
import subprocess
import tempfile

# name: (point, action, verdict)
FAULTS = {
    "kill": ("collective/pre", "kill: SIGKILL", "CRASH.SIGNALED"),
    "exit": ("collective/pre", "exit: 3", "CRASH.EXITED"),
    "stop": ("collective/pre", "stop: forever", "HANG.STOPPED"),
    "hang": ("collective/pre", "hang: true", "HANG.NOT_JOINED"),
    "skip": ("collective/pre", "skip: true", "MISMATCH.MISSING"),
}
MARK = "DDPROVE_ROW"  # an environment variable by which a row's processes are known
LIMIT_S = 300
END_S = 20


class Row:
    """at: where the fault is, as in a scenario ("comm: world, kind: all_reduce, hit: 9"), and of which rank. said: what
    is named in place of the fault's own verdict, and more of what is expected ("op: {kind: all_reduce}")."""

    def __init__(self, name, command, ranks, fault=None, at="", rank=1, said="", verdict=None, launcher="own"):
        self.name, self.command, self.ranks, self.launcher = name, command, ranks, launcher
        self.fault, self.at, self.rank, self.said, self.verdict = fault, at, rank, said, verdict

    def scenario(self):
        job = f"guest: {{launcher: {self.launcher}}}, ranks: {self.ranks}, timeout_ms: 60000"
        text = f"# A row.\nid: rows.row\njob: {{{job}}}\n"
        if self.fault is None:
            return text + "expect: {verdict: NONE}\nforbid: {leaks: [process]}\n"
        point, action, verdict = FAULTS[self.fault]
        return (text + f"faults:\n  - at: {{rank: {self.rank}, {self.at}}}\n    point: {point}\n    do: {{{action}}}\n"
                f"expect: {{verdict: {self.verdict or verdict}, culprit: injected{self.said and ', '}{self.said}}}\n"
                "forbid: {accuse: others, leaks: [process]}\n")


def has_ended(pid):
    """Whether a process ends by itself: a server of multiprocessing does so once it sees that its parent is gone."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        return bool(select.select([handle], [], [], END_S)[0])
    finally:
        os.close(handle)


def left_behind(mark):
    """Processes that still run with the mark in their environment, and do not end."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass  # it has ended, or is somebody else's
    return [pid for pid in found if not has_ended(pid)]


def run(ddprove, row):
    """(whether the row is right, what was said of it in one line, milliseconds until it was named or None)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows", "row.yaml")
        os.mkdir(os.path.dirname(path))
        with open(path, "w", encoding="ascii") as file:
            file.write(row.scenario())
        json_path = os.path.join(folder, "all.json")
        mark = os.path.basename(folder)
        # torchrun leaves the folder of its logs behind, also after a run that went well.
        environment = {**os.environ, MARK: mark, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TMPDIR": folder}
        ran = subprocess.run([ddprove, "exec", path, "--out", "runs", "--json", json_path, "--"] + row.command,
                             cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=environment, text=True, timeout=LIMIT_S, check=False)
        try:
            with open(json_path, encoding="utf-8") as file:
                found = json.load(file)["scenarios"][0]
        except (OSError, ValueError, LookupError):
            return False, ran.stdout, None
        words, is_right = say(found), found["outcome"] == "PASS"
        if not is_right:
            words += f"\n    {found['outcome']}: {found['reason']}{log_of(folder)}"
            keep = os.environ.get("DDPROVE_ROWS_KEEP")
            if keep:
                shutil.copytree(os.path.join(folder, "runs"), os.path.join(keep, mark))
        left = left_behind(mark)
        if left:
            is_right, words = False, words + f"\n    left behind: {left}"
        return is_right, words, found.get("detect_ms")


def log_of(folder):
    """The last lines that the program printed."""
    text = ""
    for place, _, names in os.walk(os.path.join(folder, "runs")):
        for name in sorted(n for n in names if n.endswith(".log")):
            with open(os.path.join(place, name), encoding="utf-8", errors="replace") as file:
                lines = [line.rstrip() for line in file if line.strip()][-3:]
            text += "".join(f"\n        {name}: {line}" for line in lines)
    return text


def say(found):
    operation = found["op"]
    words = f"{found['verdict']} of {','.join(map(str, found['culprit'])) or 'nobody'}"
    if operation is not None:
        words += f", {operation['kind']} {operation['seq']} of {operation['comm']}"
    return words


def run_all(ddprove, rows):
    """Print a line a row; returns how many are wrong."""
    wrong = 0
    for row in rows:
        is_right, words, _ = run(ddprove, row)
        wrong += not is_right
        fault = f"{row.fault} of rank {row.rank} at {row.at}" if row.fault else "healthy"
        print(f"{'right' if is_right else 'WRONG'}  {row.name}, {row.ranks} ranks, {fault}: {words}", flush=True)
    print(f"{len(rows)} rows, {wrong} wrong")
    return wrong
