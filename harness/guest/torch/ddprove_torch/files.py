"""Checkpoints: the keys of what is saved of a wrapped model, and of what is loaded into one."""
import functools

import torch

from ddprove_torch import ddp, library
from ddprove_torch.usage import PREFIX, prefix_of, state_dicts

_is_installed = False


def _models():
    return [wrapped.module() for wrapped in ddp.modules()]


def _edited(keys, edit):
    """A key's new name, as a fault asks for it."""
    if edit == "add_prefix":
        return {key: PREFIX + key for key in keys}
    return {key: key.removeprefix(PREFIX) for key in keys}


def _with_edit(value, found, edit):
    """A copy of what is to be saved, in which the state dicts `found` have other keys."""
    if any(value is state for state in found):
        names = _edited(value, edit)
        return type(value)((names[key], item) for key, item in value.items())
    if isinstance(value, dict):
        copy = value.copy()
        for key, item in value.items():
            if isinstance(item, dict):
                copy[key] = _with_edit(item, found, edit)
        return copy
    return value


def _states_of_models(value):
    """[(state dict, the names that the model itself has)]"""
    found = []
    for model in _models():
        names = list(model.module.state_dict())
        found += [(state, names) for _, state in state_dicts(value) if prefix_of(state, names) is not None]
    return found


def _tell(what, keys, names):
    if len(keys) + len(names) <= library.NAMES_MAX:
        library.guest.keys(what, *library.names_of(keys), *library.names_of(names))


def _watch_files():
    save, load = torch.save, torch.nn.Module.load_state_dict

    @functools.wraps(save)
    def saved(obj, f, *args, **kwargs):
        states = _states_of_models(obj) if library.guest.is_watched() else []
        if not states:
            return save(obj, f, *args, **kwargs)
        library.guest.phase_is("checkpoint")
        times, edit = library.guest.come_to("checkpoint/key")
        if edit != "none":
            obj = _with_edit(obj, [state for state, _ in states], edit)
        if times == 0:
            return None
        for state, names in _states_of_models(obj):
            _tell(library.SAVED, list(state), names)
        return save(obj, f, *args, **kwargs)

    @functools.wraps(load)
    def load_state_dict(self, state_dict, strict=True, *args, **kwargs):
        if library.guest.is_watched() and any(self is model or self is model.module for model in _models()):
            names = [PREFIX + name for name in self.module.state_dict()] if self in _models() \
                else list(self.state_dict())
            _tell(library.LOADED if strict else library.LOADED_PART, list(state_dict), names)
        return load(self, state_dict, strict, *args, **kwargs)

    torch.save, torch.nn.Module.load_state_dict = saved, load_state_dict


def _on_wrap(_module):
    """Around whatever else watches files, which has been loaded by now."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        _watch_files()


def install():
    ddp.on_wrap(_on_wrap)
