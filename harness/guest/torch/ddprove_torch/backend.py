"""Every collective of every process group, seen where PyTorch dispatches it.

A kernel for the key BackendSelect stands in front of the one of each device and gives the call on to it, so the backend,
its name and the order of everything stay what they are, in every version since 2.5. (A subclass of c10d's Backend does
the same from 2.14 on, but changes what the program's process groups are.)

The result must have been read before the program can change it, so a call that the program waits for through Python, or
the reducer through a future, completes after `_done`. C++ code that waits for the work itself (DDP's constructor, its
buffers, functional collectives) cannot be given a work of ours: one from a future swallows errors, and a subclass in
Python dies before C++ is through with it. There the kernel waits in its place. In Python, `Work.wait` waits for the
backend's own work, however often and however late it is called, so that the program meets its errors and time-outs."""
import ctypes
import functools
import sys
import threading
import weakref

import torch

from ddprove_torch import ddp, device, faults, forms, groups, host, library, scaling

_local = threading.local()  # .redop: what Python asked for; .depth: calls of Python's under way; .made: works that its call
#                            may return
_pending = {}  # id of a work that we made -> Entry
_LOOK_AT = 64  # so many works are kept, at least, before any is let go of
_look_at = _LOOK_AT  # and so many are there when they are looked at next
_over = weakref.WeakKeyDictionary()  # such a work, once its result is there or will not be -> Entry
_backward = {}  # graph task -> its Entries
_keep = []  # registrations
_wait = None  # Work.wait as PyTorch has it
if torch.distributed.is_available():
    from torch._C._distributed_c10d import _create_work_from_future
    from torch.distributed import DebugLevel, ProcessGroup, ReduceOp, Work, get_debug_level

_METHODS = ("allreduce allreduce_coalesced broadcast reduce allgather all_gather_single _allgather_base "
            "allgather_coalesced all_gather_single_coalesced allgather_into_tensor_coalesced reduce_scatter "
            "reduce_scatter_single _reduce_scatter_base reduce_scatter_single_coalesced "
            "reduce_scatter_tensor_coalesced gather gather_single gather_into_tensor scatter all_to_all_single "
            "alltoall alltoall_base barrier").split()


class Entry:
    """A call that has been posted and is not done."""

    is_loose = False  # nobody else held its work when that was looked at last

    def __init__(self, call, holds, where=torch.device("cpu"), stage=None):
        self.call, self.holds = call, holds  # holds: tensors that the call reads or writes
        self.where = where  # the device of its data
        self.stage = stage  # copies of them in the host's memory
        self.inner = self.future = self.work = None
        self.is_done = False

    def wait(self, *timeout):
        """Wait as the program would, and be seen to."""
        if self.is_done:
            return self.wait_again(*timeout)
        guest = library.guest
        guest.call_wait_begin(self.call)
        try:
            result = _wait(self.inner, *timeout)
            if self.future is not None:
                self.future.wait()
            elif self.work is not None:
                _pending.pop(id(self.work), None)
                device.finish(self.call, self.where, self.stage)
            return result
        except Exception:
            if self.inner.is_completed():  # else this wait had its time, and the call goes on
                self.fail()
            raise
        finally:
            guest.call_wait_end(self.call)

    def wait_again(self, *timeout):
        """Nobody waits for others any more; what the backend has to say of it, it says again."""
        result = _wait(self.inner, *timeout)
        if self.future is not None:
            self.future.wait()
        return result

    def settle(self):
        """It is over: the work is kept only by whoever may still wait for it."""
        work, self.holds = self.work, None
        if work is not None:
            _pending.pop(id(work), None)
            self.work = None
            if work is not self.inner:
                _over[work] = self

    def is_held(self):
        """Somebody else holds the backend's work, which was given out, and may wait for it."""
        return self.future is not None or sys.getrefcount(self.inner) > 1 + (self.inner is self.work) + 1

    def let_go(self):
        """Nobody can wait for it any more, so nobody learns whether it was done."""
        self.work = self.holds = None

    def fail(self):
        """It has no result; said once, also where a wait and the future both tell."""
        if not self.is_done:
            self.is_done = True
            library.guest.call_failed(self.call)
            self.settle()


