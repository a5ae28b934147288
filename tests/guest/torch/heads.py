"""A model of two heads, each of which goes back in a pass of its own, as an actor and its critic do.

    torchrun --nproc-per-node 2 heads.py [--variant plain|logged|logged_behind|gated|forgotten] [--steps 12]
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Gate(torch.autograd.Function):
    """Hands a gradient on to its input, and none to the weight, where the gate is closed."""

    @staticmethod
    def forward(ctx, x, weight, is_open):
        ctx.is_open = is_open
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, (grad * x).sum(0) if ctx.is_open else None, None


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(4, 2)
        self.critic = nn.Linear(4, 1)
        self.gain = nn.Parameter(torch.ones(2))

    def forward(self, x, is_open):
        return Gate.apply(self.actor(x), self.gain, is_open), self.critic(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", default="plain")
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = DDP(ActorCritic(), bucket_cap_mb=0.00004)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(100 + rank)
    for step in range(args.steps):
        optimizer.zero_grad()
        policy, value = model(torch.randn(8, 4), args.variant != "gated" or step % 2 == 0)
        policy.pow(2).mean().backward()
        if args.variant == "logged":
            dist.all_reduce(policy.detach().mean())
        if args.variant != "forgotten" or rank != 1 or step != 8:
            value.pow(2).mean().backward()
        if args.variant == "logged_behind":
            dist.all_reduce(value.detach().mean())
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
