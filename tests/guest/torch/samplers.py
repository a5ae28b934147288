"""Loaders whose samples are drawn in other ways than DistributedSampler's own.

    torchrun --nproc-per-node 2 samplers.py --draw plain|grouped|weighted|rest|peek|statistics|broken_off|workers
"""
import argparse
import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Grouped(BatchSampler):
    """Batches of samples of one kind; a group that is too small in the end is filled up with samples used before."""

    def __init__(self, sampler, kinds, batch_size):
        self.sampler, self.kinds, self.batch_size = sampler, kinds, batch_size

    def __iter__(self):
        groups, used, made = {}, {}, 0
        for index in self.sampler:
            kind = self.kinds[index]
            groups.setdefault(kind, []).append(index)
            used.setdefault(kind, []).append(index)
            if len(groups[kind]) == self.batch_size:
                yield groups.pop(kind)
                made += 1
        for kind, group in groups.items():
            if made < len(self):
                yield (group + used[kind] * self.batch_size)[:self.batch_size]
                made += 1

    def __len__(self):
        return len(self.sampler) // self.batch_size


class Weighted(DistributedSampler):
    """With replacement."""

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        drawn = torch.randint(len(self.dataset), (self.total_size,), generator=generator).tolist()
        return iter(drawn[self.rank:self.total_size:self.num_replicas])


class Rest(DistributedSampler):
    """Goes on behind the samples that an interrupted epoch has used."""

    used = 0

    def __iter__(self):
        return itertools.islice(super().__iter__(), self.used, None)

    def __len__(self):
        return self.num_samples - self.used


def loader_of(dataset, draw, batch):
    kind = {"weighted": Weighted, "rest": Rest}.get(draw, DistributedSampler)
    sampler = kind(dataset, shuffle=True, seed=7)
    if draw == "rest":
        sampler.used = 2 * batch
    if draw == "grouped":
        kinds = [int(label) % 2 for label in dataset.tensors[1]]
        return sampler, DataLoader(dataset, batch_sampler=Grouped(sampler, kinds, batch))
    workers = {"num_workers": 2, "persistent_workers": True} if draw == "workers" else {}
    return sampler, DataLoader(dataset, batch_size=batch, sampler=sampler, **workers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draw", default="plain")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    dataset = TensorDataset(torch.randn(128, 16), torch.randint(10, (128,)))
    sampler, loader = loader_of(dataset, args.draw, args.batch)
    model = DDP(nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if dist.get_rank() == 0 and args.draw == "peek":
        print("a batch:", next(iter(loader))[0].shape)
    if dist.get_rank() == 0 and args.draw == "statistics":
        print("mean", torch.cat([x for x, _ in loader]).mean().item())
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if args.draw == "broken_off" and number == 4:
                break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
