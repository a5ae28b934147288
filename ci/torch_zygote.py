#!/usr/bin/env python3
"""Ranks of PyTorch scripts that begin at once: one process has imported PyTorch, and forks them.

Usage: torch_zygote.py SOCKET RANKS SCRIPT [ARGUMENTS]   be the launcher of a job, which ddprove starts (--launcher env)
serve(SOCKET) is the process that forks; it ends with the one that has called it.
What a rank finds is as if its launcher had started it, but for the import: environment, folder, output; that is ddprove's
too, whose part of PyTorch's import is made up for then."""
import json
import os
import signal
import socket
import sys


def be_launcher(path, ranks, script, arguments):
    """Ask for the ranks and wait for them. What ends this process ends them."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(path)
        text = json.dumps({"ranks": ranks, "script": script, "arguments": arguments, "folder": os.getcwd(),
                           "environment": dict(os.environ)}).encode()
        socket.send_fds(asked, [len(text).to_bytes(4, "little")], [1, 2])
        asked.sendall(text)
        answer = asked.recv(1)
    return answer[0] if answer else 1


def receive(asked):
    size, descriptors, _, _ = socket.recv_fds(asked, 4, 2)
    size, text = int.from_bytes(size, "little"), b""
    while len(text) < size:
        more = asked.recv(size - len(text))
        if not more:
            raise EOFError
        text += more
    for number, descriptor in zip((1, 2), descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return json.loads(text)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def be_rank(job, rank, port):
    import atexit
    import runpy

    os.environ.clear()
    os.environ.update(job["environment"], RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(job["ranks"]),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    folder = os.environ.get("DDPROVE_RUN_DIR")
    os.chdir(folder or job["folder"])
    sys.path[:0] = os.environ.get("PYTHONPATH", "").split(":") + [os.path.dirname(job["script"])]
    code = 1
    try:
        from ddprove_torch import adapter, prove
        adapter.autoload()
        prove.load()
        sys.argv = [job["script"], *job["arguments"]]
        runpy.run_path(job["script"], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # pylint: disable=broad-except
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()  # pylint: disable=protected-access
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_job(asked):
    """In a process of its own: the ranks, and who waits for them."""
    import select

    job, children = receive(asked), {}
    port = free_port()
    for rank in range(job["ranks"]):
        child = os.fork()
        if child == 0:
            asked.close()
            be_rank(job, rank, port)
        children[os.pidfd_open(child)] = child
    worst = 0
    while children:
        for ready in select.select([asked, *children], [], [])[0]:
            if ready is asked:  # the launcher is gone
                for child in children.values():
                    os.kill(child, signal.SIGKILL)
                os._exit(1)
            status = os.waitstatus_to_exitcode(os.waitpid(children.pop(ready), 0)[1])
            os.close(ready)
            worst = max(worst, status if status >= 0 else 128 - status)
    asked.sendall(bytes([worst]))
    os._exit(0)


def serve(path):
    """Fork the process that serves; returns when it listens."""
    ready, told = os.pipe()
    if os.fork() == 0:
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        import torch
        import torch._dynamo  # noqa: F401  an optimizer imports it
        import torch.distributed  # noqa: F401
        torch.set_num_threads(1)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(64)
            os.write(told, b"1")
            while True:
                asked, _ = listener.accept()
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listener.close()
                    run_job(asked)
                asked.close()
    os.close(told)
    if not os.read(ready, 1):
        sys.exit("PyTorch could not be imported")
    os.close(ready)


if __name__ == "__main__":
    sys.exit(be_launcher(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
