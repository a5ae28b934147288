"""Optimizers: a step of the job ends with the step of the first one that was seen; before and after it the model is
shown.

An update is what the optimizer makes of the gradients that it finds: the closure that it is given, and the script's
hooks, come before that or behind it (_prepare).

Other modules may ask to be told: on_step(before, after) are called with the optimizer."""
import ctypes
import sys
import weakref

import torch

from ddprove_torch import averaged, ddp, forms, host, library, nested, places
from ddprove_torch.ours import guarded

_before, _after = [], []
_steps = 0
_first = None  # a weak reference to the optimizer whose steps count
_is_prepared = False  # the hook that looks at updates is there
_is_made_up = False  # the step under way is none of the program's
_is_shown = False  # what the update under way has come to was told
_OURS = "ddprove"  # the key of a hook that an optimizer has during a step


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
    numbers += group.get("betas", ())
    if group.get("maximize") or group.get("fused") or group.get("foreach") or group.get("capturable") or \
            not all(isinstance(number, (int, float)) for number in numbers):
        return options
    if type(optimizer) is torch.optim.SGD:
        options.kind, options.is_nesterov = library.SGD, int(group["nesterov"])
        options.momentum, options.dampening = group["momentum"], group["dampening"]
    elif type(optimizer) is torch.optim.AdamW and not group["amsgrad"] and group.get("decoupled_weight_decay", True):
        options.kind, options.eps = library.ADAMW, group["eps"]
        options.beta1, options.beta2 = group["betas"]
    else:
        return options
    options.lr, options.weight_decay = group["lr"], group["weight_decay"]
    return options


_STATES = (("momentum_buffer", None), ("exp_avg", "exp_avg_sq"))


def _count_of(state):
    """Updates that a parameter had. SGD does not count them: its first one is that which finds no momentum, and a
    loaded checkpoint has some."""
    return int(state["step"]) if "step" in state else int(state.get("momentum_buffer") is not None)


class Table:
    """The parameters of all DDP modules that all ranks have, as the guest library takes them."""

    def __init__(self, optimizer):
        self.optimizer = weakref.ref(optimizer)
        self.rows = []
        self.flags = []  # where it is noted that a buffer has changed
        for number, wrapped in enumerate(ddp.replicated()):
            prefix = f"{number}." if len(ddp.replicated()) > 1 else ""
            for name, parameter in zip(wrapped.names, wrapped.parameters):
                if forms.address(parameter.detach()) is not None or host.can_copy(parameter):
                    self.rows.append(((prefix + name).encode(), parameter))
        changes = [(number, i) for number, wrapped in enumerate(ddp.replicated())
                   for i in range(len(wrapped.buffers.places))]
        self.copies = {}  # (row, what of it) -> its Copy, of what lies on a device
        self.count = len(self.rows) + len(changes)
        self.array = (library.Tensor * max(self.count, 1))()

        for row, (name, parameter) in zip(self.array, self.rows):
            row.size_bytes, row.role = ctypes.sizeof(library.Tensor), library.PARAMETER
            row.dtype, row.elem_count, row.name = forms.dtype_number(parameter), parameter.numel(), name

        for row, (number, i) in zip(self.array[len(self.rows):], changes):
            wrapped = ddp.replicated()[number]
            prefix = f"{number}." if len(ddp.replicated()) > 1 else ""
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
        for number, (row, (_, parameter)) in enumerate(zip(self.array, self.rows)):
            row.data = self.address(number, "data", parameter.detach())
            state = states.get(parameter)
            for i in range(2):
                found = [state[keys[i]] for keys in _STATES if keys[i] is not None and
                         _is_like(state.get(keys[i]), parameter)] if state else None
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
        """With what the update is made of. A loaded state dict brings groups of its own."""
        self.fill()
        optimizer = self.optimizer()
        groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        other = library.Optimizer(size_bytes=ctypes.sizeof(library.Optimizer))
        self.options = options = {None: other}  # the array points to them
        for number, (row, (_, parameter)) in enumerate(zip(self.array, self.rows)):
            group = groups.get(id(parameter))
            if group is None:
                row.gradient, row.optimizer = None, None
                continue
            gradient = parameter.grad if _is_like(parameter.grad, parameter) else None
            row.gradient = self.address(number, "gradient", gradient)
            row.update_count = _count_of(optimizer.state.get(parameter, {}))
            # A gradient that is there and cannot be shown, as a sparse one, is not worked with.
            key = id(group) if row.gradient is not None or parameter.grad is None else None
            if key not in options:
                options[key] = _options_of(optimizer, group)
            row.optimizer = ctypes.pointer(options[key])
        self.wait()
        return self.array, self.count


def _is_like(tensor, parameter):
    """It can be read as the parameter is."""
    return isinstance(tensor, torch.Tensor) and tensor.dtype == parameter.dtype and tensor.shape == parameter.shape


_tables = weakref.WeakKeyDictionary()


def _table_of(optimizer):
    """Made again whenever the modules are others."""
    key = tuple(w.number for w in ddp.replicated())
    table, made_for = _tables.get(optimizer, (None, None))
    if made_for != key:
        table = Table(optimizer)
        _tables[optimizer] = (table, key)
    return table


