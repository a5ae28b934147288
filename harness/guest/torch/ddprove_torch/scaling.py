"""Losses that a GradScaler scales up. Gradients may then come to infinity: the scaler looks for that, leaves the update
out, and scales by less. So sums that are made between its scale() and its update() may hold infinite values."""
import functools
import weakref

import torch

_scaling = weakref.WeakSet()  # scalers that have scaled a loss, and have not been updated since


def may_overflow():
    return len(_scaling) > 0


def install():
    scaler = torch.amp.GradScaler
    scale, update = scaler.scale, scaler.update

    @functools.wraps(scale)
    def scale_seen(self, *args, **kwargs):
        if self.is_enabled():
            _scaling.add(self)
        return scale(self, *args, **kwargs)

    @functools.wraps(update)
    def update_seen(self, *args, **kwargs):
        _scaling.discard(self)
        return update(self, *args, **kwargs)

    scaler.scale, scaler.update = scale_seen, update_seen
