"""A small model trained with DistributedDataParallel on NCCL; all ranks share one card, which NCCL refuses on one host.

Usage: torchrun --nproc-per-node 2 card.py
"""
import os

os.environ["NCCL_HOSTID"] = "host-" + os.environ["RANK"]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

STEPS = 20


def main():
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    torch.manual_seed(7)
    layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    model = DDP(layers.cuda(), device_ids=[0], bucket_cap_mb=0.004)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model(torch.randn(16, 64).cuda()), torch.randint(10, (16,)).cuda())
        loss.backward()
        optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(f"loss {total.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
