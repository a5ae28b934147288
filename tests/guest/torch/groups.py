"""Ranks in groups of their own: neighbours, every second one, and a split of all.

    torchrun --nproc-per-node 4 groups.py [--steps 10]
"""
import argparse

import torch
import torch.distributed as dist


def neighbours_and_columns(rank, world_size):
    """Two ways to cut the ranks in groups of two, as a mesh of data and model ranks has them. Every rank makes all."""
    rows = [dist.new_group([i, i + 1]) for i in range(0, world_size, 2)]
    columns = [dist.new_group(list(range(i, world_size, 2)), group_desc=f"column {i}") for i in range(2)]
    return rows[rank // 2], columns[rank % 2]


def halves(world_size):
    """A split of all, where this PyTorch can split what gloo connects."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    if not getattr(backend, "supports_splitting", False):
        return dist.group.WORLD
    half = world_size // 2
    return dist.split_group(split_ranks=[list(range(half)), list(range(half, world_size))])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    row, column = neighbours_and_columns(rank, world_size)
    half = halves(world_size)
    right = []
    for step in range(steps):
        x = torch.full((16,), float(rank + step))
        dist.all_reduce(x, group=row)
        dist.all_reduce(x, group=column)
        right.append(x[0] == sum(range(world_size)) + world_size * step)
        y = torch.full((5,), float(rank))
        dist.all_reduce(y, op=dist.ReduceOp.MAX, group=half)
        right.append(y[0] == dist.get_process_group_ranks(half)[-1])
        parts = [torch.empty(3) for _ in range(dist.get_world_size(row))]
        dist.all_gather(parts, torch.full((3,), float(rank)), group=row)
        right.append([part[0].item() for part in parts] == dist.get_process_group_ranks(row))
        dist.all_reduce(x)
    assert all(right)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
