"""Loaders: which samples a rank trains on, where its loader can be made to fail.

A pass of a DataLoader whose DistributedSampler shares out the data among all ranks is an epoch; batches that are drawn
while gradients are off are nobody's. It is told once the ranks meet in a pass: a rank may look into its loader for
itself before that. Indices are noted as the loader asks its sampler for them, which it may do ahead of
time, and belong to batches in the order in which these are handed out."""
import ctypes
import functools
import itertools
import weakref
from collections import deque

import torch

from ddprove_torch import ddp, library
from ddprove_torch.ours import guarded

_loaders = weakref.WeakKeyDictionary()  # loader -> [its number once a pass was told, passes that were told]
_numbers = itertools.count()
_open = None  # the Pass that was told last, if it has not ended
_held = None  # the Pass that began last, if it was not told yet


class Pass:
    """A pass of a loader, as one of its iterators makes it."""

    def __init__(self, wants, epoch, numbers):
        self.wants, self.epoch = wants, epoch  # epoch: None if nothing is told of it
        self.numbers = numbers  # of the loader, in _loaders
        self.batches = []  # handed out before it was told
        self.again = None  # (data, indices) of a batch that comes twice


def _sampler_of(loader):
    """The DistributedSampler that shares the data out among all ranks; None: there is none, or what draws the samples
    is not PyTorch's own, so that each need not be due once."""
    from torch import distributed as dist
    from torch.utils.data import BatchSampler
    from torch.utils.data.distributed import DistributedSampler

    batches = loader.batch_sampler
    if batches is not None and type(batches).__iter__ is not BatchSampler.__iter__:
        return None
    sampler = loader.sampler if batches is None else batches.sampler
    is_whole = isinstance(sampler, DistributedSampler) and type(sampler).__iter__ is DistributedSampler.__iter__ and \
        dist.is_initialized() and sampler.num_replicas == dist.get_world_size() > 0
    return sampler if is_whole and getattr(loader, "in_order", True) else None


def _epoch_of(loader, sampler):
    """What is due in a pass; its number is not known yet."""
    samples, replicas = len(sampler.dataset), sampler.num_replicas
    dropped = samples - sampler.total_size if sampler.drop_last else 0
    size = getattr(loader.batch_sampler, "batch_size", None)
    if size and getattr(loader.batch_sampler, "drop_last", False):
        dropped += sampler.num_samples % size * replicas
    epoch = library.Epoch()
    epoch.size_bytes, epoch.sample_count, epoch.dropped = ctypes.sizeof(library.Epoch), samples, max(dropped, 0)
    epoch.padded = 0 if sampler.drop_last else max(sampler.total_size - samples, 0)
    return epoch


@guarded("samples")
def _begin(loader, iterator):
    """A pass begins. The one that was held before it was no training."""
    global _held
    iterator._ddprove_pass = None
    if not torch.is_grad_enabled() or not library.guest.is_watched():
        return
    sampler = _sampler_of(loader)
    one = Pass(library.guest.wants_at("data/next"), None if sampler is None else _epoch_of(loader, sampler),
               _loaders.setdefault(loader, [None, 0]))
    iterator._ddprove_pass = one
    if sampler is not None:
        _held = one


@guarded("samples")
def _tell_held():
    """The ranks meet in a pass: they train on what was handed out. The pass of a loader that was told before, if it has
    not come to its end, was broken off."""
    global _held, _open
    if _held is None:
        return
    one, _held = _held, None
    if one.numbers[0] is None:
        one.numbers[0] = next(_numbers)
    one.epoch.number = one.numbers[0] << 20 | one.numbers[1]
    one.numbers[1] += 1
    _break_off()
    _open = one
    library.guest.epoch(one.epoch)
    for indices in one.batches:
        _tell_batch(indices)
    one.batches = []


def _break_off():
    """The pass that is open is asked for nothing more."""
    global _open
    if _open is not None:
        library.guest.epoch_break()
    _open = None


@guarded("samples")
def _end(one):
    """One that handed out nothing counts, whoever makes it: there is nothing to look at in it."""
    global _held, _open
    if one is _held and not one.batches:
        _tell_held()
    if one is _held:
        _held = None
    if one is _open:
        library.guest.epoch(None)
        _open = None


def _tell_batch(indices):
    library.guest.batch((ctypes.c_uint64 * len(indices))(*indices), len(indices))


@guarded("samples")
def _tell(one, indices):
    """A batch is handed out for training."""
    global _held
    if one.epoch is None or one not in (_open, _held):
        return
    indices = indices if isinstance(indices, (list, tuple)) else [indices]
    if not all(isinstance(index, int) and index >= 0 for index in indices):
        one.epoch = None
        if one is _open:
            _break_off()
        else:
            _held = None
    elif one is _held:
        one.batches.append(indices)
    else:
        _held = None  # another pass began in between, and this one goes on
        _tell_batch(indices)


def _watch_loaders(dataloader):
    make, draw, take = dataloader.DataLoader.__iter__, dataloader._BaseDataLoaderIter._next_index, \
        dataloader._BaseDataLoaderIter.__next__

    @functools.wraps(make)
    def iterate(self):
        iterator = getattr(self, "_iterator", None)
        if iterator is not None and "_ddprove_queue" in iterator.__dict__:
            iterator._ddprove_queue.clear()  # one that is used again
        iterator = make(self)
        _begin(self, iterator)
        return iterator

    @functools.wraps(draw)
    def next_index(self):
        index = draw(self)
        self.__dict__.setdefault("_ddprove_queue", deque()).append(index)
        return index

    def drawn(self, one):
        try:
            data = take(self)
        except StopIteration:
            _end(one)
            raise
        queue = self.__dict__.get("_ddprove_queue")
        return data, queue.popleft() if queue else -1

    @functools.wraps(take)
    def following(self):
        one = self.__dict__.get("_ddprove_pass")
        if one is None:
            data = take(self)
            queue = self.__dict__.get("_ddprove_queue")
            if queue:
                queue.popleft()
            return data
        if one.again is not None:
            (data, indices), one.again = one.again, None
            _tell(one, indices)
            return data
        times, data, indices = 0, None, None
        while times == 0:  # a batch that is lost is followed by the next one
            times = library.guest.come_to("data/next")[0] if one.wants else 1
            data, indices = drawn(self, one)
        if times > 1:
            one.again = data, indices
        _tell(one, indices)
        return data

    dataloader.DataLoader.__iter__ = iterate
    dataloader._BaseDataLoaderIter._next_index = next_index
    dataloader._BaseDataLoaderIter.__next__ = following


def install():
    from torch.utils.data import dataloader

    _watch_loaders(dataloader)
    ddp.on_training(_tell_held)
