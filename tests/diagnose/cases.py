"""What each set of dumps is made of: a small program that a rank runs until it cannot go on.

A case is a function of (dist, rank). It returns when the rank has done all that it will ever do; the dumps are
taken once no rank's record grows any more. Sizes and calls are as a data-parallel job has them, only smaller.
"""

import os
import signal
import threading

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

forever = threading.Event()


def reduce(count, **options):
    dist.all_reduce(torch.ones(count), **options)


def trainer(rank, steps, leave=None, unused_on=None, find_unused=False):
    """A DDP loop; leave(step, rank) is called before each step, as a data loader would be."""
    torch.manual_seed(1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 16)
            self.extra = nn.Linear(16, 16)
            self.head = nn.Linear(16, 4)

        def forward(self, x, uses_extra):
            hidden = torch.relu(self.body(x))
            if uses_extra:
                hidden = self.extra(hidden)
            return self.head(hidden)

    model = DistributedDataParallel(Model(), bucket_cap_mb=0.001, find_unused_parameters=find_unused)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        if leave is not None:
            leave(step, rank)
        optimizer.zero_grad()
        uses_extra = not (rank == unused_on and step >= 2)
        model(torch.ones(4, 8), uses_extra).sum().backward()
        optimizer.step()


def healthy(rank):
    trainer(rank, 4)
    dist.barrier()


def asleep(rank):
    """Rank 1's fourth call never comes: it does something else."""
    for step in range(3):
        reduce(100)
        reduce(20)
    if rank == 1:
        forever.wait()
    reduce(100)


def timed_out(rank):
    """The others' time-out, of a second, ends their wait for rank 1: Gloo then calls their call retired."""
    for step in range(3):
        reduce(100)
    if rank == 1:
        forever.wait()
    reduce(100)


def asleep_in_loader(rank):
    def leave(step, rank):
        if rank == 1 and step == 3:
            forever.wait()

    trainer(rank, 6, leave)


def dead(rank):
    for step in range(3):
        reduce(100)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    reduce(100)


def finished_early(rank):
    """Rank 1 has one batch less than the others, and leaves without an error."""
    for _ in range(4 if rank == 1 else 5):
        reduce(64)
    if rank == 1:
        os._exit(0)


def skip_alike(rank):
    """Rank 2 leaves out one of many equal calls from one line: only how many there were tells."""
    for step in range(6):
        if rank == 2 and step == 3:
            continue
        reduce(64)


def skip_by_line(rank):
    """Rank 1 leaves out one of two equal calls, which are made from different lines."""
    for step in range(4):
        reduce(64)
        if not (rank == 1 and step == 2):
            reduce(64)
    dist.barrier()


def skip_other_size(rank):
    """Rank 0 leaves out a call between calls of other sizes."""
    for step in range(4):
        reduce(100)
        if not (rank == 0 and step == 2):
            reduce(20)
        reduce(300)


def swapped(rank):
    """Rank 1 makes two calls of different sizes in the other order."""
    for step in range(4):
        sizes = [30, 50] if not (rank == 1 and step == 2) else [50, 30]
        for size in sizes:
            reduce(size)
        reduce(10)


def swapped_by_line(rank):
    """The same with equal sizes, from different lines: no hang, no error, and both sums are wrong."""

    def weights():
        reduce(32)

    def biases():
        reduce(32)

    for step in range(4):
        calls = [biases, weights] if rank == 2 and step == 2 else [weights, biases]
        for call in calls:
            call()
    reduce(8)


def shapes(rank):
    """Rank 2's fourth call has another number of elements."""
    for step in range(3):
        reduce(40)
    reduce(41 if rank == 2 else 40)


def dtypes(rank):
    for step in range(3):
        reduce(40)
    dist.all_reduce(torch.ones(40, dtype=torch.float64 if rank == 0 else torch.float32))
    reduce(40)


