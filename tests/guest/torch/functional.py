"""Functional collectives, which return their result, and those of torch.distributed.nn, through which gradients flow.

    torchrun --nproc-per-node 2 functional.py [--steps 10]
"""
import argparse

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.nn.functional as dist_nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    world = dist.group.WORLD
    gather = getattr(funcol, "all_gather_single_autograd", None) or funcol.all_gather_tensor_autograd
    weight, right = torch.ones(4, requires_grad=True), []
    for step in range(steps):
        x = torch.full((4,), float(rank + step))
        total = funcol.all_reduce(x, "sum", world)
        parts = funcol.all_gather_tensor(x, 0, world)
        shard = funcol.reduce_scatter_tensor(parts, "sum", 0, world)
        first = funcol.broadcast(x, 0, world)
        many = funcol.all_reduce_coalesced([x, x + 1], "max", world)
        turned = funcol.all_to_all_single(parts, None, None, world)
        dist_nn.all_reduce(weight * x).sum().backward()
        gather(weight * x, 0, world).sum().backward()  # a reduce_scatter within the pass, made in C++
        right.append(total.sum() == 4 * (sum(range(world_size)) + world_size * step) and
                     parts.shape == (4 * world_size,) and shard[0] == world_size * x[0] and first[0] == step and
                     many[1][0] == world_size + step and turned[0] == x[0])
    assert all(right)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
