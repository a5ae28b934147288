"""Optimizers: a step of the job ends with the step of the first one that was seen; before and after it the model is
shown.

Other modules may ask to be told: on_step(before, after) are called with the optimizer."""
import ctypes
import weakref

import torch

from ddprove_torch import averaged, ddp, forms, host, library, nested, places

_before, _after = [], []
_steps = 0
_first = None  # a weak reference to the optimizer whose steps count


def on_step(before=None, after=None):
    if before is not None:
        _before.append(before)
    if after is not None:
        _after.append(after)


def _options_of(optimizer, group):
    """What the guest library can work out again; anything else is said to be another optimizer."""
    options = library.Optimizer()
    options.size_bytes = ctypes.sizeof(library.Optimizer)
    numbers = [group.get(key, 0.0) for key in ("lr", "weight_decay", "momentum", "dampening", "eps")]
    if group.get("maximize") or group.get("fused") or group.get("foreach") or group.get("capturable") or \
            not all(isinstance(number, (int, float)) for number in numbers):
        return options
    if type(optimizer) is torch.optim.SGD:
        options.kind, options.is_nesterov = library.SGD, int(group["nesterov"])
        options.momentum, options.dampening = group["momentum"], group["dampening"]
    elif type(optimizer) is torch.optim.AdamW and not group["amsgrad"]:
        options.kind, options.eps = library.ADAMW, group["eps"]
        options.beta1, options.beta2 = group["betas"]
    else:
        return options
    options.lr, options.weight_decay = group["lr"], group["weight_decay"]
    return options


_STATES = (("momentum_buffer", None), ("exp_avg", "exp_avg_sq"))


class Table:
    """The parameters of all DDP modules that this optimizer updates, as the guest library takes them."""

    def __init__(self, optimizer):
        self.optimizer = weakref.ref(optimizer)
        self.rows = []
        self.flags = []  # where it is noted that a buffer has changed
        groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        for number, wrapped in enumerate(ddp.modules()):
            prefix = f"{number}." if len(ddp.modules()) > 1 else ""
            for name, parameter in zip(wrapped.names, wrapped.parameters):
                if forms.address(parameter.detach()) is not None or host.can_copy(parameter):
                    self.rows.append(((prefix + name).encode(), parameter, groups.get(id(parameter))))
        changes = [(number, i) for number, wrapped in enumerate(ddp.modules())
                   for i in range(len(wrapped.buffers.places))]
        self.copies = {}  # (row, what of it) -> its Copy, of what lies on a device
        self.count = len(self.rows) + len(changes)
        self.array = (library.Tensor * max(self.count, 1))()

        for row, (name, parameter, _) in zip(self.array, self.rows):
            row.size_bytes, row.role = ctypes.sizeof(library.Tensor), library.PARAMETER
            row.dtype, row.elem_count, row.name = forms.dtype_number(parameter), parameter.numel(), name

        for row, (number, i) in zip(self.array[len(self.rows):], changes):
            wrapped = ddp.modules()[number]
            prefix = f"{number}." if len(ddp.modules()) > 1 else ""
            row.size_bytes, row.role = ctypes.sizeof(library.Tensor), library.BUFFER
            row.dtype, row.elem_count = library.DTYPES.index("u8"), 1
            row.name = f"change of {prefix}{wrapped.buffers.places[i][0]} between passes".encode()
            self.flags.append(ctypes.addressof(wrapped.buffers.changed) + i)

    def address(self, number, what, tensor):
        """Where the tensor's elements are read: of what lies on a device, in a copy that is under way."""
        if tensor is None or not host.can_copy(tensor):
            return forms.address(tensor)
        copy = self.copies.get((number, what))
        if copy is None or not copy.is_of(tensor):
            copy = self.copies[number, what] = host.Copy(tensor)
        copy.fetch()
        return copy.address()

    def wait(self):
        """For the copies."""
        for device in {copy.tensor.device for copy in self.copies.values()}:
            host.wait(device)

    def show_updated(self):
        """Tell of the model as it is now; faults may change the parameters."""
        array, count = self.fill()
        parameters = [copy for (_, what), copy in self.copies.items() if what == "data"]
        is_faulty = library.guest.wants_at("optimizer/updated")
        for copy in parameters if is_faulty else ():
            copy.remember()
        library.guest.updated(array, count)
        for copy in parameters if is_faulty else ():
            copy.give_back()

    def fill(self):
        """The addresses as they are now, of parameters and of the optimizer's state."""
        states = self.optimizer().state
        for number, (row, (_, parameter, group)) in enumerate(zip(self.array, self.rows)):
            row.data = self.address(number, "data", parameter.detach())
            state = states.get(parameter) if group is not None else None
            for i in range(2):
                found = [state[keys[i]] for keys in _STATES if keys[i] is not None and
                         isinstance(state.get(keys[i]), torch.Tensor)] if state else None
                row.state[i] = self.address(number, i, found[0]) if found else None
        for row, place in zip(self.array[len(self.rows):], self.flags):
            row.data = place
        self.wait()
        return self.array, self.count

    def hide(self):
        """Nothing of it is shown."""
        for row in self.array:
            row.data = row.state[0] = row.state[1] = None
        return self.array, self.count

    def fill_all(self):
        """With what the update is made of."""
        self.fill()
        self.options = options = {}  # the array points to them
        optimizer = self.optimizer()
        for number, (row, (_, parameter, group)) in enumerate(zip(self.array, self.rows)):
            if group is None:
                continue
            row.gradient = self.address(number, "gradient", parameter.grad)
            state = optimizer.state.get(parameter, {})
            row.update_count = int(state.get("step", _steps if state else 0))
            if id(group) not in options:
                options[id(group)] = _options_of(optimizer, group)
            row.optimizer = ctypes.pointer(options[id(group)])
        self.wait()
        return self.array, self.count


