"""A small convolutional network with BatchNorm on handwritten digits. All ranks evaluate after each epoch; gradients
are clipped once they are reduced.

    torchrun --nproc-per-node 2 convnet.py --steps 20 [--checkpoint FILE]
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


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16 * 2 * 2, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(x.flatten(1))


def load_digits(count):
    rows = [[int(value) for value in line.split(",")] for line in open(DIGITS, encoding="ascii")][:count]
    table = torch.tensor(rows, dtype=torch.float32)
    return TensorDataset(table[:, :64].reshape(-1, 1, 8, 8) / 16.0, table[:, 64].long())


def evaluate(model, loader):
    model.eval()
    correct = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            correct += torch.tensor([(model(x).argmax(1) == y).sum(), len(y)])
    dist.all_reduce(correct)
    model.train()
    return (correct[0] / correct[1]).item()


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    dataset = load_digits(args.samples)
    sampler = DistributedSampler(dataset, shuffle=True, seed=args.seed)
    loader = DataLoader(dataset, batch_size=args.batch, sampler=sampler, drop_last=True)
    model = DDP(ConvNet())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    step, epoch = 0, 0
    while step < args.steps:
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step == args.steps:
                break
        epoch += 1
        if rank == 0 and args.checkpoint:
            torch.save(model.state_dict(), args.checkpoint)
        accuracy = evaluate(model, loader)
        if rank == 0:
            print(f"step {step} loss {loss.item():.6f} accuracy {accuracy:.3f}")
    dist.barrier()
    if args.checkpoint:
        model.load_state_dict(torch.load(args.checkpoint, weights_only=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
