"""Buffers between passes. A pass changes them from the rank's own samples, and the next one gives all ranks those of
rank 0, so their values may differ in between; but nobody changes them there, or all ranks do. So it is told with each
update which ones have changed outside of a pass, and that is compared between ranks as a parameter is."""
import ctypes

import torch

from ddprove_torch import forms, host, library
from ddprove_torch.ours import guarded

WHAT = "buffers between passes"


class Buffers:
    """Of a wrapped module: those that it had when it was wrapped."""

    def __init__(self, module):
        self.places = _places_of(module) or []
        self.kept = [None] * len(self.places)
        self.changed = (ctypes.c_uint8 * max(len(self.places), 1))()

    @guarded(WHAT)
    def keep(self):
        """As a pass has left them."""
        if self.places and library.guest.asks_updated():
            self.kept = [None if part._buffers.get(key) is None else part._buffers[key].detach().clone()
                         for _, part, key in self.places]

    @guarded(WHAT)
    def look(self):
        """Note which ones are not as they were kept."""
        for i, ((_, part, key), before) in enumerate(zip(self.places, self.kept)):
            now = part._buffers.get(key)
            if before is not None and now is not None and not _is_same(before, now.detach()):
                self.changed[i] = 1

    @guarded(WHAT)
    def told(self):
        """That was reported; what follows is new."""
        if any(self.changed):
            ctypes.memset(self.changed, 0, len(self.changed))
            self.keep()


@guarded(WHAT)
def _places_of(module):
    """[(name, part, key in it)] of buffers that can be read."""
    return [(f"{prefix}.{key}".lstrip("."), part, key) for prefix, part in module.named_modules()
            for key, held in part._buffers.items()
            if held is not None and (forms.address(held) is not None or host.can_copy(held))]


def _is_same(a, b):
    """Bit for bit: a NaN is the same as itself."""
    return a.shape == b.shape and a.dtype == b.dtype and (torch.equal(a, b) or torch.equal(
        a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8)))
