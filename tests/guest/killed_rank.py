#!/usr/bin/env python3
"""A rank of a guest is killed by SIGKILL at random moments, inside of the guest library or outside: it is named, and
nobody else; nothing of the job is left. Under --on-failure leave the others go on to their own end.
Usage: killed_rank.py DDPROVE TRAINER INSIDE [SEED]"""
import os
import random
import re
import signal
import subprocess
import sys
import time

RANKS, WAIT_S = 3, 20
ddprove, trainer, inside = sys.argv[1:4]
seed = int(sys.argv[4]) if len(sys.argv) > 4 else os.getpid()
drawn = random.Random(seed)
failures = 0
print(f"seed {seed}")


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # the process has ended
        return b""


def environment(pid):
    return read(f"/proc/{pid}/environ").split(b"\0")


def processes(mark):
    """Of the job that was started with this mark."""
    wanted = b"DDPROVE_TEST_JOB=" + mark.encode()
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and wanted in environment(pid)]


def until(condition):
    end = time.monotonic() + WAIT_S
    while True:
        result = condition()
        if result or time.monotonic() > end:
            return result
        time.sleep(0.002)


def mapped(pid):
    """What lies in its memory: (first, end, is code, path)."""
    for line in read(f"/proc/{pid}/maps").decode().splitlines():
        words = line.split(maxsplit=5)
        first, end = (int(word, 16) for word in words[0].split("-"))
        yield first, end, "x" in words[1], words[5] if len(words) > 5 else ""


def rank_process(mark, rank):
    """Once it has the library."""
    for pid in processes(mark):
        if b"RANK=%d" % rank in environment(pid) and any("libddprove_guest" in row[3] for row in mapped(pid)):
            return pid
    return None


def kill(pid):
    """Stopped for a moment, it shows where it is. Returns whether that is inside of the library."""
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:  # what is said of the job will show it
        return False
    until(lambda: read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] in ([b"T"], []))
    words = read(f"/proc/{pid}/syscall").split()
    code = [row for row in mapped(pid) if row[2] and "libddprove_guest" in row[3]]
    os.kill(pid, signal.SIGKILL)
    return len(words) > 1 and any(row[0] <= int(words[-1], 16) < row[1] for row in code)


def one(number, options, command, goes_on):
    """Returns whether the rank was killed inside of the library."""
    global failures
    mark, rank = f"{os.getpid()}-{number}", drawn.randrange(RANKS)
    delay_s = drawn.random() * 0.1
    job = subprocess.Popen([ddprove, "exec", "--ranks", str(RANKS), "--prove", "sums", *options, "--", *command],
                           env={**os.environ, "DDPROVE_TEST_JOB": mark}, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    pid = until(lambda: rank_process(mark, rank))
    wrong, is_inside = [], False
    if pid is None:
        wrong.append("it did not come")
    else:
        time.sleep(delay_s)
        shared = {row[3] for other in processes(mark) for row in mapped(other) if row[3].startswith("/dev/shm/")}
        is_inside = kill(pid)
    try:
        said = job.communicate(timeout=3 * WAIT_S)[0]
    except subprocess.TimeoutExpired:
        job.kill()
        said = job.communicate()[0] + "\n(it did not end)"
    found = re.findall(r"^ddprove: ([A-Z]+\.[A-Z_]+), rank ([0-9,]+):", said, re.MULTILINE)
    # A machine that is busy may take so long for the moment of the stop that this is seen.
    verdicts = {verdict for verdict, _ in found}
    if {ranks for _, ranks in found} != {str(rank)} or not verdicts <= {"CRASH.SIGNALED", "HANG.STOPPED"}:
        wrong.append(f"found: {found}")
    if job.returncode != 1:
        wrong.append(f"exit {job.returncode}, not 1")
    if goes_on and sorted(re.findall(r"^rank (\d+) went on$", said, re.MULTILINE)) != [
            str(other) for other in range(RANKS) if other != rank]:
        wrong.append("not all others went on")
    if not until(lambda: not processes(mark)):
        wrong.append(f"left: processes {processes(mark)}")
    if pid is not None:
        wrong += [f"left: {path}" for path in sorted(shared) if os.path.exists(path)]
    if wrong:
        failures += 1
        print(f"FAIL: rank {rank} of {' '.join(command)} {' '.join(options)}, killed after {delay_s:.3f} s: "
              f"{'; '.join(wrong)}\n{said}")
    return is_inside


count = sum(one(number, [], [trainer, "100000000"], False) for number in range(8))
print(f"trainer: {count} of 8 killed inside of the library")
count = sum(one(number, [], [inside, "100000000"], False) for number in range(8, 11))
count += sum(one(number, ["--on-failure", "leave"], [inside, "16000"], True) for number in range(11, 14))
print(f"program that is inside: {count} of 6 killed there")
if count == 0:
    failures += 1
    print("FAIL: nobody was killed inside of the library")
print(f"{failures} failures")
sys.exit(failures > 0)