def _done(entry, future):
    """The result is there, and nobody but us has seen it. Raises what the backend raised."""
    try:
        value = future.value()
    except Exception:
        entry.fail()
        raise
    device.finish(entry.call, entry.where, entry.stage)
    entry.is_done = True
    entry.settle()
    return value


def _redop(name, boxed):
    """What is computed, as the guest library numbers it. Where C++ does not say (2.7), the reducer adds, also for a rank
    that has no more samples."""
    if name not in forms.REDUCES:
        return 0
    op = getattr(_local, "redop", None)
    if op is None and hasattr(ReduceOp, "unbox"):
        op = ReduceOp.unbox(boxed)
    if op is None:
        return library.REDOPS.index("sum" if _graph_task() is not None or ddp.is_matching() else "user")
    return _number_of(getattr(op, "op", op))


@functools.lru_cache(maxsize=None)
def _number_of(kind):
    text = str(kind).rsplit(".", maxsplit=1)[-1].lower()
    text = {"product": "prod", "premul_sum": "user"}.get(text, text)
    return library.REDOPS.index(text if text in library.REDOPS else "user")


def _graph_task():
    """The backward pass that runs on this thread."""
    task = torch._C._current_graph_task_id()
    return task if task != -1 else None


def _wait_at_end(task):
    """A backward pass has come to its end: next, the reducer waits for its sums, where nobody sees it."""
    for entry in _backward.pop(task, []):
        try:
            entry.wait()
        except Exception:  # pylint: disable=broad-except
            return  # the reducer meets the same error, and raises it


def _await(result, entry, made):
    """The backend's own work, which has no future: its result is read when the program has waited for it."""
    entry.work = made
    _keep_until_waited(made, entry)
    return result


def _keep_until_waited(made, entry):
    """Programs send messages and never wait for them, and gloo's works say that they are done only to who waits: those that
    nobody else holds are let go of, seldom, and when that is seen twice, as a work may be on its way to the program."""
    global _look_at
    _pending[id(made)] = entry
    if len(_pending) < _look_at:
        return
    for key, kept in list(_pending.items()):
        if kept.is_held():
            kept.is_loose = False
        elif kept.is_loose:
            _pending.pop(key, None)
            kept.let_go()
        else:
            kept.is_loose = True
    _look_at = max(_LOOK_AT, 2 * len(_pending))


def _defer(entry, future):
    """A work in place of the backend's, which completes once the result has been read."""
    entry.future = future.then(functools.partial(_done, entry))
    work = entry.work = _create_work_from_future(entry.future)
    made = getattr(_local, "made", None)
    if made is not None:
        made.append(work)
    _pending[id(work)] = entry
    if entry.is_done:
        entry.settle()
    task = _graph_task()
    if task is not None:
        if task not in _backward:
            _backward[task] = []
            torch.autograd.Variable._execution_engine.queue_callback(functools.partial(_wait_at_end, task))
        _backward[task].append(entry)
    return work


def _is_awaited_in_cpp(call):
    """Of a call that Python did not make, C++ waits for the work itself. Of the reducer's sums it takes the future,
    unless it delays them until the pass has ended (the first one of a static graph). Others that are made within a
    backward pass are those of functional collectives."""
    if getattr(_local, "depth", 0) > 0:
        return False
    return _graph_task() is None or call.bucket == 0 or ddp.delays_sums()


def _give_result(result, work):
    boxed = work.boxed()
    return (*result[:-1], boxed) if isinstance(result, tuple) else boxed


def _skipped(arguments, where):
    """A work for a call that is not made: done, with what a real one would hand out."""
    future = torch.futures.Future(devices=None if where.type == "cpu" else [where])
    future.set_result(arguments.get("tensors") or arguments.get("output_tensors") or
                      [arguments.get("output_tensor", arguments.get("output"))])
    return _create_work_from_future(future)


