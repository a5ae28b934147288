"""A DDP training script that goes wrong on one rank, in one of the ways in which scripts do. There is no ddprove in it.

    torchrun --nproc-per-node 2 faulty.py [--fault NAME] [--rank 1] [--at 25] [--steps 30] [--timeout SECONDS]

Beside the gradients, each step sums a loss, takes the maximum of a count, and has rank 0 tell a learning rate. As the
fault acts, "fault at N" is printed, N being the monotonic clock's nanoseconds; at the end, a hash of the weights.
"""
import argparse
import contextlib
import datetime
import os
import signal
import sys
import time
import zlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self, is_turned=False):
        super().__init__()
        names = ["fc1", "fc2", "fc3"]
        for name in reversed(names) if is_turned else names:
            setattr(self, name, nn.Linear(64, 64))
        self.head = nn.Linear(64, 10)
        self.spare = nn.Linear(64, 10)

    def forward(self, x, is_spare_used=True):
        for layer in (self.fc1, self.fc2, self.fc3):
            x = torch.relu(layer(x))
        return self.head(x) + self.spare(x) if is_spare_used else self.head(x)


class Trainer:
    def __init__(self, args):
        self.args, self.rank, self.world_size = args, dist.get_rank(), dist.get_world_size()
        torch.manual_seed(7)
        model = Net(self.begins("order of parameters"))
        if args.fault == "half types":
            model = model.to(torch.bfloat16 if self.begins("half types") else torch.float16)
        self.dtype = next(model.parameters()).dtype
        self.model = DDP(model, bucket_cap_mb=0.02)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.loss_of = nn.CrossEntropyLoss()
        torch.manual_seed(100 + self.rank)

    def begins(self, fault):
        """This rank has that fault from the beginning."""
        return self.args.fault == fault and is_now(self.args, self.rank, self.args.at)

    def has(self, fault, step):
        return self.args.fault == fault and is_now(self.args, self.rank, step)

    def backward(self, step):
        inputs, targets = torch.randn(16, 64, dtype=self.dtype), torch.randint(10, (16,))
        is_alone = self.has("no_sync", step)
        with self.model.no_sync() if is_alone else contextlib.nullcontext():
            loss = self.loss_of(self.model(inputs, not self.has("unused parameter", step)), targets)
            loss = loss * float("nan") if self.has("nan", step) else loss
            if not self.has("no backward", step):
                loss.backward()
        return loss.detach().float()

    def metrics(self, step, loss):
        """A sum, a maximum and what rank 0 says."""
        losses, counts = torch.full((8,), loss.item()), torch.full((8,), float(step))
        if self.has("other type", step):
            losses = losses.double()
        if self.has("other shape", step):
            losses = torch.cat([losses, losses])
        calls = [lambda: dist.all_reduce(losses, op=dist.ReduceOp.MAX if self.has("max for sum", step) else
                                         dist.ReduceOp.SUM),
                 lambda: dist.all_reduce(counts, op=dist.ReduceOp.MAX)]
        if self.has("skipped sum", step):
            calls = calls[1:]
        if self.has("swapped", step):
            calls.reverse()
        if self.has("other collective", step):
            calls[0] = lambda: dist.all_gather([torch.empty(8) for _ in range(self.world_size)], losses)
        if self.has("one sum more", step):
            calls.insert(1, lambda: dist.all_reduce(losses.clone()))
        for call in calls:
            call()
        rate = torch.full((4,), 0.05)
        dist.broadcast(rate, src=(self.rank or 1) if self.has("other root", step) else 0)

    def update(self, step):
        if self.has("gradient changed", step):
            self.model.module.fc2.weight.grad[0, 0] += 0.25
        if not self.has("no update", step):
            self.optimizer.step()
        if self.has("weight changed", step):
            with torch.no_grad():
                self.model.module.fc1.weight[0, 0] += 0.25

    def train(self):
        args = self.args
        for step in range(args.steps):
            if self.has("ends early", step):
                break
            disturb(args, self.rank, step)
            self.optimizer.zero_grad()
            loss = self.backward(step)
            self.metrics(step, loss)
            self.update(step)
            if step % 4 == 1 and not self.has("skipped barrier", step):
                dist.barrier()
        data = b"".join(bytes(p.detach().float().view(-1).view(torch.uint8).tolist()) for p in self.model.parameters())
        print(f"rank {self.rank} ends with weights {zlib.crc32(data):08x}", flush=True)


FAULTS = ("killed", "raises", "stopped", "sleeps", "skipped sum", "skipped barrier", "one sum more", "swapped",
          "max for sum", "other type", "other shape", "other collective", "other root", "no backward", "no_sync",
          "unused parameter", "ends early", "order of parameters", "half types", "weight changed", "gradient changed",
          "no update", "nan", "never joins")


def is_now(args, rank, step):
    """Whether it is this rank's turn to go wrong; says when."""
    if rank != args.rank or step != args.at:
        return False
    say_when(args)
    return True


def say_when(args):
    if not args.is_said:
        args.is_said = True
        print(f"fault at {time.monotonic_ns()}", flush=True)


def disturb(args, rank, step):
    """What befalls the process as a whole."""
    if args.fault in ("killed", "stopped", "raises", "sleeps") and is_now(args, rank, step):
        if args.fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if args.fault == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        if args.fault == "raises":
            raise ValueError("a sample cannot be read")
        time.sleep(3600)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--rank", type=int, default=1, help="who goes wrong")
    parser.add_argument("--at", type=int, default=25, help="in which step")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--timeout", type=float, default=1800)
    args = parser.parse_args()
    args.is_said = False
    torch.set_num_threads(1)
    if args.fault == "never joins" and os.environ["RANK"] == str(args.rank):
        say_when(args)
        time.sleep(3600)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=args.timeout))
    Trainer(args).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