def _is_of_model(optimizer):
    """It updates a DDP module, or copies of its parameters."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    own, shapes = {id(p) for p in parameters}, {p.shape for p in parameters}
    return any(any(id(p) in own for p in wrapped.parameters) or all(p.shape in shapes for p in wrapped.parameters)
               for wrapped in ddp.modules())


def _is_counted(optimizer):
    """The first one counts; where there are DDP modules, the first of these: others are of what a rank has for itself."""
    global _first
    first = _first() if _first is not None else None
    if first is None and (not ddp.modules() or _is_of_model(optimizer)):
        _first = weakref.ref(first := optimizer)
    return first is optimizer


def _is_of_checkpoint():
    """torch.distributed.checkpoint makes the state of an optimizer that has none by a step with gradients of zero."""
    code = getattr(getattr(sys.modules.get("torch.distributed.checkpoint.state_dict"), "_init_optim_state", None),
                   "__code__", None)
    frame = sys._getframe() if code is not None else None
    for _ in range(16):
        if frame is None or frame.f_code is code:
            break
        frame = frame.f_back
    return frame is not None and frame.f_code is code


@guarded("steps")
def _begin(optimizer, _args, _kwargs):
    global _is_made_up, _is_shown
    _is_made_up, _is_shown = _is_of_checkpoint(), False
    if _is_made_up:
        return
    nested.begin(optimizer)
    if not library.guest.is_watched() or nested.is_inner(optimizer):
        return
    _take_hooks_off(optimizer)
    library.guest.phase_is("optimizer")
    ddp.tell_left(optimizer)
    for callback in _before:
        callback(optimizer)


def _are_models_shown():
    return bool(ddp.replicated()) and not averaged.is_used()


def _has_own(hooks):
    """Hooks of the script."""
    return any(not str(getattr(hook, "__module__", None)).startswith(__package__) for hook in hooks.values())


@guarded("updates")
def _prepare(optimizer, args, kwargs):
    """Look at what the update is made of, once it is there: hooks of the script come first, and a closure after them.
    The script's hooks behind the update come after it is looked at again."""
    from torch.optim import optimizer as optimizers

    is_kept = _are_models_shown() and library.guest.asks_update_begin()
    if _is_made_up or nested.is_inner(optimizer) or not library.guest.is_watched() or \
            not (is_kept or library.guest.wants_at("optimizer/pre")):
        return None
    behind = optimizer._optimizer_step_post_hooks
    if is_kept and _has_own(behind):
        behind[_OURS] = _show_early
        behind.move_to_end(_OURS, last=False)
    if not _has_own(optimizers._global_optimizer_pre_hooks) and not _has_own(optimizer._optimizer_step_pre_hooks):
        return _come_to_update(optimizer, args, kwargs)
    optimizer._optimizer_step_pre_hooks[_OURS] = _come_to_update
    return None


def _take_hooks_off(optimizer):
    """At a step's end, or at the next one's begin if it failed."""
    for hooks in (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks):
        hooks.pop(_OURS, None)


@guarded("updates")
def _come_to_update(optimizer, args, kwargs):
    """Nothing comes before the update but a closure. If it is known to be called once, and first, it is waited for."""
    closure = kwargs.get("closure") if len(args) < 2 else args[1]
    if closure is None or type(optimizer) not in (torch.optim.SGD, torch.optim.AdamW):
        _look_at_update(optimizer)
        return None

    def followed():
        loss = closure()
        _look_at_update(optimizer)
        return loss

    return ((args[0], followed) + tuple(args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": followed})


@guarded("updates")
def _look_at_update(optimizer):
    library.guest.phase_is("optimizer")
    if _are_models_shown() and library.guest.asks_update_begin():
        library.guest.update_begin(*_table_of(optimizer).fill_all())
    places.leave_out(optimizer)


@guarded("updates")
def _show(optimizer):
    if ddp.modules():
        places.pass_buffers()
    if _are_models_shown() and library.guest.asks_updated():
        for wrapped in ddp.modules():
            wrapped.buffers.look()
        _table_of(optimizer).show_updated()
        for wrapped in ddp.modules():
            wrapped.buffers.told()


def _show_early(optimizer, _args, _kwargs):
    global _is_shown
    _is_shown = True
    _show(optimizer)


def _end_step():
    global _steps
    _steps += 1
    ddp.step_ended()
    library.guest.step(_steps)
    library.guest.phase_is("data")


@guarded("steps of ranks that follow the others")
def _end_shadow_step():
    """A rank that has no more samples (join) has done its part of the others' step. That was no update of its model, which
    is not shown; but its next one is the one that the others make then."""
    optimizer = _first() if _first is not None else None
    if library.guest.asks_updated() and _are_models_shown() and optimizer is not None:
        library.guest.updated(*_table_of(optimizer).hide())
    _end_step()


@guarded("steps")
def _end(optimizer, _args, _kwargs):
    if _is_made_up:
        return
    is_inner = nested.is_inner(optimizer)
    nested.end(optimizer)
    if not library.guest.is_watched() or is_inner:
        return
    _take_hooks_off(optimizer)
    if not _is_shown:
        _show(optimizer)
    for callback in _after:
        callback(optimizer)
    ddp.tell_left(optimizer)
    if _is_counted(optimizer):
        _end_step()


def _on_wrap(_module):
    """Once a module is wrapped, all that watches this process has been loaded: the hook of here comes last."""
    global _is_prepared, _steps, _first
    averaged.look()
    if not _is_prepared:
        _steps, _first = 0, None  # what a rank has trained before that is its own affair
        library.guest.step(0)
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        _is_prepared = True
        register_optimizer_step_pre_hook(_prepare)


def install():
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_begin)
    register_optimizer_step_post_hook(_end)
    ddp.on_shadow_step(_end_shadow_step)
    ddp.on_wrap(_on_wrap)
