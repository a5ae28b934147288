"""What a script does beside passes and updates, on every step: samplers, clipping, checkpoints, optimizers of others.

Taken down as plain facts; what they mean is said in equivalence.py, which sees all ranks."""
import hashlib
import os

import torch
from torch.utils.data.distributed import DistributedSampler

from . import store

PREFIX = "module."


def digest(named):
    """A number for named tensors' bits."""
    sums = hashlib.blake2b(digest_size=8)
    for name, tensor in named:
        sums.update(name.encode() + store.bytes_of(tensor))
    return sums.hexdigest()


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


class Usage:
    def __init__(self, folder):
        self.folder = folder
        self.keeper = None  # set once it is there
        self.samplers, self.passes, self.saves, self.loads, self.strangers, self.buffers = [], [], [], [], [], []
        self.owned = 0  # steps of optimizers that hold parameters of the wrapped models

    def sampler(self, sampler):
        """A pass over a shard begins."""
        numbers = [i for i, other in enumerate(self.samplers) if other is sampler]
        if not numbers:
            numbers = [len(self.samplers)]
            self.samplers.append(sampler)
        self.passes.append({"sampler": numbers[0], "epoch": sampler.epoch, "shuffle": bool(sampler.shuffle),
                            "seed": sampler.seed, "rank": sampler.rank, "replicas": sampler.num_replicas,
                            "samples": len(sampler.dataset), "is_training": False, "step": self.keeper.step})

    def forward(self, ddp):
        if torch.is_grad_enabled() and ddp.module.training:
            if self.passes:
                self.passes[-1]["is_training"] = True

    def stranger(self, optimizer, parameters, is_after_backward):
        """An optimizer that holds none of the wrapped models' parameters makes a step."""
        shapes = {tuple(p.shape) for group in optimizer.param_groups for p in group["params"]}
        own = {tuple(p.shape) for p in parameters.values()}
        self.strangers.append({"step": self.keeper.step, "after_backward": is_after_backward,
                               "is_copy": own <= shapes, "kind": type(optimizer).__name__})

    def end_step(self, step, buffers):
        self.buffers.append(digest(buffers.items()))

    def live(self):
        """The wrapped models' state, without prefixes: [{name: tensor}]."""
        return [model.ddp.module.state_dict() for model in self.keeper.models]

    def save(self, value, path):
        for where, state in state_dicts(value):
            for number, live in enumerate(self.live()):
                count = prefix_of(state, live)
                if count is None:
                    continue
                names = {PREFIX * count + name: tensor for name, tensor in live.items()}
                both = [key for key in names if key in state]
                self.saves.append({
                    "step": self.keeper.step, "rank": self.keeper.rank, "model": number, "where": where,
                    "path": os.path.realpath(path) if isinstance(path, (str, os.PathLike)) else None, "prefix": count,
                    "missing": sorted(set(names) - set(state)), "unexpected": sorted(set(state) - set(names)),
                    "dtypes": sorted(key for key in both if state[key].dtype != names[key].dtype),
                    "differs": sorted(key for key in both if state[key].dtype == names[key].dtype
                                      and not store.same_bits(state[key], names[key])),
                    "not_read_back": self.read_back(path, where, state),
                    "buffers": digest(self.keeper.buffers().items()),
                    "buffer_names": sorted(self.keeper.buffers())})

    def read_back(self, path, where, state):
        """Names whose bits the file does not hold as they were saved; None: it cannot be read back."""
        if not isinstance(path, (str, os.PathLike)):
            return None
        try:
            found = dict(state_dicts(store.LOAD(path, weights_only=True))).get(where, {})
        except Exception:  # whatever the file holds beside, the state is not judged then
            return None
        return sorted(key for key, tensor in state.items() if isinstance(tensor, torch.Tensor)
                      and not store.same_bits(tensor, found.get(key)))

    def load(self, module, state, strict, result):
        """A state dict was loaded into a wrapped model, or refused: result is then the error's text."""
        for number, model in enumerate(self.keeper.models):
            if module is not model.ddp and module is not model.ddp.module:
                continue
            keys = list(model.ddp.module.state_dict())
            wanted = 1 if module is model.ddp else 0
            refused = isinstance(result, str)
            self.loads.append({"step": self.keeper.step, "model": number, "strict": strict, "wanted": wanted,
                               "prefix": prefix_of(state, keys), "refused": result if refused else None,
                               "missing": [] if refused else list(result.missing_keys),
                               "unexpected": [] if refused else list(result.unexpected_keys)})

    def write(self):
        keeper = self.keeper
        store.write_json(store.usage_path(self.folder, keeper.rank), {
            "schema": 1, "rank": keeper.rank, "world": keeper.world, "steps": keeper.step, "kept": keeper.kept,
            "models": [model.facts() for model in keeper.models], "passes": self.passes, "saves": self.saves,
            "loads": self.loads, "strangers": self.strangers, "buffers": self.buffers, "owned": self.owned,
            "failure": keeper.failure})


def install_clips(usage):
    """Functions that scale gradients are known by name, so that they can be played again."""
    from torch.nn.utils import clip_grad

    def watch(name):
        first = getattr(clip_grad, name)

        def clip(parameters, *args, **kwargs):
            held = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            plain = {key: value for key, value in kwargs.items() if isinstance(value, store.PLAIN)}
            usage.keeper.clip(name, {"args": [store.encode(a) for a in args], "kwargs": store.encode(plain)}, held)
            return first(held, *args, **kwargs)

        clip.first = first
        setattr(clip_grad, name, clip)
        setattr(torch.nn.utils, name, clip)

    watch("clip_grad_norm_")
    watch("clip_grad_value_")
    first_unscale = torch.amp.GradScaler.unscale_

    def unscale(self, optimizer):
        usage.keeper.clip("unscale_", {}, [p for group in optimizer.param_groups for p in group["params"]])
        return first_unscale(self, optimizer)

    torch.amp.GradScaler.unscale_ = unscale


def install_files(usage):
    first_save, first_load = torch.save, torch.nn.Module.load_state_dict

    def save(obj, f, *args, **kwargs):
        first_save(obj, f, *args, **kwargs)
        if not usage.keeper.is_playing:
            usage.save(obj, f)

    def load_state_dict(self, state_dict, strict=True, **kwargs):
        try:
            result = first_load(self, state_dict, strict=strict, **kwargs)
        except RuntimeError as error:
            usage.load(self, state_dict, strict, str(error).splitlines()[0])
            raise
        if not usage.keeper.is_playing:
            usage.load(self, state_dict, strict, result)
        return result

    torch.save, torch.nn.Module.load_state_dict = save, load_state_dict


def install(usage):
    first_iter = DistributedSampler.__iter__

    def iterate(self):
        usage.sampler(self)
        return first_iter(self)

    DistributedSampler.__iter__ = iterate
    install_clips(usage)
    install_files(usage)
