"""What a script does beside passes and updates, on every step: samplers, clipping, checkpoints, optimizers of others.

Taken down as plain facts; what they mean is said in equivalence.py, which sees all ranks."""
import hashlib
import os

import torch
from torch.utils.data.distributed import DistributedSampler

from . import states, store
from .keep import guard


def digest(named):
    """A number for named tensors' bits."""
    sums = hashlib.blake2b(digest_size=8)
    for name, tensor in named:
        sums.update(name.encode() + store.bytes_of(tensor))
    return sums.hexdigest()


def number_of(value):
    """A number of another library's, such as NumPy's, as the float that a clipping makes of it."""
    return float(value) if hasattr(value, "__float__") and not isinstance(value, (torch.Tensor, *store.PLAIN)) else value


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

    def end_step(self, is_kept):
        """What rank 0 has is compared with the buffers of another one that saves; of steps that nobody keeps it is not
        read, which would cost each of them as much as the buffers are large."""
        is_read = is_kept and self.keeper.rank == 0 and self.keeper.world > 1
        self.buffers.append(digest(self.keeper.buffers().items()) if is_read else None)

    def save(self, value, path):
        dicts = list(states.state_dicts(value))
        models = [states.Model(model.ddp) for model in self.keeper.models] if dicts else []
        found = [(where, states.find(state, models)) for where, state in dicts] if models else []
        found = [(where, one) for where, one in found if one is not None and (one.is_exact or one.is_own())]
        if not found:
            return
        back, buffers = self.read(path), self.keeper.buffers() if self.keeper.rank else {}
        for where, one in found:
            is_own = one.is_own()
            self.saves.append({
                "step": self.keeper.step, "rank": self.keeper.rank, "model": models.index(one.model), "where": where,
                "path": os.path.realpath(path) if isinstance(path, (str, os.PathLike)) else None, "prefix": one.count,
                "own": is_own, "missing": one.missing, "unexpected": [] if one.is_average else one.unexpected,
                "dtypes": one.other_types() if is_own else [], "resumes": states.resumes(value),
                "differs": one.swapped() if is_own else [],
                "not_read_back": self.read_back(back, where, one.state),
                "buffers": digest(buffers.items()) if buffers and is_own else None, "buffer_names": sorted(buffers)})

    def read(self, path):
        """{where: state dict} of a file; None: it cannot be read back."""
        if not isinstance(path, (str, os.PathLike)):
            return None
        try:
            return dict(states.state_dicts(store.LOAD(path, map_location="cpu", weights_only=True)))
        except Exception:  # whatever the file holds beside, the states are not judged then
            return None

    def read_back(self, back, where, state):
        """Names whose bits the file does not hold as they were saved; None: it is not known."""
        return None if back is None else sorted(
            key for key, tensor in state.items() if isinstance(tensor, torch.Tensor)
            and tensor.layout == torch.strided and not store.same_bits(tensor, back.get(where, {}).get(key)))

    def load(self, module, state, strict, result):
        """A state dict was loaded into a wrapped model, or refused: result is then the error."""
        for number, model in enumerate(self.keeper.models):
            if module is not model.ddp and module is not model.ddp.module:
                continue
            wanted = 1 if module is model.ddp else 0
            refused = isinstance(result, Exception)
            self.loads.append({"step": self.keeper.step, "model": number, "strict": strict, "wanted": wanted,
                               "prefix": states.prefix_of(state, states.live_of(model.ddp.module)),
                               "refused": str(result).split("\n", maxsplit=1)[0] if refused else None,
                               "missing": [] if refused else list(result.missing_keys),
                               "unexpected": [] if refused else list(result.unexpected_keys)})

    def clip(self, name, args, kwargs, parameters):
        """Gradients are clipped or scaled by a known function."""
        self.keeper.clip(name, {"args": [store.encode(number_of(value)) for value in args], "kwargs": store.encode(
            {key: number_of(value) for key, value in kwargs.items()})}, parameters)

    def unscale(self, optimizer):
        self.keeper.clip("unscale_", {}, [p for group in optimizer.param_groups for p in group["params"]])

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
            guard(usage.keeper, usage.clip, name, args, kwargs, held)
            return first(held, *args, **kwargs)

        clip.first = first
        setattr(clip_grad, name, clip)
        setattr(torch.nn.utils, name, clip)

    watch("clip_grad_norm_")
    watch("clip_grad_value_")
    first_unscale = torch.amp.GradScaler.unscale_

    def unscale(self, optimizer):
        guard(usage.keeper, usage.unscale, optimizer)
        return first_unscale(self, optimizer)

    torch.amp.GradScaler.unscale_ = unscale


def install_files(usage):
    first_save, first_load = torch.save, torch.nn.Module.load_state_dict

    def save(obj, f, *args, **kwargs):
        first_save(obj, f, *args, **kwargs)
        if not usage.keeper.is_playing:
            guard(usage.keeper, usage.save, obj, f)

    def load_state_dict(self, state_dict, strict=True, *args, **kwargs):
        try:
            result = first_load(self, state_dict, strict, *args, **kwargs)
        except RuntimeError as error:
            if not usage.keeper.is_playing:
                guard(usage.keeper, usage.load, self, state_dict, strict, error)
            raise
        if not usage.keeper.is_playing:
            guard(usage.keeper, usage.load, self, state_dict, strict, result)
        return result

    torch.save, torch.nn.Module.load_state_dict = save, load_state_dict


def install(usage):
    first_iter = DistributedSampler.__iter__

    def iterate(self):
        guard(usage.keeper, usage.sampler, self)
        return first_iter(self)

    DistributedSampler.__iter__ = iterate
    install_clips(usage)
    install_files(usage)
