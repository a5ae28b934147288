"""Checkpoints: the keys of what is saved of a wrapped model, and of what is loaded into one."""
import functools

import torch

from ddprove_torch import ddp, library, states
from ddprove_torch.ours import guarded
from ddprove_torch.states import PREFIX

WHAT = "checkpoints"
_is_installed = False


def _models():
    return [model for model in (wrapped.module() for wrapped in ddp.modules()) if model is not None]


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
    """[a state dict and its model, as states.find gives them] of those that are a model's own, or have its names."""
    dicts = [state for _, state in states.state_dicts(value)]
    models = [states.Model(model) for model in _models()] if dicts else []
    found = [states.find(state, models, is_asked=False) for state in dicts] if models else []
    return [one for one in found if one is not None and not one.is_average and (not one.is_doubtful() or one.is_own())]


def _tell(what, keys, names):
    if len(keys) + len(names) <= library.NAMES_MAX:
        library.guest.keys(what, *library.names_of(keys), *library.names_of(names))


@guarded(WHAT, otherwise=lambda obj: (obj, True))
def _before_save(obj):
    """What is to be saved, and whether it is."""
    if not isinstance(obj, dict) or not library.guest.is_watched():
        return obj, True
    found = _states_of_models(obj)
    if not found:
        return obj, True
    library.guest.phase_is("checkpoint")
    times, edit = library.guest.come_to("checkpoint/key")
    if edit != "none":
        obj = _with_edit(obj, [one.state for one in found], edit)
        found = _states_of_models(obj)
    for one in found if times else ():
        _tell(library.SAVED, list(one.state), list(one.model.live))
    return obj, times != 0


@guarded(WHAT)
def _loaded(module, state_dict, strict, is_taken):
    """is_taken: PyTorch found all that it looked for, under whatever names, which hooks of the script may change."""
    models = _models()
    if not library.guest.is_watched() or not any(module is model or module is model.module for model in models):
        return
    is_wrapped = any(module is model for model in models)
    names = [PREFIX + name for name in states.live_of(module.module)] if is_wrapped else list(states.live_of(module))
    _tell(library.LOADED if strict else library.LOADED_PART, names if is_taken else list(state_dict), names)


def _watch_files():
    save, load = torch.save, torch.nn.Module.load_state_dict

    @functools.wraps(save)
    def saved(obj, f, *args, **kwargs):
        obj, is_saved = _before_save(obj)
        return save(obj, f, *args, **kwargs) if is_saved else None

    @functools.wraps(load)
    def load_state_dict(self, state_dict, strict=True, *args, **kwargs):
        try:
            result = load(self, state_dict, strict, *args, **kwargs)
        except RuntimeError:
            _loaded(self, state_dict, strict, False)
            raise
        _loaded(self, state_dict, strict, not result.missing_keys)
        return result

    torch.save, torch.nn.Module.load_state_dict = saved, load_state_dict


@guarded(WHAT)
def _on_wrap(_module):
    """Around whatever else watches files, which has been loaded by now."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        _watch_files()


def install():
    ddp.on_wrap(_on_wrap)