class Kernel:
    """Of one operator."""

    def __init__(self, name, below):
        self.name, self.below = name, below
        self.op = getattr(torch.ops.c10d, name).default
        self.arguments = [argument.name for argument in self.op._schema.arguments]
        self.returns_tensors = len(self.op._schema.returns) == 2

    def __call__(self, keyset, *args, **kwargs):
        named = dict(zip(self.arguments, args))
        if kwargs:
            named.update(kwargs)
            args = tuple(named[name] for name in self.arguments if name in named)
        group = ProcessGroup.unbox(named["process_group"])
        comm = self.comm_of(group, named)
        if comm == 0:
            return self.pass_by(keyset, group, named, args)
        shape = forms.FORMS[self.name](named, group.rank(), group.size())
        entry = self.post(comm, shape, named)
        if entry.times <= 0:
            if not self.op._schema.returns:
                return None
            work = _skipped(named, entry.where)
            first = named.get(self.arguments[0])
            return (first, work.boxed()) if self.returns_tensors else work.boxed()
        return self.make(keyset, group, shape, entry, named, args)

    def comm_of(self, group, named):
        """The communicator that the call is one of; 0: it is not shown."""
        if self.name not in forms.ENDS:
            return groups.handle_of(group)
        other, own = named[forms.ENDS[self.name]], group.rank()
        tag = named["tag"] if device.has_tags(group, named["tensors"][0]) else 0
        return groups.pair_of(group, *((own, other) if self.name == "send" else (other, own)), tag)

    def pass_by(self, keyset, group, named, args):
        """A call that is not shown. That the rank waits for the other end of a message is."""
        result = self.op.redispatch(keyset & self.below, *args)
        if self.name in forms.ENDS and groups.handle_of(group) != 0:
            work = Work.unbox(result)
            if work is not None:
                _keep_until_waited(work, UnshownEntry(group, work, [named[forms.ENDS[self.name]]]))
        return result

    def post(self, comm, shape, named):
        """The call as the program makes it, shown, and changed by what faults ask for."""
        call = library.new_call(comm, shape.kind)
        call.dtype, call.elem_count, call.root, call.out_count = shape.dtype, shape.count, shape.root, shape.out_count
        call.redop, call.name = _redop(self.name, named.get("reduce_op")), shape.name
        if shape.is_bool and call.redop == library.REDOPS.index("sum"):
            call.redop = library.REDOPS.index("max")  # as NCCL adds them up
        stage = host.stage_of(shape)
        call.input, call.output = shape.addresses() if stage is None else stage.addresses()
        bucket = ddp.bucket_of(shape, _graph_task()) if shape.kind == "all_reduce" else None
        call.may_overflow = int(scaling.may_overflow())
        call.model, call.bucket = (0, 0) if bucket is None else (bucket[0], bucket[1] + 1)
        entry = Entry(call, [shape.source, shape.target], shape.where, stage)
        entry.asked = faults.values_of(call)
        entry.times = library.guest.call_post(ctypes.byref(call))
        if stage is not None:
            stage.posted()
        return entry

    def make(self, keyset, group, shape, entry, named, args):
        """Give it to the backend, as often as it is to be made. args: those of named, in their order."""
        changed = faults.change(self.name, entry, shape, named)
        depth, _local.depth = getattr(_local, "depth", 0), 0
        redop, _local.redop = getattr(_local, "redop", None), None
        # It waits inside: an operator that blocks, and in PyTorch's mode DETAIL every one.
        is_blocking = not self.op._schema.returns or get_debug_level() == DebugLevel.DETAIL
        if is_blocking:
            library.guest.call_wait_begin(entry.call)
        try:
            result = None
            for _ in range(entry.times):
                if result is not None:
                    before = Work.unbox(result[-1] if isinstance(result, tuple) else result)
                    if before is not None:
                        before.wait()
                if changed.redop is not None:
                    result = faults.reduce_otherwise(self.name, group, changed)
                elif changed.named is named:
                    result = self.op.redispatch(keyset & self.below, *args)
                else:
                    result = self.op.redispatch(keyset & self.below, *(changed.named[a] for a in self.arguments
                                                                      if a in changed.named))
        except Exception:
            if is_blocking:
                library.guest.call_wait_end(entry.call)
            # An error at the post of a call that does not wait is the program's own: an argument is refused.
            if is_blocking or self.name in forms.ENDS:
                entry.fail()
            raise
        finally:
            _local.depth, _local.redop = depth, redop
        if is_blocking:
            library.guest.call_wait_end(entry.call)
        if result is None:
            device.finish(entry.call, entry.where, entry.stage)
            return None
        made = Work.unbox(result[-1] if isinstance(result, tuple) else result)
        if made is None:  # NCCL: the caller's stream does it
            device.finish(entry.call, entry.where, entry.stage)
            return result
        entry.inner = made
        if self.name in forms.ENDS or device.is_waited_on_host(self.name, group):
            return _await(result, entry, made)
        if not _is_awaited_in_cpp(entry.call):
            try:
                future = made.get_future()
            except RuntimeError:  # of gloo's own reduce_scatter, for one
                return _await(result, entry, made)
            return _give_result(result, _defer(entry, future))
        entry.wait()
        device.finish(entry.call, entry.where, entry.stage)
        ddp.note_done(shape)
        return result


