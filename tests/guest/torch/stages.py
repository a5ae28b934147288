"""Two stages of a pipeline, each with a model of its own, which DDP keeps equal within its half of the ranks.

    torchrun --nproc-per-node 4 stages.py [--steps 10]

Beside it rank 0 trains something for itself, before and after the models are wrapped.
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train_alone(probe, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        probe(torch.ones(1, 2)).sum().backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, half = dist.get_rank(), dist.get_world_size() // 2
    groups = [dist.new_group(list(range(first, first + half))) for first in (0, half)]
    stage = rank // half
    probe = nn.Linear(2, 1)
    own = torch.optim.SGD(probe.parameters(), lr=0.1)
    if rank == 0:
        train_alone(probe, own, 3)
    torch.manual_seed(3 + stage)
    model = DDP(nn.Linear(4, 4 + stage), process_group=groups[stage])
    if rank == 0:
        train_alone(probe, own, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(100 + rank)
    for _ in range(args.steps):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
