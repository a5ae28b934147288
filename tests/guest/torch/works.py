"""Collectives that run beside the program: posted at once, waited for in another order; coalesced; in a thread.

    torchrun --nproc-per-node 2 works.py [--steps 10]
"""
import argparse
import threading
from datetime import timedelta

import torch
import torch.distributed as dist


def out_of_order(rank, world_size):
    a, b, c = torch.ones(64), torch.full((32,), float(rank)), torch.zeros(8)
    parts = [torch.empty(8) for _ in range(world_size)]
    works = [dist.all_reduce(a, async_op=True), dist.broadcast(b, 0, async_op=True),
             dist.all_gather(parts, c + rank, async_op=True), dist.reduce(c, 0, async_op=True),
             dist.barrier(async_op=True)]
    for work in reversed(works):
        work.wait()
        work.wait()  # once more is allowed
    assert a[0] == world_size and b[0] == 0 and parts[-1][0] == world_size - 1


def one_that_is_polled(world_size):
    x = torch.ones(16)
    work = dist.all_reduce(x, async_op=True)
    while not work.is_completed():
        pass
    work.wait()
    assert x[0] == world_size


def with_little_time(rank, world_size):
    """The time of a wait may be up before the call is done; then it is waited for again."""
    x = torch.ones(16)
    if rank != 0:
        dist.recv(torch.empty(1), 0)
    work = dist.all_reduce(x, async_op=True)
    if rank == 0:
        try:
            work.wait(timedelta(milliseconds=5))
            raise AssertionError("nobody else was there yet")
        except RuntimeError:
            pass
        for other in range(1, world_size):
            dist.send(torch.empty(1), other)
    work.wait(timedelta(seconds=60))
    work.wait(timedelta(seconds=60))
    assert x[0] == world_size


def by_future(world_size):
    future = dist.all_reduce(torch.ones(16), async_op=True).get_future()
    halved = future.then(lambda done: done.value()[0] / world_size)
    assert halved.wait()[0] == 1


def coalesced(world_size):
    xs = [torch.ones(4), torch.ones(9), torch.ones(16)]
    with dist._coalescing_manager(group=dist.group.WORLD, async_ops=True) as manager:
        for x in xs:
            dist.all_reduce(x)
    manager.wait()
    assert all(x[0] == world_size for x in xs)


def in_a_thread(group, world_size):
    """While this thread works, another one sums something in a group of its own."""
    x = torch.ones(8)
    thread = threading.Thread(target=dist.all_reduce, args=(x,), kwargs={"group": group})
    thread.start()
    y = torch.ones(8)
    dist.all_reduce(y)
    thread.join()
    assert x[0] == y[0] == world_size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    beside = dist.new_group()
    for _ in range(steps):
        out_of_order(rank, world_size)
        one_that_is_polled(world_size)
        with_little_time(rank, world_size)
        by_future(world_size)
        coalesced(world_size)
        in_a_thread(beside, world_size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