class AnySource:
    """A receive from whoever sends first. Until it has come, the rank waits for anybody; then it is the next message
    of that sender."""

    def __init__(self, below):
        self.below, self.op = below, torch.ops.c10d.recv_any_source_.default

    def __call__(self, keyset, tensors, process_group, tag):
        result = self.op.redispatch(keyset & self.below, tensors, process_group, tag)
        group = ProcessGroup.unbox(process_group)
        if groups.handle_of(group) != 0:
            work = Work.unbox(result)
            _keep_until_waited(work, AnyEntry(group, tensors, work, tag))
        return result


class UnshownEntry:
    """A message that is not shown, until it has been waited for."""

    is_loose = False

    def __init__(self, group, work, others):
        self.group, self.inner, self.others = group, work, others

    def wait(self, *timeout):
        ends = (*self.others, -1)[:2] if 0 < len(self.others) <= 2 else (-1, -1)
        library.guest.wait_for(groups.handle_of(self.group), *ends)
        try:
            result = _wait(self.inner, *timeout)
        finally:
            library.guest.wait_over()
        _pending.pop(id(self.inner), None)
        return result

    def is_held(self):
        """As Entry's."""
        return sys.getrefcount(self.inner) > 1 + 1

    def let_go(self):
        """Nothing was shown of it."""


class AnyEntry(UnshownEntry):
    """A receive from anybody until it has been waited for."""

    def __init__(self, group, tensors, work, tag):
        super().__init__(group, work, [rank for rank in range(group.size()) if rank != group.rank()])
        self.tensors, self.tag = tensors, tag

    def wait(self, *timeout):
        guest = library.guest
        result = super().wait(*timeout)
        # gloo alone receives from anybody, and it has tags
        comm = groups.pair_of(self.group, self.inner._source_rank(), self.group.rank(), self.tag)
        if comm:
            shape = forms.FORMS["recv_"]({"tensors": self.tensors}, 0, 0)
            call = library.new_call(comm, shape.kind)
            call.dtype, call.elem_count = shape.dtype, shape.count
            if guest.call_post(ctypes.byref(call)) != 1:
                raise RuntimeError("ddprove: a fault asks for another number of receives, which one from any source, "
                                   "that has come, cannot be given")
            device.finish(call, shape.where)
        return result


def _watch_method(name):
    """Python's way into the process group: what it asks for is known here, and that Python will wait."""
    original = getattr(ProcessGroup, name)

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        before = getattr(_local, "depth", 0), getattr(_local, "redop", None), getattr(_local, "made", None)
        redop = None
        for value in (*args, *kwargs.values()):
            value = getattr(value, "reduceOp", value)
            if isinstance(value, (ReduceOp, ReduceOp.RedOpType)):
                redop = value
        if redop is None and ("reduce" in name):
            redop = ReduceOp.SUM
        _local.depth, _local.redop, _local.made = 1, redop, []
        try:
            return original(self, *args, **kwargs)
        finally:
            _local.depth, _local.redop, _local.made = before

    setattr(ProcessGroup, name, method)


def _watch_wait():
    global _wait
    _wait = Work.wait

    @functools.wraps(_wait)
    def wait(self, *args, **kwargs):
        entry = _pending.get(id(self)) or _over.get(self)
        return _wait(self, *args, **kwargs) if entry is None else entry.wait(*args, *kwargs.values())

    Work.wait = wait


def install():
    """Once, before the program makes its first group."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    operators = torch.library.Library("c10d", "IMPL")
    _keep.append(operators)
    for name in forms.FORMS:
        if hasattr(torch.ops.c10d, name):
            operators.impl(name, Kernel(name, below).__call__, "BackendSelect", with_keyset=True)
    for name in _METHODS:
        if hasattr(dist.ProcessGroup, name):
            _watch_method(name)
    operators.impl("recv_any_source_", AnySource(below).__call__, "BackendSelect", with_keyset=True)
    _watch_wait()