def kinds(rank):
    """Rank 1 broadcasts where the others all-reduce."""
    for step in range(3):
        reduce(40)
    if rank == 1:
        dist.broadcast(torch.ones(40), src=1)
    else:
        reduce(40)
    reduce(40)


def extra_barrier(rank):
    """Rank 0 alone waits for the others once, in the middle of the run."""
    for step in range(4):
        reduce(40)
        if rank == 0 and step == 2:
            dist.barrier()
        reduce(40)


def extra_at_end(rank):
    """Rank 0 evaluates alone after training, with a collective in it."""
    for step in range(4):
        reduce(40)
    if rank == 0:
        reduce(1)
    forever.wait()


def unused(rank):
    """DDP without find_unused_parameters: from the third step on rank 1 does not use two parameters."""
    trainer(rank, 6, unused_on=1)


def subgroup(rank):
    """Pairs within four ranks: rank 3 never comes to its pair's call, and then all meet."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    pair = pairs[rank // 2]
    for step in range(3):
        reduce(16, group=pair)
        reduce(100)
    if rank == 3:
        forever.wait()
    reduce(16, group=pair)
    reduce(100)


def two_groups(rank):
    """Two pairs hang at once, for two reasons."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    pair = pairs[rank // 2]
    for step in range(3):
        reduce(16, group=pair)
    if rank in (0, 3):
        forever.wait()
    reduce(16, group=pair)


def odd_members(rank):
    """A group whose members are not 0 and 1: its second member, rank 3, does not come."""
    group = dist.new_group([1, 3])
    for step in range(3):
        reduce(100)
    if rank == 1:
        reduce(16, group=group)
    if rank == 3:
        forever.wait()
    reduce(100)


def circle(rank):
    """Two groups of the same ranks, called in one order by rank 0 and in the other by rank 1."""
    first = dist.new_group([0, 1])
    second = dist.new_group([0, 1])
    order = [first, second] if rank == 0 else [second, first]
    for group in order:
        reduce(8, group=group)


def overflown(rank):
    """The record holds eight calls; what was first is gone, and rank 2 is behind."""
    for step in range(20 if rank == 2 else 21):
        reduce(10 + step % 3)
    forever.wait()


def message(rank):
    """Rank 0 waits for a message of rank 1 that is never sent."""
    for step in range(3):
        reduce(10)
    if rank == 1:
        forever.wait()
    if rank == 0:
        dist.recv(torch.ones(5), src=1)
    reduce(10)


# name: (function, ranks, environment)
CASES = {
    "healthy2": (healthy, 2, {}),
    "healthy4": (healthy, 4, {}),
    "asleep3": (asleep, 3, {}),
    "asleep2": (asleep, 2, {}),
    "timed_out3": (timed_out, 3, {"TIMEOUT_S": "2"}),
    "loader3": (asleep_in_loader, 3, {}),
    "dead3": (dead, 3, {}),
    "early3": (finished_early, 3, {}),
    "skip_alike4": (skip_alike, 4, {}),
    "skip_by_line3": (skip_by_line, 3, {}),
    "skip_other_size3": (skip_other_size, 3, {}),
    "swapped3": (swapped, 3, {}),
    "swapped2": (swapped, 2, {}),
    "swapped_by_line3": (swapped_by_line, 3, {}),
    "shapes3": (shapes, 3, {}),
    "dtypes3": (dtypes, 3, {}),
    "kinds3": (kinds, 3, {}),
    "extra_barrier3": (extra_barrier, 3, {}),
    "extra_at_end4": (extra_at_end, 4, {}),
    "unused3": (unused, 3, {}),
    "subgroup4": (subgroup, 4, {}),
    "two_groups4": (two_groups, 4, {}),
    "odd_members4": (odd_members, 4, {}),
    "circle2": (circle, 2, {}),
    "overflown4": (overflown, 4, {"TORCH_FR_BUFFER_SIZE": "8"}),
    "message3": (message, 3, {}),
}
