"""A small model whose optimizer makes its steps in other ways than the plain one.

    torchrun --nproc-per-node 2 updates.py --way closure|pre_hook|post_hook|global_hooks|resumed|reloaded|dcp|sparse
"""
import argparse
import io

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


class Net(nn.Module):
    """With an embedding, whose gradient may be sparse."""

    def __init__(self, sparse):
        super().__init__()
        self.words = nn.Embedding(20, 16, sparse=sparse)
        self.fc = nn.Linear(16, 10)

    def forward(self, words):
        return self.fc(torch.relu(self.words(words)))


def clip(optimizer, _args, _kwargs):
    for group in optimizer.param_groups:
        nn.utils.clip_grad_norm_(group["params"], 0.01)


@torch.no_grad()
def clamp(optimizer, _args, _kwargs):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.clamp_(-0.1, 0.1)


def hooked(optimizer, way):
    if way == "pre_hook":
        optimizer.register_step_pre_hook(clip)
    elif way == "post_hook":
        optimizer.register_step_post_hook(clamp)
    elif way == "global_hooks":
        register_optimizer_step_pre_hook(clip)
        register_optimizer_step_post_hook(clamp)


def loaded_again(model, optimizer, is_by_dcp):
    """As if it had been saved and a new process had loaded it."""
    if is_by_dcp:
        from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
        set_optimizer_state_dict(model, optimizer, optim_state_dict=get_optimizer_state_dict(model, optimizer))
        return
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    optimizer.load_state_dict(torch.load(file, weights_only=True))


def checkpoint(model, optimizer, name):
    """The optimizer's state as another process had saved it."""
    state = optimizer.state_dict()
    for number, parameter in enumerate(model.parameters()):
        small = torch.full_like(parameter, 0.01)
        state["state"][number] = {"step": torch.tensor(5.0), "exp_avg": small, "exp_avg_sq": small.clone()} \
            if name == "adamw" else {"momentum_buffer": small}
    return state


def made(model, name):
    if name == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=0.01)
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0 if name == "plain_sgd" else 0.9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", default="closure")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DDP(Net(args.way == "sparse"))
    optimizer = made(model, args.optimizer)
    if args.way == "resumed":
        optimizer.load_state_dict(checkpoint(model, optimizer, args.optimizer))
    elif args.way == "dcp":
        loaded_again(model, optimizer, True)
    hooked(optimizer, args.way)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    loss_of = nn.CrossEntropyLoss()
    torch.manual_seed(100 + dist.get_rank())
    for step in range(args.steps):
        words, labels = torch.randint(20, (16,)), torch.randint(10, (16,))

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model(words), labels)
            loss.backward()
            return loss

        if args.way == "closure":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
        schedule.step()
        if args.way == "reloaded" and step == 5:
            loaded_again(model, optimizer, False)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
