"""Values that are kept of a run: nested containers, tensors and plain values; and what is beside them in a run folder,
which has a folder for each rank with a file for each kept step (record.py)."""
import ctypes
import json
import os

import torch

LOAD = torch.load  # as it is before anything watches it

PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device)


_compare = ctypes.CDLL(None).memcmp
_compare.argtypes, _compare.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int


class NotKept(Exception):
    """A value of a type that is not kept; the text says which."""


def copy_of(tensor):
    return None if tensor is None else tensor.detach().clone()


def encode(value, path="input", keep=copy_of):
    """A copy of nested lists, tuples, dicts, tensors and plain values. Raises NotKept for anything else: what is
    left out here could not be replayed. keep: what makes the copy of a tensor."""
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            raise NotKept(f"{path} is a {type(value).__name__} of layout {value.layout}")
        return {"tensor": keep(value), "grad": value.requires_grad, "device": str(value.device)}
    if isinstance(value, PLAIN):
        return {"plain": value}
    if type(value) is dict:
        return {"dict": [(key, encode(item, f"{path}[{key!r}]", keep)) for key, item in value.items()
                         if plain_key(key, path)]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [encode(item, f"{path}[{i}]", keep) for i, item in enumerate(value)]}
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


def is_code_of(code, value, same):
    """Whether a value would be encoded so. same(tensor, what was kept of it)."""
    (kind, kept), *_ = code.items()
    if kind == "tensor":
        return isinstance(value, torch.Tensor) and code["grad"] == value.requires_grad and \
            code["device"] == str(value.device) and same(value, kept)
    if kind == "plain":
        return type(value) is type(kept) and (value == kept or (value != value and kept != kept))
    if kind == "dict":
        return type(value) is dict and len(value) == len(kept) and all(
            key == other and is_code_of(item, mine, same) for (key, item), (other, mine) in zip(kept, value.items()))
    return type(value).__name__ == kind and len(value) == len(kept) and all(
        is_code_of(item, mine, same) for item, mine in zip(kept, value))


def part_of(code, key):
    """What stands under a key of an encoded dict."""
    return next(item for other, item in code["dict"] if other == key)


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


def dense(tensor):
    """The tensor itself, or what a sparse one stands for."""
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def whole(tensor):
    """The tensor as one run of memory of the host, in the order of its elements."""
    return tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()


def bytes_of(tensor):
    """Its bytes, so that NaN equals itself and 0 differs from -0; without NumPy, which PyTorch may be without."""
    flat = whole(tensor)
    return ctypes.string_at(flat.data_ptr(), flat.nbytes) if flat.nbytes else b""


def same_bytes(one, other, size_bytes):
    """memcmp: torch.equal takes byte for byte."""
    return _compare(one, other, size_bytes) == 0


def same_bits(one, other):
    """Whether both are None, or tensors of the same type, shape and bytes."""
    if one is None or other is None:
        return one is other
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    a, b = whole(one), whole(other)
    return not a.nbytes or same_bytes(a.data_ptr(), b.data_ptr(), a.nbytes)


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
    return os.path.join(folder, f"rank{rank}", f"step{step}.kept")


def usage_path(folder, rank):
    return os.path.join(folder, f"rank{rank}", "usage.json")
