"""Runs scripts with forked ranks, so that PyTorch is imported once for many runs."""
import multiprocessing.util
import os
import runpy
import signal
import socket
import sys
import tempfile
import traceback

SCRIPTS = os.path.dirname(os.path.abspath(__file__))
if "ddprove_torch" not in sys.modules:  # mutants.py brings one of its own
    sys.path.insert(0, os.path.join(SCRIPTS, "../../../harness/guest/torch"))

from ddprove_torch import proof as proofs, prove as proves  # noqa: E402

LIMIT_S = 300


def warm_up():
    """Import what ranks need, once for all of them."""
    import torch
    import torch._dynamo  # noqa: F401  an optimizer imports it at its first step
    torch.set_num_threads(1)
    return torch


def run_rank(words, rank, ranks, port, folder, at_end):
    """This process becomes a rank, as a launcher would have started it, and ends. at_end: called behind the script."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), DDPROVE_PROVE_STEPS="all")
    log = os.open(os.path.join(folder, f"log{rank}"), os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.alarm(LIMIT_S)
    code = 1
    try:
        proves.load()
        sys.argv = [os.path.join(SCRIPTS, words[0]), *words[1:]]
        runpy.run_path(sys.argv[0], run_name="__main__")
        if at_end:
            at_end(rank)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        multiprocessing.util._exit_function()
        sys.stdout.flush()
        os._exit(code)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(command, ranks, steps, folder, at_end=None):
    """Run a script to its end. {file} in the command is a checkpoint in the folder. Returns its ranks' exit codes."""
    words = command.format(file=os.path.join(folder, "checkpoint.pt")).split() + ["--steps", str(steps)]
    port, children = free_port(), []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            run_rank(words, rank, ranks, port, folder, at_end)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for rank, code in enumerate(codes):
        if code:
            with open(os.path.join(folder, f"log{rank}"), encoding="utf-8") as file:
                print(f"{command}: rank {rank}: exit code {code}\n{file.read()[-2000:]}", file=sys.stderr)
    return codes


def prove(command, ranks, steps):
    """The proof of one run of a script."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DDPROVE_PROVE"] = folder
        run(command, ranks, steps, folder)
        del os.environ["DDPROVE_PROVE"]
        return proofs.read(folder)
