"""DistributedDataParallel: which modules there are, what their buckets hold, where a step is.

Other modules may ask to be told: on_wrap(callback) is called with each DDP module after its construction, on_training
before a pass in which the ranks will meet."""
import functools
import threading
import weakref

import torch
from torch import distributed as dist

from ddprove_torch import buffers, library
from ddprove_torch.ours import guarded

_callbacks = []
_training_callbacks = []
_modules = []  # weak references to Wrapped, in the order of construction
_assignment = []  # the last computed, [[index of a parameter]] of each bucket
_local = threading.local()  # .hooked: the bucket that a communication hook of the user's is about, in a list; taken out by
#                            its first call
_shadow_callbacks = []
_has_matched = False  # since the pass of such a rank began
_matching = []  # the module for which a rank that has no more samples makes the sums of the others


def on_wrap(callback):
    _callbacks.append(callback)


def on_training(callback):
    """Called without arguments, before each pass that no rank can make for itself alone."""
    _training_callbacks.append(callback)


def on_shadow_step(callback):
    """Called without arguments when a rank without samples has done its part of a step of the others (join)."""
    _shadow_callbacks.append(callback)


class Wrapped:
    """What is known of a DDP module."""

    count = 0  # made so far

    def __init__(self, module, buckets):
        self.number, Wrapped.count = Wrapped.count, Wrapped.count + 1
        self.module = weakref.ref(module)
        names = {id(p): name for name, p in module.module.named_parameters()}
        self.parameters = [p for p in module.module.parameters()
                           if p.requires_grad and names.get(id(p)) not in module.parameters_to_ignore]
        self.names = [names[id(p)] for p in self.parameters]
        self.set_buckets(buckets)
        self.is_everywhere = module.process_group.size() == dist.get_world_size()
        self.buffers = buffers.Buffers(module.module)
        self.order = None  # of a rebuild under way: what rank 0 has sent
        self.next = 0  # bucket to be reduced next
        self.is_delaying = bool(module.static_graph)
        self.allows_unused = bool(module.static_graph or module.find_unused_parameters)
        self.faulty = []  # (name, parameter) of those that a fault waits for
        self.ready = set()  # parameters whose gradient has come since the pass went forward
        self.is_due = False  # a pass went forward whose gradients are to be reduced
        self.nodes = [self._watched_node(i, parameter) for i, parameter in enumerate(self.parameters)]

    def _watched_node(self, index, parameter):
        """Where the parameter's gradients are added up: the reducer counts it there, also if what comes is no gradient,
        as of an operator that has none for it."""
        add = self.ready.add
        with torch.enable_grad():
            node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
        node.register_hook(lambda *_gradients: add(index))
        return node

    def goes_forward(self, is_synced):
        """Like the reducer, which takes what comes from here on, in however many backward passes, and refuses if the
        last pass has not been completed."""
        if self.is_begun():
            self.tell_pass()
        if is_synced:
            self.ready.clear()
            self.is_due = True

    def is_begun(self):
        """A pass goes back, or has gone back in part. One that did not come to this module says nothing of it."""
        return self.is_due and 0 < len(self.ready) < len(self.names)

    def goes_back(self, is_failed):
        """A backward pass has ended. What is missing may come in another one."""
        if self.is_due and len(self.ready) == len(self.names):
            self.tell_pass()
        elif is_failed and self.ready:
            self.is_due = False

    def tell_pass(self):
        """It is complete, or will not be."""
        self.is_due = False
        unused = [name for i, name in enumerate(self.names) if i not in self.ready]
        library.guest.unused(self.number, *library.names_of(unused), self.allows_unused)

    def set_buckets(self, buckets):
        """buckets: [[index of a parameter]], in the order in which they are reduced."""
        self.buckets = buckets
        self.counts = [sum(self.parameters[i].numel() for i in bucket) for bucket in buckets]

    def names_of(self, bucket):
        return [self.names[i] for i in self.buckets[bucket]]

    def tell_buckets(self):
        """What they hold from now on."""
        for bucket in range(len(self.buckets) if len(self.names) <= library.NAMES_MAX else 0):
            library.guest.bucket(self.number, bucket, *library.names_of(self.names_of(bucket)))


def modules():
    """The Wrapped that live."""
    for wrapped in _modules:
        if wrapped.module() is None:
            _modules[:] = [w for w in _modules if w.module() is not None]
            break
    return _modules


def replicated():
    """Those that all ranks have; of one that a group of some ranks has, the others know nothing."""
    return [wrapped for wrapped in modules() if wrapped.is_everywhere]


def delays_sums():
    """Some reducer posts its sums after the backward pass: the first pass of a static graph."""
    return any(w.is_delaying for w in modules())


def is_matching():
    """A rank that has no more samples makes the sums of the others."""
    return bool(_matching)


def bucket_of(shape, task):
    """Whose bucket's sum this is, as the numbers of the module and of the bucket; None: it is none, or not known."""
    if getattr(_local, "hooked", None) is not None:
        # What a hook goes on with when its first call is done it posts here or in another thread, as it comes.
        return _local.hooked.pop() if _local.hooked else None
    if (task is None and not _matching) or shape.target is None or not shape.target.is_floating_point():
        return None
    for wrapped in [w for w in modules() if not _matching or w.module() is _matching[-1]]:
        counts = wrapped.counts
        if wrapped.next < len(counts) and counts[wrapped.next] == shape.count:
            wrapped.next += 1
            return wrapped.number, wrapped.next - 1
    return None


