"""Shards of unequal length: with --join, ranks that ran out shadow the others' collectives; without, all ranks agree
on the length of the shortest shard.

    torchrun --nproc-per-node 2 uneven.py --steps 20 [--join]
"""
import argparse
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def shard(args, rank):
    """Rank r has 2 r batches fewer than --steps, but some; the last batch of each is short."""
    count = max(args.steps - 2 * rank, 2) * args.batch - 1
    generator = torch.Generator().manual_seed(args.seed * 1000 + rank)
    x = torch.randn(count, 8, generator=generator)
    return list(zip(x.split(args.batch), (x.sum(1, keepdim=True) / 4).split(args.batch)))


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = DDP(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    batches = shard(args, rank)
    if not args.join:
        shortest = torch.tensor(len(batches))
        dist.all_reduce(shortest, op=dist.ReduceOp.MIN)
        batches = batches[:shortest]
    with model.join() if args.join else contextlib.nullcontext():
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    if rank == 0:
        print(f"step {len(batches)} loss {loss.item():.6f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--join", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
