"""The file of a kept step: each tensor's bytes are written as they are, at the moment at which they are kept, straight
from where the training holds them; then a pickle of the step, in which a tensor is a place in the file.

So nothing is copied twice, memory holds nothing of it, and the file can be read without running anybody's code: the
reader knows no names but types of tensors and devices. A file has its name once it is whole."""
import ctypes
import io
import math
import mmap
import os
import pickle
import struct

import torch

from . import store

HEAD = struct.Struct("<8sQQ")  # magic, where the pickle lies, its bytes
MAGIC = b"ddprove1"
ALIGN = 64  # as PyTorch's own memory has it


class Kept:
    """A tensor in a file. strides: None if its elements lie there in their order."""
    __slots__ = ("place", "dtype", "shape", "strides")

    def __init__(self, place, dtype, shape, strides):
        self.place, self.dtype, self.shape, self.strides = place, dtype, shape, strides


def _tensor_at(place, dtype, shape, strides):
    raise pickle.UnpicklingError("a tensor without its file")  # a reader has its own: see Reader


class _Pickler(pickle.Pickler):
    def __init__(self, out, writer):
        super().__init__(out, protocol=4)
        self.writer = writer

    def reducer_override(self, value):
        if isinstance(value, torch.Tensor):
            value = self.writer.keep(value)
        if isinstance(value, Kept):
            return _tensor_at, (value.place, value.dtype, value.shape, value.strides)
        return NotImplemented


def _view(data, place, dtype, shape, strides):
    """A tensor in a mapping, which has room for it; strides that leave it are refused by PyTorch."""
    count = math.prod(shape)
    if not count:
        return torch.empty(shape, dtype=dtype, device="cpu")
    flat = torch.frombuffer(data, dtype=dtype, count=count, offset=place)
    return flat.reshape(shape) if strides is None else flat.as_strided(shape, strides)


class Writer:
    def __init__(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.path, self.end = path, HEAD.size
        self.file = os.open(path + ".part", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self.map = None

    def _put(self, data, place):
        while data:
            count = os.pwrite(self.file, data, place)
            data, place = data[count:], place + count

    def keep(self, tensor):
        """None stays None."""
        if tensor is None:
            return None
        flat = store.dense(tensor.detach()).cpu().resolve_conj().resolve_neg()
        if not flat.is_contiguous():
            flat = flat.clone()  # in one run of memory; in the same order, which a replay's arithmetic may depend on
        place = -(-self.end // ALIGN) * ALIGN
        self.end = place + flat.nbytes
        if flat.nbytes:
            self._put(memoryview((ctypes.c_char * flat.nbytes).from_address(flat.data_ptr())).cast("B"), place)
        return Kept(place, flat.dtype, tuple(flat.shape), None if flat.is_contiguous() else flat.stride())

    def same(self, tensor, kept):
        """Whether both are None, or the tensor has the bits that were kept."""
        if tensor is None or kept is None:
            return tensor is kept
        tensor = store.dense(tensor)
        if tensor.dtype != kept.dtype or tuple(tensor.shape) != kept.shape:
            return False
        flat = store.whole(tensor)
        if not flat.nbytes:
            return True
        if self.map is None or len(self.map) < kept.place + flat.nbytes:
            self._unmap()
            self.map = mmap.mmap(self.file, self.end, flags=mmap.MAP_PRIVATE)
        if kept.strides is not None:
            return store.same_bits(tensor, _view(self.map, kept.place, kept.dtype, kept.shape, kept.strides))
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        return store.same_bytes(flat.data_ptr(), base + kept.place, flat.nbytes)

    def _unmap(self):
        if self.map is not None:
            self.map = None  # it is closed with the last tensor in it

    def finish(self, value):
        """The file is whole; what it holds can still be compared until it is closed."""
        out = io.BytesIO()
        _Pickler(out, self).dump(value)
        data = out.getbuffer()
        self._put(data, self.end)
        self._put(HEAD.pack(MAGIC, self.end, len(data)), 0)
        os.replace(self.path + ".part", self.path)

    def close(self):
        self._unmap()
        os.close(self.file)

    def drop(self):
        self.close()
        os.unlink(self.path + ".part")


class _Unpickler(pickle.Unpickler):
    """Of tensors and plain values; it calls nothing else."""

    def __init__(self, data, tensor_at):
        super().__init__(data)
        self.tensor_at = tensor_at

    def find_class(self, module, name):
        if (module, name) == (__name__, _tensor_at.__name__):
            return self.tensor_at
        if module == "torch" and (name == "device" or isinstance(getattr(torch, name, None), torch.dtype)):
            return getattr(torch, name)
        if (module, name) in (("collections", "OrderedDict"), ("_codecs", "encode")):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is neither a tensor nor a plain value")


def read(path):
    """Tensors come from the file as they are used; what is written into them stays out of it."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < HEAD.size:
            raise pickle.UnpicklingError(f"{path} is no file of a kept step")
        data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    magic, place, count = HEAD.unpack_from(data)
    if magic != MAGIC or place + count > size:
        raise pickle.UnpicklingError(f"{path} is no whole file of a kept step")

    def tensor_at(at, dtype, shape, strides):
        if at < 0 or min(shape, default=0) < 0 or at + math.prod(shape) * dtype.itemsize > size:
            raise pickle.UnpicklingError(f"a tensor of {path} lies past its end")
        return _view(data, at, dtype, shape, strides)

    return _Unpickler(io.BytesIO(data[place:place + count]), tensor_at).load()
