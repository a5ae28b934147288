"""What the operators of c10d say of a call, in the guest library's terms.

PyTorch brings every collective, of Python and of the C++ reducer, to an operator `c10d::...`. A form reads the
arguments of one (a dict by the schema's names) into a Shape; what the guest library cannot be given as one run of
memory has no address there, and so its sums are not judged."""
import torch

from ddprove_torch import library

_DTYPES = {torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
           torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.bool: "u8"}
DTYPE_OF = {name: dtype for dtype, name in _DTYPES.items() if dtype != torch.bool}


class Shape:
    """A call: counts are of a part, as MPI counts."""

    def __init__(self, kind, first, count, source=None, target=None, root=0, out_count=0):
        self.kind, self.count, self.root, self.out_count = kind, count, root, out_count
        self.dtype, self.where, self.is_bool = dtype_number(first), first.device, first.dtype == torch.bool
        self.source, self.target = source, target  # tensors; None: not one run of memory
        self.name = None

    def addresses(self):
        source = address(self.source)
        return source, source if self.target is self.source else address(self.target)


def dtype_number(tensor):
    """Of elements that the guest library does not know, bytes."""
    return library.DTYPES.index(_DTYPES.get(tensor.dtype, "bytes"))


def is_known(tensor):
    """Of elements that the guest library knows."""
    return tensor.dtype in _DTYPES


def address(tensor):
    """Where its elements lie in a row in the host's memory; None: nowhere."""
    if tensor is None or tensor.device.type != "cpu" or tensor.layout != torch.strided or not tensor.is_contiguous():
        return None
    return tensor.data_ptr() or None if is_known(tensor) else None


def count_of(tensor):
    return tensor.numel() if tensor.layout == torch.strided else 0


def _one(tensors):
    return tensors[0] if len(tensors) == 1 else None


def _total(tensors):
    return count_of(tensors[0]) if len(tensors) == 1 else sum(count_of(tensor) for tensor in tensors)


def _all_reduce(a, _rank, _size):
    only = _one(a["tensors"])
    return Shape("all_reduce", a["tensors"][0], _total(a["tensors"]), only, only)


def _broadcast(a, _rank, _size):
    only = _one(a["tensors"])
    return Shape("broadcast", a["tensors"][0], _total(a["tensors"]), only, only, a["root_rank"])


def _reduce(a, rank, _size):
    only = _one(a["tensors"])
    return Shape("reduce", a["tensors"][0], _total(a["tensors"]), only, only if rank == a["root_rank"] else None,
                 a["root_rank"])


def _gather_base(a, _rank, _size):
    source, target = a["input_tensor"], a["output_tensor"]
    return Shape("all_gather", source, count_of(source), source, target, 0, count_of(target))


def _gather_lists(key):
    """NCCL takes parts of different sizes, too, of which only the call itself can be compared."""
    def form(a, _rank, _size):
        parts = {count_of(part) for part in (a.get("output_tensors") or [[]])[0]} if key == "input_tensors" else set()
        if len(parts) > 1:
            return Shape("all_gather", a[key][0], 0)
        return Shape("all_gather", a[key][0], _total(a[key]), _one(a[key]))
    return form


def _scatter_base(a, _rank, _size):
    source, target = a["input_tensor"], a["output_tensor"]
    return Shape("reduce_scatter", target, count_of(target), source, target, 0, count_of(target))


def _scatter_lists(key):
    def form(a, _rank, _size):
        return Shape("reduce_scatter", a[key][0], _total(a[key]), None, _one(a[key]), 0, _total(a[key]))
    return form


def _gather(a, _rank, _size):
    return Shape("gather", a["input_tensors"][0], _total(a["input_tensors"]), _one(a["input_tensors"]), None,
                 a["root_rank"])


def _gather_single(a, rank, _size):
    target = a["output_tensor"] if rank == a["root_rank"] else None
    return Shape("gather", a["input_tensor"], count_of(a["input_tensor"]), a["input_tensor"], target, a["root_rank"],
                 count_of(target) if target is not None else 0)


def _scatter(a, _rank, _size):
    return Shape("scatter", a["output_tensors"][0], _total(a["output_tensors"]), None, _one(a["output_tensors"]),
                 a["root_rank"])


def _exchange_base(a, _rank, size):
    """Ranks may split what they send as they like; then only the call itself can be compared."""
    source, target = a["input"], a["output"]
    if a["input_split_sizes"] or a["output_split_sizes"]:
        return Shape("all_to_all", source, 0)
    return Shape("all_to_all", source, count_of(source) // max(size, 1), source, target, 0, count_of(target))


def _exchange(a, _rank, _size):
    return Shape("all_to_all", (a["input_tensors"] or a["output_tensors"])[0], 0)


def _barrier(_a, _rank, _size):
    shape = Shape("barrier", torch.empty(0, dtype=torch.uint8, device="cpu"), 0)
    shape.dtype = 0
    return shape


def _monitored_barrier(a, rank, size):
    """No barrier meets one: they are other messages."""
    shape = _barrier(a, rank, size)
    shape.kind, shape.name = "other", b"monitored_barrier"
    return shape


def _message(a, _rank, _size):
    """Both ends show a message as the same call, the sender's: it is the bytes that must agree."""
    shape = Shape("send", a["tensors"][0], sum(count_of(tensor) * tensor.element_size() for tensor in a["tensors"]))
    shape.dtype = 0
    return shape


FORMS = {
    "allreduce_": _all_reduce,
    "allreduce_coalesced_": _all_reduce,
    "broadcast_": _broadcast,
    "reduce_": _reduce,
    "_allgather_base_": _gather_base,
    "allgather_": _gather_lists("input_tensors"),
    "allgather_coalesced_": _gather_lists("input_list"),
    "allgather_into_tensor_coalesced_": _gather_lists("inputs"),
    "_reduce_scatter_base_": _scatter_base,
    "reduce_scatter_": _scatter_lists("output_tensors"),
    "reduce_scatter_tensor_coalesced_": _scatter_lists("outputs"),
    "gather_": _gather,
    "gather_into_tensor_": _gather_single,
    "scatter_": _scatter,
    "alltoall_base_": _exchange_base,
    "alltoall_": _exchange,
    "barrier": _barrier,
    "monitored_barrier_": _monitored_barrier,
    "send": _message,
    "recv_": _message,
}
# Where a message's arguments name the other end.
ENDS = {"send": "dst", "recv_": "src"}
REDUCES = {"allreduce_", "allreduce_coalesced_", "reduce_", "_reduce_scatter_base_", "reduce_scatter_",
           "reduce_scatter_tensor_coalesced_"}
