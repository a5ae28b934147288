"""Mixed precision in 16 bits with a GradScaler, whose first scales are too large: their steps are left out.

    torchrun --nproc-per-node 2 scaled.py [--steps 12] [--nan]
--nan: the model comes to a NaN by itself, and without a scaler nobody looks for it.
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--nan", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    model = DDP(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 127, enabled=not args.nan)
    torch.manual_seed(dist.get_rank())
    for step in range(args.steps):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        if args.nan and step == args.steps // 2 and dist.get_rank() == 1:
            loss = loss * torch.tensor(float("inf"))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
