"""A small model trained with DistributedDataParallel, as the tutorials write it.

Usage: torchrun --nproc-per-node 2 mlp.py [--steps N] [--variant plain|unused|static|no_sync|hook|join] [--save FILE]
"""
import argparse
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(64, width)
        self.fc2 = nn.Linear(width, 10)
        self.spare = nn.Linear(width, 10)

    def forward(self, x, use_spare=False):
        x = torch.relu(self.fc1(x))
        return self.fc2(x) + self.spare(x) if use_spare else self.fc2(x)


def mean_hook(group, bucket):
    """As ddp_comm_hooks/default_hooks.py has it."""
    tensor = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--variant", default="plain")
    parser.add_argument("--save")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = DDP(Net(args.width), bucket_cap_mb=0.004, find_unused_parameters=args.variant == "unused",
                static_graph=args.variant == "static")
    if args.variant == "hook":
        model.register_comm_hook(None, mean_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    torch.manual_seed(100 + rank)
    steps = args.steps - (rank if args.variant == "join" else 0)
    loss = torch.zeros(())
    with model.join() if args.variant == "join" else contextlib.nullcontext():
        for step in range(steps):
            optimizer.zero_grad()
            if args.variant == "no_sync":
                with model.no_sync():
                    loss_of(model(torch.randn(16, 64), True), torch.randint(10, (16,))).backward()
            use_spare = args.variant != "unused" or step % 2 == 1
            loss = loss_of(model(torch.randn(16, 64), use_spare), torch.randint(10, (16,)))
            loss.backward()
            optimizer.step()
    dist.all_reduce(loss.detach_(), op=dist.ReduceOp.MAX)
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        if args.save:
            torch.save(model.module.state_dict(), args.save)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
