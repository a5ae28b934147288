"""What a fault has made of a call: the guest library changes the struct, here the arguments follow."""
import ctypes

import torch

from ddprove_torch import forms, library


def values_of(call):
    return (call.dtype, call.redop, call.root, call.elem_count, call.input)


class Changed:
    """The arguments to make the call with. redop: a torch ReduceOp in place of the program's, or None."""

    def __init__(self, named):
        self.named, self.redop = named, None


def _view(tensor, call, asked):
    """The first elements of a tensor, perhaps as others."""
    flat = tensor.view(-1)
    if call.dtype != asked[0]:
        flat = flat.view(forms.DTYPE_OF[library.DTYPES[call.dtype]])
    return flat[:call.elem_count]


def _copy_at(pointer, like):
    """The library's changed copy of a contribution, in place of the program's, where that lies."""
    size = like.numel() * like.element_size()
    memory = (ctypes.c_char * size).from_address(pointer)
    return torch.frombuffer(memory, dtype=like.dtype).view(like.shape).to(like.device)


def _in_place(value, source, copy):
    """An argument, perhaps of nested lists, with the copy where the program's tensor was."""
    if isinstance(value, (list, tuple)):
        return type(value)(_in_place(item, source, copy) for item in value)
    return copy if value is source else value


def change(name, entry, shape, named):
    """Follow the call. What is written into the tensors themselves needs nothing here."""
    call, asked = entry.call, entry.asked
    now = values_of(call)
    changed = Changed(named)
    if now == asked:
        return changed
    changed.named = dict(named)
    if (call.dtype, call.elem_count) != (asked[0], asked[3]):
        if len(named.get("tensors", ())) != 1 or not named["tensors"][0].is_contiguous():
            raise RuntimeError(f"ddprove: a fault asks for fewer or other elements, which {name} cannot be given here")
        changed.named["tensors"] = [_view(named["tensors"][0], call, asked)]
    if call.root != asked[2] and "root_rank" in named:
        changed.named["root_rank"] = call.root
    if call.input != asked[4] and shape.source is not None:
        copy = _copy_at(call.input, shape.source)
        for key, value in named.items():
            if key.startswith("input"):
                changed.named[key] = _in_place(value, shape.source, copy)
    if call.redop != asked[1] and name in forms.REDUCES:
        op = {"prod": "PRODUCT"}.get(library.REDOPS[call.redop], library.REDOPS[call.redop].upper())
        changed.redop = getattr(torch.distributed.ReduceOp, op)
    return changed


_METHODS = {"allreduce_": "allreduce", "allreduce_coalesced_": "allreduce_coalesced", "reduce_": "reduce"}


def reduce_otherwise(name, group, changed):
    """With another operator than the operator's argument says, which cannot be made in every version."""
    from torch.distributed import distributed_c10d as c10d

    named = changed.named
    tensor = (named.get("tensors") or [named.get("output_tensor")])[0]
    backend = group._get_backend(tensor.device)
    if name in _METHODS:
        options = {"allreduce_": c10d.AllreduceOptions, "allreduce_coalesced_": c10d.AllreduceCoalescedOptions,
                   "reduce_": c10d.ReduceOptions}[name]()
        options.reduceOp = changed.redop
        if name == "reduce_":
            options.rootRank = named["root_rank"]
        work = getattr(backend, _METHODS[name])(named["tensors"], options)
        return (named["tensors"], work.boxed()) if name == "allreduce_" else work.boxed()
    options = c10d.ReduceScatterOptions()
    options.reduceOp = changed.redop
    if name == "_reduce_scatter_base_":
        work = backend._reduce_scatter_base(named["output_tensor"], named["input_tensor"], options)
        return named["output_tensor"], work.boxed()
    raise RuntimeError(f"ddprove: a fault asks for another operator, and {name} cannot be given one")