_tables = weakref.WeakKeyDictionary()


def _table_of(optimizer):
    """Made again whenever the modules or the groups are others."""
    key = (tuple(id(w) for w in ddp.modules()), sum(len(group["params"]) for group in optimizer.param_groups))
    table, made_for = _tables.get(optimizer, (None, None))
    if made_for != key:
        table = Table(optimizer)
        _tables[optimizer] = (table, key)
    return table


def _is_counted(optimizer):
    global _first
    if _first is None or _first() is None:
        _first = weakref.ref(optimizer)
    return _first() is optimizer


def _begin(optimizer, _args, _kwargs):
    nested.begin(optimizer)
    if not library.guest.is_watched() or nested.is_inner(optimizer):
        return
    library.guest.phase_is("optimizer")
    for callback in _before:
        callback(optimizer)
    if library.guest.asks_update_begin() and ddp.modules() and not averaged.is_used():
        library.guest.update_begin(*_table_of(optimizer).fill_all())


def _end_step():
    global _steps
    _steps += 1
    ddp.step_ended()
    library.guest.step(_steps)
    library.guest.phase_is("data")


def _end_shadow_step():
    """A rank that has no more samples (join) has done its part of the others' step. That was no update of its model, which
    is not shown; but its next one is the one that the others make then."""
    optimizer = _first() if _first is not None else None
    if library.guest.asks_updated() and ddp.modules() and not averaged.is_used() and optimizer is not None:
        library.guest.updated(*_table_of(optimizer).hide())
    _end_step()


def _end(optimizer, _args, _kwargs):
    is_inner = nested.is_inner(optimizer)
    nested.end(optimizer)
    if not library.guest.is_watched() or is_inner:
        return
    if ddp.modules():
        places.pass_buffers()
    if library.guest.asks_updated() and ddp.modules() and not averaged.is_used():
        for wrapped in ddp.modules():
            wrapped.buffers.look()
        _table_of(optimizer).show_updated()
        for wrapped in ddp.modules():
            wrapped.buffers.told()
    for callback in _after:
        callback(optimizer)
    if _is_counted(optimizer):
        _end_step()


def install():
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_begin)
    register_optimizer_step_post_hook(_end)
    ddp.on_shadow_step(_end_shadow_step)
    ddp.on_wrap(lambda _module: averaged.look())
    ddp.on_wrap(lambda _module: library.guest.step(_steps) if _steps == 0 else None)
