"""A mixture of experts whose experts are used as the data decide, so that some get no gradient on some ranks:
find_unused_parameters.

    torchrun --nproc-per-node 2 moe.py --steps 20
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

EXPERTS = 4


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, EXPERTS)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
                                     for _ in range(EXPERTS))

    def forward(self, x):
        weight = self.gate(x).softmax(1)
        best, choice = weight.max(1)
        y = torch.zeros(len(x), 1)
        for number, expert in enumerate(self.experts):
            chosen = (choice == number).nonzero()[:, 0]
            if len(chosen):
                y = y.index_add(0, chosen, best[chosen, None] * expert(x[chosen]))
        balance = EXPERTS * (weight.mean(0) ** 2).sum()
        return {"y": y, "balance": balance}


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = DDP(Mixture(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
    generator = torch.Generator().manual_seed(args.seed * 1000 + rank)
    for step in range(args.steps):
        x = torch.randn(args.batch, 8, generator=generator)
        target = x[:, :4].sum(1, keepdim=True).sin()
        out = model(x)
        loss = F.mse_loss(out["y"], target) + 0.01 * out["balance"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"step {args.steps} loss {loss.item():.6f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--batch", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
