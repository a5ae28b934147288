#!/usr/bin/env python3
"""A training program in Python that shows its collectives to ddprove through the C library alone, by ctypes: the lines
between the two rules. Usage: ddprove exec --ranks 4 -- trainer.py [STEPS [skip|count|kill RANK STEP]], with torchrun's
variables; DDPROVE_GUEST_LIBRARY says where the library lies, if the system does not find it."""
import array
import multiprocessing.connection as connection
import os
import signal
import sys
import time

# ----------------------------------------------------------------------------------------------------------------------
from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_uint32, c_uint64, c_void_p, sizeof

library = CDLL(os.environ.get("DDPROVE_GUEST_LIBRARY", "libddprove_guest.so.1"))
ALL_REDUCE, F32, SUM = 0, 11, 1  # as in ddprove_guest.h


class Call(Structure):
    _fields_ = [(n, c_uint32) for n in ("size_bytes", "comm", "kind", "dtype", "redop", "root")] + [
        ("elem_count", c_uint64), ("input", c_void_p), ("output", c_void_p), ("out_count", c_uint64),
        ("bucket", c_uint32), ("name", c_char_p), ("seq", c_uint64), ("state", c_uint64 * 6)]


library.ddprove_guest_comm_create.argtypes = [c_uint64, c_uint32, c_uint32, c_char_p]
library.ddprove_guest_call_begin.argtypes = library.ddprove_guest_call_end.argtypes = [POINTER(Call)]
library.ddprove_guest_step.argtypes = [c_uint64]


def shown(comm, data, count, all_reduce):
    call = Call(sizeof(Call), comm, ALL_REDUCE, F32, SUM, 0, count, data.buffer_info()[0], data.buffer_info()[0])
    for _ in range(library.ddprove_guest_call_begin(byref(call))):
        all_reduce(data, call.elem_count)
    library.ddprove_guest_call_end(byref(call))
# ----------------------------------------------------------------------------------------------------------------------


def connect(rank, world_size, port):
    """Rank 0 has a connection to each other rank, these have one to it."""
    if rank == 0:
        listener = connection.Listener(("127.0.0.1", port), backlog=world_size)
        return [listener.accept() for _ in range(world_size - 1)]
    while True:
        try:
            return [connection.Client(("127.0.0.1", port))]
        except ConnectionRefusedError:  # it does not listen yet
            time.sleep(0.001)


def main():
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    fault, at = (sys.argv[2], [int(word) for word in sys.argv[3:5]]) if len(sys.argv) > 4 else ("", [])
    peers = connect(rank, world_size, int(os.environ["MASTER_PORT"]))

    def all_reduce(data, count):
        mine = array.array("f", data[:count])
        if rank > 0:
            peers[0].send_bytes(mine.tobytes())
        else:
            for peer in peers:
                mine = array.array("f", map(sum, zip(mine, array.array("f", peer.recv_bytes()))))
            for peer in peers:
                peer.send_bytes(mine.tobytes())
        data[:count] = mine if rank == 0 else array.array("f", peers[0].recv_bytes())

    library.ddprove_guest_attach(rank, world_size)
    world = library.ddprove_guest_comm_create(1, rank, world_size, b"world")
    weights = array.array("f", [0.0] * 16)
    for step in range(steps):
        library.ddprove_guest_step(step)
        is_now = at == [rank, step]
        if is_now and fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        gradient = array.array("f", [weight - rank - i for i, weight in enumerate(weights)])
        if not (is_now and fault == "skip"):
            shown(world, gradient, 8 if is_now and fault == "count" else 16, all_reduce)
        weights = array.array("f", [w - 0.001 * g / world_size for w, g in zip(weights, gradient)])
    library.ddprove_guest_detach()
    print(f"weights {weights[0]:.6f} {weights[-1]:.6f}")


main()
