"""What is kept of a run, as files that can be read without running anybody's code.

A run folder has a folder for each rank with a file for each kept step. They hold tensors, containers and plain values
only, and the reader knows no other names: as `torch.load(weights_only=True)`, but in C. A file has its name once it is
whole.
"""
import ctypes
import json
import os
import pickle
import types

import torch
from torch import serialization

SAVE, LOAD = torch.save, torch.load  # as they are before anything watches them

PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device)


_compare = ctypes.CDLL(None).memcmp
_compare.argtypes, _compare.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int


class NotKept(Exception):
    """A value of a type that is not kept; the text says which."""


def encode(value, path="input"):
    """A copy of nested lists, tuples, dicts, tensors and plain values. Raises NotKept for anything else: what is
    left out here could not be replayed."""
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            raise NotKept(f"{path} is a {type(value).__name__} of layout {value.layout}")
        return {"tensor": value.detach().clone(), "grad": value.requires_grad, "device": str(value.device)}
    if isinstance(value, PLAIN):
        return {"plain": value}
    if type(value) is dict:
        return {"dict": [(key, encode(item, f"{path}[{key!r}]")) for key, item in value.items()
                         if plain_key(key, path)]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [encode(item, f"{path}[{i}]") for i, item in enumerate(value)]}
    raise NotKept(f"{path} is a {type(value).__name__}")


def plain_key(key, path):
    if not isinstance(key, PLAIN):
        raise NotKept(f"a key of {path} is a {type(key).__name__}")
    return True


def decode(code):
    """What `encode` was given, made of new tensors."""
    (kind, value), *_ = code.items()
    if kind == "tensor":
        return value.to(code["device"], copy=True).requires_grad_(code["grad"])
    if kind == "plain":
        return value
    if kind == "dict":
        return {key: decode(item) for key, item in value}
    return {"list": list, "tuple": tuple}[kind](decode(item) for item in value)


def tensors_of(value):
    """All tensors of nested containers, in the order in which they stand there."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_of(getattr(value, name))


def bits_of(tensor):
    """The tensor's bytes, so that NaN equals itself and 0 differs from -0."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else flat


def bytes_of(tensor):
    """The same as bytes, without NumPy, which PyTorch may be without."""
    flat = bits_of(tensor.cpu())
    return ctypes.string_at(flat.data_ptr(), flat.numel()) if flat.numel() else b""


def same_bits(one, other):
    """Whether both are None, or tensors of the same type, shape and bytes. memcmp: torch.equal takes byte for byte."""
    if one is None or other is None:
        return one is other
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    a, b = bits_of(one.cpu()), bits_of(other.cpu())
    return not a.numel() or _compare(a.data_ptr(), b.data_ptr(), a.numel()) == 0


def copy_of(tensor):
    return None if tensor is None else tensor.detach().clone()


class NoSums:
    """Files are saved without a CRC32 of each tensor meanwhile (2.6 and later), which torch.load never looks at; it
    costs more than the writing."""

    def __enter__(self):
        self.before = getattr(serialization, "get_crc32_options", lambda: None)()
        if self.before is not None:
            serialization.set_crc32_options(False)

    def __exit__(self, *_error):
        if self.before is not None:
            serialization.set_crc32_options(self.before)


def write(path, value):
    """Write a file of tensors and plain values; it has its name once it is whole."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with NoSums():
        SAVE(value, path + ".part")
    os.replace(path + ".part", path)


KNOWN = {("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_parameter"), ("torch", "device"),
         ("collections", "OrderedDict"), ("_codecs", "encode")}


class Unpickler(pickle.Unpickler):
    """Of tensors and plain values; it calls nothing else."""

    def find_class(self, module, name):
        if (module, name) in KNOWN or (module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is neither a tensor nor a plain value")


_READER = types.SimpleNamespace(Unpickler=Unpickler, UnpicklingError=pickle.UnpicklingError, __name__="pickle")


def read(path):
    """Tensors come from the file as they are used; what is written into them stays out of it."""
    return LOAD(path, weights_only=False, pickle_module=_READER, map_location="cpu", mmap=True)


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, sort_keys=True)
        file.write("\n")
    os.replace(path + ".part", path)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def step_path(folder, rank, step):
    return os.path.join(folder, f"rank{rank}", f"step{step}.pt")


def usage_path(folder, rank):
    return os.path.join(folder, f"rank{rank}", "usage.json")
