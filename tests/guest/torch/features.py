"""A small model trained with what PyTorch has beside plain DistributedDataParallel: the optimizer's state shared out among
the ranks, communication hooks of its library, gradients accumulated under join, periodic averaging.

Usage: torchrun --nproc-per-node 2 features.py --with zero|fp16|bf16|powersgd|fp16_powersgd|accumulate_join|averaged
PowerSGD needs numpy.
"""
import argparse
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def hooked(model, name):
    """The hooks as their documentation registers them."""
    if name == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif name == "bf16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif name in ("powersgd", "fp16_powersgd"):
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=1, start_powerSGD_iter=4,
                                            min_compression_rate=0.5)
        hook = powerSGD_hook.powerSGD_hook
        model.register_comm_hook(state, default_hooks.fp16_compress_wrapper(hook) if name == "fp16_powersgd" else hook)
    elif name == "averaged":
        state = post_localSGD_hook.PostLocalSGDState(process_group=None, subgroup=dist.new_subgroups(1)[0],
                                                     start_localSGD_iter=4)
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="name", default="zero")
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = DDP(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    hooked(model, args.name)
    if args.name == "zero":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if args.name == "averaged":
        optimizer = PostLocalSGDOptimizer(optimizer, PeriodicModelAverager(period=2, warmup_steps=4))
    loss_of = nn.CrossEntropyLoss()
    torch.manual_seed(100 + rank)
    is_uneven = args.name == "accumulate_join"
    with model.join() if is_uneven else contextlib.nullcontext():
        for _ in range(args.steps - (rank if is_uneven else 0)):
            optimizer.zero_grad()
            if is_uneven:
                with model.no_sync():
                    loss_of(model(torch.randn(8, 32)), torch.randint(10, (8,))).backward()
            loss_of(model(torch.randn(8, 32)), torch.randint(10, (8,))).backward()
            optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
