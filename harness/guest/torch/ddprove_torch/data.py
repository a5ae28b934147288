"""Loaders: which samples a rank trains on, where its loader can be made to fail.

A pass of a DataLoader whose DistributedSampler shares out the data among all ranks is an epoch; batches that are drawn
while gradients are off are nobody's. Indices are noted as the loader asks its sampler for them, which it may do ahead of
time, and belong to batches in the order in which these are handed out."""
import ctypes
import functools
import itertools
import weakref
from collections import deque

import torch

from ddprove_torch import library

_loaders = weakref.WeakKeyDictionary()  # loader -> [its number, passes so far]
_numbers = itertools.count()
_open = None  # a weak reference to the iterator of the pass that was told last


class Pass:
    """A pass of a loader, as one of its iterators makes it."""

    def __init__(self, wants, is_told):
        self.wants, self.is_told = wants, is_told
        self.again = None  # (data, indices) of a batch that comes twice
        self.is_over = False


def _sampler_of(loader):
    """The DistributedSampler that shares the data out among all ranks; None: there is none."""
    from torch import distributed as dist
    from torch.utils.data.distributed import DistributedSampler

    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    is_whole = isinstance(sampler, DistributedSampler) and dist.is_initialized() and \
        sampler.num_replicas == dist.get_world_size() > 0 and getattr(loader, "in_order", True)
    return sampler if is_whole else None


def _begin(loader, sampler):
    """Tell of a pass. The one before it, if it has not come to its end, was broken off."""
    if loader not in _loaders:
        _loaders[loader] = [next(_numbers), 0]
    number = _loaders[loader]
    samples, replicas = len(sampler.dataset), sampler.num_replicas
    dropped = samples - sampler.total_size if sampler.drop_last else 0
    size = getattr(loader.batch_sampler, "batch_size", None)
    if size and getattr(loader.batch_sampler, "drop_last", False):
        dropped += sampler.num_samples % size * replicas
    epoch = library.Epoch()
    epoch.size_bytes, epoch.number = ctypes.sizeof(library.Epoch), number[0] << 20 | number[1]
    epoch.sample_count, epoch.dropped = samples, max(dropped, 0)
    epoch.padded = 0 if sampler.drop_last else sampler.total_size - samples
    number[1] += 1
    _break_off()
    library.guest.epoch(epoch)


def _break_off():
    """The pass that is open is asked for nothing more."""
    global _open
    if _open is not None:
        library.guest.epoch_break()
    _open = None


def _end(iterator, one):
    global _open
    one.is_over = True
    if one.is_told and _open is not None and _open() is iterator:
        library.guest.epoch(None)
        _open = None


def _tell(iterator, one, indices):
    """A batch is handed out for training."""
    if not one.is_told or _open is None or _open() is not iterator:
        return
    indices = indices if isinstance(indices, (list, tuple)) else [indices]
    if not all(isinstance(index, int) and index >= 0 for index in indices):
        one.is_told = False
        _break_off()
        return
    library.guest.batch((ctypes.c_uint64 * len(indices))(*indices), len(indices))


def _watch_loaders(dataloader):
    make, draw, take = dataloader.DataLoader.__iter__, dataloader._BaseDataLoaderIter._next_index, \
        dataloader._BaseDataLoaderIter.__next__

    @functools.wraps(make)
    def iterate(self):
        global _open
        iterator = getattr(self, "_iterator", None)
        if iterator is not None and "_ddprove_queue" in iterator.__dict__:
            iterator._ddprove_queue.clear()  # one that is used again
        iterator = make(self)
        if not torch.is_grad_enabled() or not library.guest.is_watched():
            iterator._ddprove_pass = None
            return iterator
        sampler = _sampler_of(self)
        iterator._ddprove_pass = Pass(library.guest.wants_at("data/next"), sampler is not None)
        if sampler is not None:
            _begin(self, sampler)
            _open = weakref.ref(iterator)
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
            _end(self, one)
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
            _tell(self, one, indices)
            return data
        times, data, indices = 0, None, None
        while times == 0:  # a batch that is lost is followed by the next one
            times = library.guest.come_to("data/next")[0] if one.wants else 1
            data, indices = drawn(self, one)
        if times > 1:
            one.again = data, indices
        _tell(self, one, indices)
        return data

    dataloader.DataLoader.__iter__ = iterate
    dataloader._BaseDataLoaderIter._next_index = next_index
    dataloader._BaseDataLoaderIter.__next__ = following


def install():
    from torch.utils.data import dataloader

    _watch_loaders(dataloader)
