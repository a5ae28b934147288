"""Data that lie on a GPU, shown to the guest library as copies in the host's memory, where somebody asks for data: what a
call brings is fetched before it is made, what it gives behind it on the stream that waits for it, and what a fault has
changed in a copy is written back."""
import torch

from ddprove_torch import forms, library, store


def is_far(tensor):
    """On a device whose streams the adapter knows."""
    return tensor.device.type == "cuda"


def can_copy(tensor):
    """A far tensor that is one run of memory of elements that the guest library knows."""
    return tensor is not None and is_far(tensor) and tensor.layout == torch.strided and tensor.is_contiguous() and \
        tensor.numel() > 0 and forms.is_known(tensor)


def is_capturing(device):
    """A graph is made of what the program does now: nothing can be waited for."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def wait(device):
    """For all that the current stream was given."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


class Copy:
    """Of a far tensor; the same memory for as long as it lives."""

    def __init__(self, tensor):
        self.tensor = tensor.detach()
        self.memory = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu",
                                  pin_memory=tensor.device.type == "cuda")
        self.before = None

    def is_of(self, tensor):
        """The tensor is the one that it was made of, or lies in its place."""
        return (self.tensor.data_ptr(), self.tensor.shape, self.tensor.dtype, self.tensor.device) == \
            (tensor.data_ptr(), tensor.shape, tensor.dtype, tensor.device)

    def address(self):
        return self.memory.data_ptr()

    def fetch(self):
        """On the current stream: whoever reads it waits for that."""
        self.memory.copy_(self.tensor, non_blocking=True)

    def remember(self):
        """It has been fetched; faults may change it from here on."""
        self.before = self.memory.clone()

    def give_back(self):
        """What was changed since then."""
        if self.before is not None and not store.same_bits(self.before, self.memory):
            self.tensor.copy_(self.memory)
        self.before = None


class Stage:
    """The data of a call."""

    def __init__(self, shape):
        self.source = Copy(shape.source) if can_copy(shape.source) else None
        self.target = self.source if shape.target is shape.source else \
            Copy(shape.target) if can_copy(shape.target) else None
        if self.source is not None:
            self.source.fetch()
            wait(shape.where)
            if library.guest.wants_calls(0):
                self.source.remember()

    def addresses(self):
        return tuple(None if copy is None else copy.address() for copy in (self.source, self.target))

    def posted(self):
        """Faults have acted on what goes in."""
        if self.source is not None:
            self.source.give_back()

    def fetch_target(self):
        if self.target is not None:
            self.target.fetch()

    def remember_target(self):
        if self.target is not None:
            self.target.remember()

    def done(self):
        """Faults have acted on what came out."""
        if self.target is not None:
            self.target.give_back()


def stage_of(shape):
    """None: the call's data do not lie there, or nobody asks for them."""
    guest = library.guest
    if not (can_copy(shape.source) or can_copy(shape.target)) or is_capturing(shape.where) or \
            not (guest.asks_updated() or guest.wants_calls(0) or guest.wants_calls(1)):
        return None
    return Stage(shape)
