#!/usr/bin/env python3
"""Ranks on the tcp transport in two network namespaces, joined by a virtual cable.

Of two, what must be told apart: a peer that dies, one that is stopped, and a cable that is cut. Of four,
two in each namespace: sums by schedules, and who shares a host. Usage: tcp_namespaces.py TCP_PAIR
TCP_WORLD. Exit 77: this machine allows no such namespaces.
"""
import os
import shutil
import signal
import subprocess
import sys

INSIDE = "TCP_NAMESPACES_INSIDE"
ADDRESS = ["10.77.0.1", "10.77.0.2"]
failures = []


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def enter():
    """Run this again as root of a namespace of its own."""
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            skip(f"there is no {tool} (util-linux, iproute2)")
    if subprocess.run(["unshare", "-rn", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("user or network namespaces are not allowed")
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])


def ip(*words, inside=None):
    prefix = ["nsenter", "-t", str(inside), "-n"] if inside else []
    return subprocess.run([*prefix, "ip", *words], capture_output=True, text=True, check=False)


def lay_cable(other):
    done = ip("link", "add", "cable0", "type", "veth", "peer", "name", "cable1", "netns", str(other))
    if done.returncode != 0:
        skip(f"no virtual cable: {done.stderr.strip()}")
    for end, inside in ((0, None), (1, other)):
        for words in (["link", "set", "lo", "up"],
                      ["addr", "add", f"{ADDRESS[end]}/24", "dev", f"cable{end}"],
                      ["link", "set", f"cable{end}", "up"]):
            done = ip(*words, inside=inside)
            if done.returncode != 0:
                skip(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Ranks:
    """Both ranks; the lines that they say are read in order."""

    def __init__(self, program, other, port, mode):
        command = [program, "", ADDRESS[0], str(port), mode]
        self.process = []
        for rank in (0, 1):
            prefix = ["nsenter", "-t", str(other), "-n"] if rank == 1 else []
            command[1] = str(rank)
            self.process.append(subprocess.Popen(
                [*prefix, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def hear(self, rank):
        return self.process[rank].stdout.readline().strip()

    def expect(self, rank, *parts):
        line = self.hear(rank)
        if not any(part in line for part in parts):
            print(f"rank {rank} said {line!r}")
            failures.append(f"rank {rank} said {line!r}, not {' or '.join(parts)}")
        else:
            print(f"rank {rank}: {line}")

    def end(self, codes=(0, 0)):
        for rank, process in enumerate(self.process):
            process.stdin.close()
            code = process.wait(timeout=60)
            if code != codes[rank]:
                failures.append(f"rank {rank} ended with {code}, not {codes[rank]}")


def check_exchange(program, other):
    print("# nothing is done to them")
    ranks = Ranks(program, other, 29500, "exchange")
    ranks.expect(0, "done")
    ranks.expect(1, "done")
    ranks.end()


def check_kill(program, other):
    print("# rank 1 is killed")
    ranks = Ranks(program, other, 29501, "loss")
    ranks.expect(0, "ready")
    ranks.expect(1, "ready")
    ranks.process[1].kill()
    ranks.expect(0, "member 1 ended its connections without a farewell", "member 1 has a connection that broke")
    ranks.end((0, -signal.SIGKILL))


def check_stop(program, other):
    print("# rank 1 is stopped for four times as long as a silence may last, and goes on")
    ranks = Ranks(program, other, 29502, "stop")
    ranks.expect(0, "ready")
    ranks.expect(1, "ready")
    ranks.process[1].send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, ranks.process[1].pid, os.WSTOPPED)
    ranks.process[0].stdin.close()
    ranks.expect(0, "still connected")
    ranks.process[1].send_signal(signal.SIGCONT)
    ranks.expect(0, "done")
    ranks.expect(1, "done")
    ranks.end()


def check_cut(program, other):
    print("# the cable is cut")
    ranks = Ranks(program, other, 29503, "loss")
    ranks.expect(0, "ready")
    ranks.expect(1, "ready")
    ip("link", "set", "cable0", "down")
    for rank in (0, 1):
        ranks.expect(rank, f"member {1 - rank} answers no more: its host or the link to it is gone")
    ranks.end()


def check_world(other):
    for number, algorithm in enumerate(("ring", "rabenseifner", "hierarchical")):
        print(f"# four ranks sum by {algorithm}")
        command = [sys.argv[2], "", "4", ADDRESS[0], str(29510 + number), algorithm]
        ranks = []
        for rank in range(4):
            command[1] = str(rank)
            prefix = ["nsenter", "-t", str(other), "-n"] if rank >= 2 else []
            ranks.append(subprocess.Popen([*prefix, *command], stdout=subprocess.PIPE, text=True))
        expected = "done 0 0 1 1" if algorithm == "hierarchical" else "done"
        for rank, process in enumerate(ranks):
            said = process.communicate(timeout=120)[0].strip()
            print(f"rank {rank}: {said}")
            if said != expected or process.returncode != 0:
                failures.append(f"{algorithm}: rank {rank} said {said!r}, not {expected!r}")


def main():
    if INSIDE not in os.environ:
        enter()
    # The other namespace lives as long as this process reads.
    holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; cat"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    holder.stdout.readline()
    lay_cable(holder.pid)
    for check in (check_exchange, check_kill, check_stop, check_cut):
        check(sys.argv[1], holder.pid)
    ip("link", "set", "cable0", "up")
    check_world(holder.pid)
    holder.stdin.close()
    holder.wait()
    for failure in failures:
        print(f"FAIL: {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
