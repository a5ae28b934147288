"""A learner, which trains and hands out its model and batches, and others that play with it: nobody else makes a step.

    torchrun --nproc-per-node 2 roles.py [--steps 10]
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if rank == 0 else None
    for _ in range(args.steps):
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)
        if rank == 0:
            for other in range(1, world_size):
                batch = torch.empty(16, 8)
                dist.recv(batch, other)
                optimizer.zero_grad()
                model(batch).pow(2).mean().backward()
                optimizer.step()
        else:
            dist.send(torch.randn(16, 8), 0)
        score = model(torch.ones(1, 8)).detach().sum()
        dist.all_reduce(score)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
