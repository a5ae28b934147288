"""The guest library (ddprove_guest.h) by ctypes. Whatever reads a tensor's data is there, in C, and none of it here."""
import ctypes
import os
import sys
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_uint32, c_uint64, c_void_p, sizeof

KINDS = ("all_reduce broadcast all_gather barrier reduce reduce_scatter gather scatter all_to_all scan exscan send recv "
         "comm_create other neighbor_all_gather neighbor_all_to_all").split()
DTYPES = "bytes u8 i8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64".split()
REDOPS = "none sum avg prod min max land lor band bor bxor user lxor minloc maxloc".split()
PHASES = {"init": 2, "data": 3, "forward": 4, "loss": 5, "backward": 6, "reduce": 7, "optimizer": 8, "buffer": 9,
          "checkpoint": 10, "teardown": 13}
PARAMETER, BUFFER = 0, 1
SAVED, LOADED, LOADED_PART = 0, 1, 2
OTHER_OPTIMIZER, SGD, ADAMW = 0, 1, 2
POINTS = "data/next backward/grad_ready optimizer/pre optimizer/updated checkpoint/key".split()
PARTS = "whole whether what".split()
EDITS = "none strip_prefix add_prefix".split()
NAME_BYTES = 31
NAMES_MAX = 4000  # told at once: a rank's history in the arena has so much room before somebody reads it


class Call(Structure):
    """struct ddprove_guest_call."""

    _fields_ = [(n, c_uint32) for n in ("size_bytes", "comm", "kind", "dtype", "redop", "root")] + [
        ("elem_count", c_uint64), ("input", c_void_p), ("output", c_void_p), ("out_count", c_uint64),
        ("bucket", c_uint32), ("name", c_char_p), ("seq", c_uint64), ("state", c_uint64 * 6), ("model", c_uint32),
        ("may_overflow", c_uint32)]


class Optimizer(Structure):
    """struct ddprove_guest_optimizer."""

    _fields_ = [("size_bytes", c_uint32), ("kind", c_uint32), ("lr", c_double), ("weight_decay", c_double),
                ("momentum", c_double), ("dampening", c_double), ("is_nesterov", c_uint32), ("beta1", c_double),
                ("beta2", c_double), ("eps", c_double)]


class Tensor(Structure):
    """struct ddprove_guest_tensor."""

    _fields_ = [(n, c_uint32) for n in ("size_bytes", "role", "dtype", "spare")] + [
        ("elem_count", c_uint64), ("name", c_char_p), ("data", c_void_p), ("gradient", c_void_p),
        ("state", c_void_p * 2), ("update_count", c_uint64), ("optimizer", POINTER(Optimizer))]


class Epoch(Structure):
    """struct ddprove_guest_epoch."""

    _fields_ = [("size_bytes", c_uint32), ("sampler", c_uint32), ("number", c_uint64), ("sample_count", c_uint64),
                ("padded", c_uint64), ("dropped", c_uint64), ("is_uneven", c_uint32)]


class Place(Structure):
    """struct ddprove_guest_place."""

    _fields_ = [("size_bytes", c_uint32), ("point", c_uint32), ("name", c_char_p), ("data", c_void_p),
                ("elem_count", c_uint64), ("dtype", c_uint32), ("edit", c_uint32), ("part", c_uint32),
                ("spare", c_uint32)]


_FUNCTIONS = {
    "attach": (c_int, [c_int, c_int]),
    "detach": (None, []),
    "is_watched": (c_int, []),
    "step": (None, [c_uint64]),
    "micro": (None, [c_uint32]),
    "phase": (None, [c_int]),
    "comm_create": (c_uint32, [c_uint64, c_uint32, c_uint32, c_char_p]),
    "pair_create": (c_uint32, [c_uint64, c_uint32, c_char_p]),
    "comm_free": (None, [c_uint32]),
    "bucket": (None, [c_uint32, c_uint32, POINTER(c_char_p), c_uint32]),
    "unused": (None, [c_uint32, POINTER(c_char_p), c_uint32, c_int]),
    "keys": (None, [c_int, POINTER(c_char_p), c_uint32, POINTER(c_char_p), c_uint32]),
    "epoch": (None, [POINTER(Epoch)]),
    "epoch_break": (None, []),
    "batch": (None, [POINTER(c_uint64), c_uint64]),
    "pass": (c_int, [POINTER(Place)]),
    "wants": (c_int, [c_int, c_char_p]),
    "wants_calls": (c_int, [c_int]),
    "call_post": (c_int, [POINTER(Call)]),
    "call_wait_begin": (None, [POINTER(Call)]),
    "call_wait_end": (None, [POINTER(Call)]),
    "wait_for": (None, [c_uint32, c_int, c_int]),
    "wait_over": (None, []),
    "call_done": (None, [POINTER(Call)]),
    "call_failed": (None, [POINTER(Call)]),
    "asks_updated": (c_int, []),
    "asks_update_begin": (c_int, []),
    "update_begin": (None, [POINTER(Tensor), c_uint32]),
    "updated": (None, [POINTER(Tensor), c_uint32]),
}


class Library:
    """The functions without their prefix."""

    def __init__(self, handle):
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(handle, "ddprove_guest_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, "come_by" if name == "pass" else name, function)

    def wants_at(self, point, name=None):
        """Whether a fault waits for this rank at this point."""
        return bool(self.wants(POINTS.index(point), None if name is None else name.encode()))

    def come_to(self, point, name=None, tensor=None, part="whole"):
        """The program is at a point. Returns how often to do what comes next, and the name of an edit of keys.
        tensor: one that lies in a row in the host's memory, which a fault may change."""
        place = Place()
        place.size_bytes, place.point, place.part = sizeof(Place), POINTS.index(point), PARTS.index(part)
        place.name = None if name is None else name.encode()
        if tensor is not None:
            from ddprove_torch import forms

            place.data, place.elem_count, place.dtype = tensor.data_ptr(), tensor.numel(), forms.dtype_number(tensor)
        return self.come_by(place), EDITS[place.edit]

    def phase_is(self, name):
        """The program is in this phase now."""
        self.phase(PHASES[name])


guest = None  # the Library, once loaded


def load():
    """The library, None if it is not found, which is said."""
    global guest
    if guest is None:
        path = os.environ.get("DDPROVE_GUEST_LIBRARY") or "libddprove_guest.so.1"
        try:
            guest = Library(ctypes.CDLL(path))
        except OSError as error:
            print(f"ddprove: {error}; nothing of PyTorch is seen. DDPROVE_GUEST_LIBRARY says where it lies",
                  file=sys.stderr)
    return guest


def new_call(comm, kind):
    """A Call with what every call has."""
    call = Call()
    call.size_bytes, call.comm, call.kind = sizeof(Call), comm, KINDS.index(kind)
    return call


def names_of(names):
    """As C takes them."""
    return (c_char_p * len(names))(*(name.encode() for name in names)), len(names)


def cut(name):
    """A name of a parameter as bytes; of long ones the end tells them apart."""
    text = name.encode()
    return text if len(text) <= NAME_BYTES else b"~" + text[-(NAME_BYTES - 1):]
