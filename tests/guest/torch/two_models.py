"""A generator and a discriminator, each in a DDP module of its own, with an optimizer each.

    torchrun --nproc-per-node 2 two_models.py [--steps 10]
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    generator = DDP(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16)))
    # The discriminator sees two batches in one backward pass.
    discriminator = DDP(nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    torch.manual_seed(dist.get_rank())
    for _ in range(args.steps):
        real, fake = torch.randn(16, 16), generator(torch.randn(16, 8))
        of_discriminator.zero_grad()
        both = discriminator(torch.cat([real, fake.detach()]))
        criterion(both, torch.cat([torch.ones(16, 1), torch.zeros(16, 1)])).backward()
        of_discriminator.step()
        of_generator.zero_grad()
        criterion(discriminator.module(fake), torch.ones(16, 1)).backward()
        of_generator.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
