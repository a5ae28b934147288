"""An MLP on handwritten digits, as the DDP tutorial writes it: DistributedSampler, set_epoch, a checkpoint by rank 0
and resuming from it.

    torchrun --nproc-per-node 2 mlp_digits.py --steps 20 [--checkpoint FILE [--resume]]
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../reference/data/digits.csv")


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 64)
        self.drop = nn.Dropout(0.2)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.fc1(x))))


def load_digits(count):
    rows = [[int(value) for value in line.split(",")] for line in open(DIGITS, encoding="ascii")][:count]
    table = torch.tensor(rows, dtype=torch.float32)
    return TensorDataset(table[:, :64] / 16.0, table[:, 64].long())


def save_checkpoint(path, model, optimizer, epoch, step):
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                "epoch": epoch, "step": step}, path)


def load_checkpoint(path, model, optimizer):
    state = torch.load(path, weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"], state["step"]


def train(args):
    rank = dist.get_rank()
    world = dist.get_world_size()
    torch.manual_seed(args.seed)
    dataset = load_digits(args.samples)
    sampler = DistributedSampler(dataset, num_replicas=world, rank=rank, shuffle=True, seed=args.seed)
    loader = DataLoader(dataset, batch_size=args.batch, sampler=sampler)
    model = MLP()
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    epoch, step = 0, 0
    if args.resume:
        epoch, step = load_checkpoint(args.checkpoint, model, optimizer)
    torch.manual_seed(args.seed + 1 + rank)  # every rank drops other units
    while step < args.steps:
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step == args.steps:
                break
        epoch += 1
        if args.checkpoint and rank == 0:
            save_checkpoint(args.checkpoint, model, optimizer, epoch, step)
        dist.barrier()
    if rank == 0:
        print(f"step {step} loss {loss.item():.6f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--checkpoint")
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
