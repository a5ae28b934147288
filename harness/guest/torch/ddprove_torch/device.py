"""Calls whose data lie on a GPU. The host has posted one, and waited for it, long before the device has done it: what
the program waits with is a stream. So a thread of each communicator waits as the stream does, and is seen to; the call is
done when the device says so, which on another rank may be much later."""
import os
import queue
import threading

import torch

from ddprove_torch import host, library

_waiters = {}  # handle of a communicator -> _Waiter


class _Waiter(threading.Thread):
    """Waits for one call after the other, in the order in which the program has waited for them."""

    def __init__(self):
        super().__init__(daemon=True, name="ddprove")
        self.calls = queue.SimpleQueue()
        self.start()

    def run(self):
        for call, event, _stage in iter(self.calls.get, None):  # the copies live until the call is done
            _await(call, event)


def _await(call, event):
    guest = library.guest
    try:
        if not event.query():
            guest.call_wait_begin(call)
            try:
                event.synchronize()
            finally:
                guest.call_wait_end(call)
    except Exception:  # the device's error, which the program meets, too
        guest.call_failed(call)
    else:
        guest.call_done(call)


def is_waited_on_host(name, group):
    """Whether the backend's work, waited for, stops the host until the call is done on a device: a barrier does, and all
    do if the user wants it. A work made from its future would only stop a stream."""
    if name != "barrier" and os.environ.get("TORCH_NCCL_BLOCKING_WAIT", "0") in ("", "0"):
        return False
    try:
        return group._get_backend(torch.device("cuda")).name().lower() == "nccl"
    except RuntimeError:  # it has none for such a device
        return False


def has_tags(group, tensor):
    """Whether the backend matches messages by their tags; NCCL does not look at them."""
    return tensor.device.type != "cuda" or group._get_backend(tensor.device).name().lower() != "nccl"


def finish(call, device, stage=None):
    """The host has waited for the call as far as it does: the result is there, or the current stream waits for it. A call
    that a graph captures is not made, so nobody can say when it is done; nor of a device that is not CUDA's.
    stage: copies of its data in the host's memory (host.py)."""
    if device.type == "cpu" and stage is None:
        library.guest.call_done(call)
        return
    if device.type not in ("cpu", "cuda") or host.is_capturing(device):
        return
    if device.type == "cpu" or library.guest.wants_calls(1):
        _finish_here(call, device, stage)
        return
    if stage is not None:
        stage.fetch_target()
    event = torch.cuda.Event(blocking=True)
    event.record(torch.cuda.current_stream(device))
    if call.comm not in _waiters:
        _waiters[call.comm] = _Waiter()
    _waiters[call.comm].calls.put((call, event, stage))


def _finish_here(call, device, stage):
    """A fault acts behind calls of this rank: on the program's own thread, and before it can use the result."""
    guest = library.guest
    guest.call_wait_begin(call)
    try:
        if stage is not None:
            stage.fetch_target()
        host.wait(device)
    except Exception:  # the device's error, which the program meets, too
        guest.call_failed(call)
        return
    finally:
        guest.call_wait_end(call)
    if stage is not None:
        stage.remember_target()
    guest.call_done(call)
    if stage is not None:
        stage.done()


def forget(comm):
    """The communicator has ended, and with it its calls."""
    waiter = _waiters.pop(comm, None)
    if waiter is not None:
        waiter.calls.put(None)
        waiter.join(10)
