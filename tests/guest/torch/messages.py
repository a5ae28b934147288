"""Ranks that send each other messages, in a ring and to rank 0, between collectives.

Usage: torchrun --nproc-per-node 2 messages.py [--steps N] [--any] [--barrier]
Some of them are told apart by tags. --any: rank 0 receives from whoever sends first; --barrier: another barrier in front of the monitored one.
"""
import argparse

import torch
import torch.distributed as dist


def to_rank_0(step, rank, world_size, is_any):
    """All others send to rank 0, which answers."""
    if rank == 0:
        total = torch.zeros(8)
        for other in range(1, world_size):
            part = torch.empty(8)
            dist.recv(part, src=None if is_any else other)
            total += part
        for work in [dist.isend(total, other) for other in range(1, world_size)]:
            work.wait()
    else:
        dist.send(torch.full((8,), float(step)), 0)
        total = torch.empty(8)
        dist.irecv(total, 0).wait()
    return total


def around(rank, world_size):
    """To the next, from the one before."""
    got = torch.empty(3)
    messages = [dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % world_size),
                dist.P2POp(dist.irecv, got, (rank - 1) % world_size)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return got


def by_tag(rank):
    """Rank 1 takes the second message first."""
    got = torch.zeros(10), torch.zeros(20)
    if rank == 0:
        works = [dist.isend(torch.ones(10), 1, tag=1), dist.isend(torch.ones(20), 1, tag=2)]
    elif rank == 1:
        works = [dist.irecv(got[1], 0, tag=2), dist.irecv(got[0], 0, tag=1)]
    for work in works if rank < 2 else ():
        work.wait()
    return got[0][0] + got[1][0]


def counting_tags(step, rank):
    """A tag of its own for each message."""
    for i in range(8):
        if rank == 0:
            dist.send(torch.ones(4), 1, tag=100 + 8 * step + i)
        elif rank == 1:
            dist.recv(torch.empty(4), 0, tag=100 + 8 * step + i)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--any", action="store_true")
    parser.add_argument("--barrier", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    for step in range(args.steps):
        total = to_rank_0(step, rank, world_size, args.any)
        assert total[0] == step * (world_size - 1)
        assert by_tag(rank) == (2 if rank == 1 else 0)
        counting_tags(step, rank)
        assert around(rank, world_size)[0] == (rank - 1) % world_size
        if args.barrier:
            dist.barrier()
        dist.monitored_barrier()
        dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
