"""State dicts that are saved: whose each is, and how it names what it holds.

`state_dict()` hands out the model's own memory, so a dict that shares it is that model's. One that shares nothing may be
a copy of it, as `{k: v.cpu() ...}` makes one on a GPU. It may as well be an average of the model, its state at an earlier
time, or another model of the same shape; names alone do not tell. So a copy is taken for this model's if it has its bits
as they are now, and no other module holds them."""
import gc

import torch

from . import store

PREFIX = "module."
AVERAGED = "n_averaged"  # AveragedModel's own, beside the names of its copy


def prefix_of(keys, names):
    """How often `module.` stands before the model's names in a state dict's keys; None: these are not its keys."""
    best = None
    for count in range(4):
        matched = sum(PREFIX * count + name in keys for name in names)
        if matched * 2 > len(names) and (best is None or matched > best[1]):
            best = (count, matched)
    return None if best is None else best[0]


def state_dicts(value, path="", depth=2):
    """The state dicts in what is saved: [(where, dict)]."""
    if not isinstance(value, dict):
        return
    if value and all(isinstance(key, str) for key in value) and any(
            isinstance(item, torch.Tensor) for item in value.values()):
        yield path, value
    elif depth:
        for key, item in value.items():
            yield from state_dicts(item, f"{path}[{key!r}]", depth - 1)


def resumes(value, depth=3):
    """Whether an optimizer's state is among what is saved: it is to be trained on with."""
    if isinstance(value, dict):
        if "param_groups" in value and "state" in value:
            return True
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return False
    return depth > 0 and any(resumes(item, depth - 1) for item in value)


def live_of(module):
    """What its state_dict() holds: {name: tensor, or None for what is none}. It is not called: its hooks are the
    script's, and other ranks, for which one may wait, do not save."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        prefix += "." if prefix else ""
        held = {**part._parameters, **{name: buffer for name, buffer in part._buffers.items()
                                       if name not in part._non_persistent_buffers_set}}
        found.update({prefix + name: tensor for name, tensor in held.items() if tensor is not None})
        if type(part).get_extra_state is not torch.nn.Module.get_extra_state:
            found[prefix + "_extra_state"] = None
    return found


def is_plain(module):
    """Whether nothing of the script's makes other names or values of its state."""
    plain = torch.nn.Module
    return not any(part._state_dict_hooks or part._state_dict_pre_hooks or
                   type(part).state_dict is not plain.state_dict or
                   type(part)._save_to_state_dict is not plain._save_to_state_dict for part in module.modules())


def place_of(tensor):
    """Where its elements lie; None: nowhere that could be compared."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or not tensor.numel():
        return None
    try:
        place = tensor.data_ptr()
    except RuntimeError:  # of a type that has no memory of its own
        return None
    return (tensor.device, place) if place else None


def same_bits(one, other):
    """Whether one is what the other is, if need be in a type of its own."""
    if one.shape != other.shape or one.layout != other.layout or one.layout != torch.strided:
        return False
    if one.dtype != other.dtype and one.is_floating_point() and other.is_floating_point():
        other = other.detach().to(one.dtype)
    return store.same_bits(one, other)


class Model:
    """A wrapped module's state as it is now."""

    def __init__(self, ddp):
        self.ddp, self.live, self.is_plain = ddp, live_of(ddp.module), is_plain(ddp.module)
        self.names = {}  # by place; tied ones have several
        for name, tensor in self.live.items():
            self.names.setdefault(place_of(tensor), set()).add(name)
        self.names.pop(None, None)


class Found:
    """A state dict beside a model whose names it has."""

    def __init__(self, state, model, is_shared):
        self.state, self.model, self.is_shared = state, model, is_shared
        self.count = prefix_of(state, model.live)
        self.names = {PREFIX * (self.count or 0) + name: tensor for name, tensor in model.live.items()}
        self.missing, self.unexpected = sorted(set(self.names) - set(state)), sorted(set(state) - set(self.names))
        self.is_average = not is_shared and self.unexpected == [AVERAGED]
        self.is_exact = not self.missing and (not self.unexpected or self.is_average)
        self.pairs = [(key, state[key], tensor) for key, tensor in self.names.items()
                      if isinstance(tensor, torch.Tensor) and isinstance(state.get(key), torch.Tensor)]
        self._is_own = None

    def is_model(self):
        """Whether the model may be meant. Where the script makes the names, it must have them all."""
        return self.count is not None and (self.is_exact or self.model.is_plain)

    def is_doubtful(self):
        """Whether something is wrong if this is the model's own state."""
        return self.count > 1 or not self.is_exact

    def is_own(self):
        """Whether it is this model's state as it is now, and not one that only looks like it."""
        if self._is_own is None:
            others = [pair for pair in self.pairs if place_of(pair[1]) not in self.model.names]
            self._is_own = bool(self.pairs) and not self.is_average and all(
                same_bits(mine, live) for _, mine, live in others) and not (
                self.is_named_by_others() if self.is_shared else is_held([mine for _, mine, _ in others]))
        return self._is_own

    def is_named_by_others(self):
        """A module of the script's has the wrapped one under the name `module`, and saves it under that."""
        return self.count > 1 and any(holder._modules.get("module") is self.model.ddp for holder in modules()
                                      if not isinstance(holder, type(self.model.ddp)))

    def swapped(self):
        """Keys under which the model's own memory lies that is another name's."""
        bare = len(PREFIX) * self.count
        return sorted(key for key, mine, live in self.pairs
                      if key[bare:] not in self.model.names.get(place_of(mine), {key[bare:]})
                      and not same_bits(mine, live))

    def other_types(self):
        return sorted(key for key, mine, live in self.pairs if mine.dtype != live.dtype) if self.model.is_plain else []


def modules():
    """All that live in this process, the script's own among them."""
    return [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module) and "_modules" in one.__dict__]


def is_held(tensors):
    """Whether one of these tensors is a module's."""
    places = {place_of(tensor) for tensor in tensors} - {None}
    return any(place_of(tensor) in places for module in modules()
               for held in (module._parameters, module._buffers) for tensor in held.values())


def find(state, models, is_asked=True):
    """The model whose state this is, or looks like: a Found; None if there is none. is_asked: of a copy with the right names it
    is asked too whose bits it has."""
    places = {place_of(tensor) for tensor in state.values()} - {None}
    shares = [len(places & model.names.keys()) for model in models]
    is_shared = any(shares)
    found = [Found(state, model, is_shared) for model, count in zip(models, shares) if count == max(shares)]
    found = [one for one in found if one.is_model()]
    if is_shared:
        return min(found, key=lambda one: len(one.missing) + len(one.unexpected), default=None)
    exact = [one for one in found if one.is_exact]
    own = [one for one in exact or found if (is_asked or one.is_doubtful()) and one.is_own()]
    return (own or exact or [None])[0]