def note_done(shape):
    """A call that C++ waits for is done. Before its second pass, DDP has rank 0 tell all which parameters, in the order
    in which their gradients come, are in which bucket: their numbers and how many buckets, then the buckets' sizes."""
    if shape.kind != "broadcast" or shape.target is None or shape.target.dtype != torch.int32:
        return
    values = shape.target.tolist()
    for wrapped in modules():
        if wrapped.order is None and len(values) == len(wrapped.parameters) + 1 and \
                sorted(values[:-1]) == list(range(len(wrapped.parameters))):
            wrapped.order = values[:-1]
            return
        if wrapped.order is not None and sum(values) == len(wrapped.order):
            order, wrapped.order, buckets = wrapped.order, None, []
            for size in values:
                buckets.append(order[:size])
                order = order[size:]
            wrapped.set_buckets(buckets)
            wrapped.tell_buckets()
            return


def _watch_construction(dist, DDP):
    assign, init = dist._compute_bucket_assignment_by_size, DDP.__init__

    @functools.wraps(assign)
    def compute(*args, **kwargs):
        result = assign(*args, **kwargs)
        _assignment[:] = [list(bucket) for bucket in result[0]]
        return result

    @guarded("modules of DistributedDataParallel")
    def wrapped(module):
        _modules.append(Wrapped(module, list(reversed(_assignment))))
        _modules[-1].tell_buckets()
        for callback in _callbacks:
            callback(module)

    @functools.wraps(init)
    def construct(self, *args, **kwargs):
        del _assignment[:]
        init(self, *args, **kwargs)
        wrapped(self)

    dist._compute_bucket_assignment_by_size = compute
    DDP.__init__ = construct


def _meet():
    for callback in _training_callbacks:
        callback()


@guarded("passes")
def _begin_forward(module):
    library.guest.phase_is("forward")
    is_enabled = torch.is_grad_enabled()
    if is_enabled and (module.will_sync_module_buffers() or module._join_config.enable):
        _meet()
    for wrapped in [wrapped for wrapped in modules() if wrapped.module() is module]:
        wrapped.next = 0
        if is_enabled:
            wrapped.goes_forward(module.require_backward_grad_sync)
        wrapped.buffers.look()


@guarded("passes")
def _end_forward(module):
    for wrapped in modules():
        if wrapped.module() is module:
            wrapped.buffers.keep()


@guarded("passes")
def _begin_backward():
    library.guest.phase_is("backward")
    if not modules() or any(wrapped.is_due for wrapped in modules()):
        _meet()


@guarded("passes")
def _end_backward(is_failed):
    for wrapped in modules():
        wrapped.goes_back(is_failed)


def _watch_passes(DDP):
    forward, backward = DDP.forward, torch.autograd.backward

    @functools.wraps(forward)
    def forward_seen(self, *args, **kwargs):
        _begin_forward(self)
        result = forward(self, *args, **kwargs)
        _end_forward(self)
        return result

    @functools.wraps(backward)
    def backward_seen(*args, **kwargs):
        if torch._C._current_graph_task_id() != -1:
            return backward(*args, **kwargs)  # within another one: a checkpoint that plays its part again
        _begin_backward()
        try:
            result = backward(*args, **kwargs)
        except BaseException:
            _end_backward(True)
            raise
        _end_backward(False)
        return result

    DDP.forward = forward_seen
    torch.autograd.backward = backward_seen


def tell_left(optimizer):
    """An optimizer makes its step: of what it updates, no more gradients come."""
    for wrapped in modules():
        if wrapped.is_begun():
            updated = {id(p) for group in optimizer.param_groups for p in group["params"]}
            if any(i not in wrapped.ready and id(p) in updated for i, p in enumerate(wrapped.parameters)):
                wrapped.tell_pass()


def _watch_join(DDP):
    """A step of a rank that has no more samples ends with the last call by which it follows the others."""
    from torch.nn.parallel.distributed import _DDPJoinHook

    match, follow = DDP._match_all_reduce_for_bwd_pass, _DDPJoinHook.main_hook

    @functools.wraps(match)
    def matched(self):
        global _has_matched
        _has_matched = True
        for wrapped in modules():
            if wrapped.module() is self:
                wrapped.next = 0
        _matching.append(self)
        try:
            return match(self)
        finally:
            _matching.pop()

    @functools.wraps(follow)
    def followed(self):
        global _has_matched
        _has_matched = False
        follow(self)
        for callback in _shadow_callbacks if _has_matched else ():
            callback()

    DDP._match_all_reduce_for_bwd_pass = matched
    _DDPJoinHook.main_hook = followed


def _watch_hooks(DDP):
    """The user's hook stays the one that is called; which bucket it is about is noted around it."""
    register = DDP.register_comm_hook

    @functools.wraps(register)
    def register_comm_hook(self, state, hook):
        @functools.wraps(hook)
        def noted(state, bucket):
            numbers = [wrapped.number for wrapped in modules() if wrapped.module() is self]
            _local.hooked = [(numbers[0], bucket.index())] if numbers else []
            try:
                return hook(state, bucket)
            finally:
                _local.hooked = None

        return register(self, state, noted)

    DDP.register_comm_hook = register_comm_hook


def step_ended():
    """An optimizer has made its step."""
    for wrapped in modules():
        wrapped.is_delaying = False
        wrapped.next = 0


def install():
    import torch.distributed as dist

    if not dist.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel as DDP

    _watch_construction(dist, DDP)
    _watch_passes(DDP)
    _watch_hooks(DDP)
    _watch_join(DDP)
