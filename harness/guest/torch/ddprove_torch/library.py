"""The guest library (ddprove_guest.h) by ctypes. Whatever reads a tensor's data is there, in C, and none of it here."""
import ctypes
import os
import sys
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_uint32, c_uint64, c_void_p, sizeof

KINDS = ("all_reduce broadcast all_gather barrier reduce reduce_scatter gather scatter all_to_all scan exscan send recv "
         "comm_create other neighbor_all_gather neighbor_all_to_all").split()
DTYPES = "bytes u8 i8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64".split()
REDOPS = "none sum avg prod min max land lor band bor bxor user".split()
PHASES = {"init": 2, "data": 3, "forward": 4, "loss": 5, "backward": 6, "reduce": 7, "optimizer": 8, "buffer": 9,
          "checkpoint": 10, "teardown": 13}
PARAMETER, BUFFER = 0, 1
OTHER_OPTIMIZER, SGD, ADAMW = 0, 1, 2
NAME_BYTES = 31


class Call(Structure):
    """struct ddprove_guest_call."""

    _fields_ = [(n, c_uint32) for n in ("size_bytes", "comm", "kind", "dtype", "redop", "root")] + [
        ("elem_count", c_uint64), ("input", c_void_p), ("output", c_void_p), ("out_count", c_uint64),
        ("bucket", c_uint32), ("name", c_char_p), ("seq", c_uint64), ("state", c_uint64 * 6)]


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


_FUNCTIONS = {
    "attach": (c_int, [c_int, c_int]),
    "detach": (None, []),
    "is_watched": (c_int, []),
    "step": (None, [c_uint64]),
    "micro": (None, [c_uint32]),
    "phase": (None, [c_int]),
    "comm_create": (c_uint32, [c_uint64, c_uint32, c_uint32, c_char_p]),
    "comm_free": (None, [c_uint32]),
    "call_post": (c_int, [POINTER(Call)]),
    "call_wait_begin": (None, [POINTER(Call)]),
    "call_wait_end": (None, [POINTER(Call)]),
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
            setattr(self, name, function)

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


def cut(name):
    """A name of a parameter as bytes; of long ones the end tells them apart."""
    text = name.encode()
    return text if len(text) <= NAME_BYTES else b"~" + text[-(NAME_BYTES - 1):]
