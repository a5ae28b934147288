"""Plays kept steps again, in one process on one device: passes, clipping and updates. See Player.

The models and optimizers are copies of this rank's own, so neither the loss nor the script needs to be known. A pass of
rank r is played under the number of another rank: what depends on the rank does not come out again."""
import contextlib
import copy

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.optim import optimizer as optimizers

from . import context, reduction, store
from .keep import own_hooks

COLLECTIVES = [name for name in dir(distributed_c10d) if name.startswith(
    ("all_", "broadcast", "reduce", "barrier", "gather", "scatter", "send", "recv", "isend", "irecv", "batch_isend",
     "monitored_barrier")) and callable(getattr(distributed_c10d, name))]


class NotPlayed(Exception):
    """Why a pass or an update cannot be played again."""


@contextlib.contextmanager
def alone(rank, world):
    """This process is a rank of a job whose other ranks are not there."""
    def refuse(*args, **kwargs):
        raise NotPlayed("it calls a collective")

    fakes = {"get_rank": lambda group=None: rank, "get_world_size": lambda group=None: world,
             "is_initialized": lambda: True, **dict.fromkeys(COLLECTIVES, refuse)}
    saved = [(place, name, getattr(place, name)) for place in (dist, distributed_c10d) for name in fakes
             if hasattr(place, name)]
    try:
        for place, name, _ in saved:
            setattr(place, name, fakes[name])
        yield
    finally:
        for place, name, first in saved:
            setattr(place, name, first)


@contextlib.contextmanager
def unwatched():
    """Nobody who watches optimizers is told of the steps in here."""
    hooks = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
    saved = [dict(one) for one in hooks]
    try:
        for one in hooks:
            one.clear()
        yield
    finally:
        for one, before in zip(hooks, saved, strict=True):
            one.update(before)


class Player:
    def __init__(self, keeper):
        self.keeper, self.world = keeper, keeper.world
        keeper.is_playing = True
        self.modules, self.optimizers, self.scratch = [], {}, reduction.Scratch()
        for model in keeper.models:
            try:
                self.modules.append(copy.deepcopy(model.ddp.module))
            except Exception as error:  # whatever a module's own copying raises: it is said
                self.modules.append(f"the module cannot be copied: {error}")

    def device_of(self, name):
        """Where the live parameter of that name lies; what was kept of it lies in the host's memory."""
        return next((p.device for model in self.keeper.models for own, p in model.parameters() if own == name),
                    torch.device("cpu"))

    def may_vary(self):
        """Whether operators need not repeat: on a GPU some add in the order in which threads come."""
        return any(p.device.type != "cpu" for model in self.keeper.models for _, p in model.parameters())

    def named(self, number):
        module = self.modules[number]
        if isinstance(module, str):
            raise NotPlayed(module)
        prefix = self.keeper.models[number].prefix
        return {prefix + name: p for name, p in module.named_parameters()}, \
               {prefix + name: b for name, b in module.named_buffers()}

    def passes(self, record, attributes=None, as_itself=False):
        """The local gradients of each backward pass of a rank's step: [{name: gradient}]. attributes: for each
        forward pass those that modules are to have; its own if None. as_itself: under the rank's own number. Raises
        NotPlayed."""
        if record["notes"]:
            raise NotPlayed("; ".join(record["notes"]))
        other = record["rank"] if as_itself else (record["rank"] + 1) % self.world
        numbers = sorted({event["model"] for event in record["events"] if event["kind"] == "forward"})
        parameters = {}
        for number in numbers:
            parameters.update(self.named(number)[0])
        for name, p in parameters.items():
            if name not in record["before"] or p.shape != record["before"][name].shape:
                raise NotPlayed(f"{name} was another parameter in that step")
            p.grad = None
            p.requires_grad_(name not in record["frozen"])
            p.data.copy_(record["before"][name])
        own = context.take_generators()
        try:
            with alone(other, self.world):
                return self.play_events(record, parameters, attributes)
        except NotPlayed:
            raise
        except Exception as error:  # a pass that needs what is not there any more
            raise NotPlayed(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error
        finally:
            context.put_generators(own)

    def play_events(self, record, parameters, attributes):
        played, outs, local = [], [], {}

        def arrives(name, grad):
            """It becomes the parameter's, so that it is not copied; but what arrives twice is what came last, as it is
            in what was kept."""
            local[name] = grad.detach().clone() if name in local else None

        hooks = [p.register_hook(lambda grad, name=name: arrives(name, grad))
                 for name, p in parameters.items() if p.requires_grad]
        try:
            for event in record["events"]:
                if event["kind"] == "forward":
                    chosen = event["attributes"] if attributes is None else attributes[len(outs)]
                    outs.append((event, self.forward(event, chosen)))
                    continue
                local.clear()
                for p in parameters.values():
                    p.grad = None
                roots, grads = [], []
                for number in event["calls"]:
                    call, tensors = outs[number]
                    for tensor, grad in zip(tensors, call["out_grads"], strict=True):
                        if grad is not None:
                            roots.append(tensor)
                            grads.append(grad.to(tensor.device))
                if roots:
                    torch.autograd.backward(roots, grads)
                played.append({name: (parameters[name].grad if grad is None else grad).cpu()
                               for name, grad in local.items()})
        finally:
            for hook in hooks:
                hook.remove()
        return played

    def forward(self, call, attributes):
        module = self.modules[call["model"]]
        context.put_attributes(module, attributes)
        for name, buffer in self.named(call["model"])[1].items():
            buffer.data.copy_(call["buffers"][name])
        context.put_generators(call["generators"])
        with context.Modes(call["modes"]):
            out = module(*store.decode(call["args"]), **store.decode(call["kwargs"]))
        return list(store.tensors_of(out))

    def hooked(self, name, grad):
        """A gradient, changed by the hooks that the script gave this parameter."""
        for model in self.keeper.models:
            for own, p in model.parameters():
                if own == name:
                    grad = grad.to(p.device)
                    for hook in own_hooks(p._backward_hooks):
                        changed = hook(grad)
                        grad = grad if changed is None else changed
        return grad.cpu()

    def clip(self, clip, grads):
        """Gradients, clipped as the script did: {name: gradient}."""
        from torch.nn.utils import clip_grad
        held = []
        for name in clip["names"]:
            if name is None or name not in grads:
                raise NotPlayed(f"{clip['name']} was given a tensor that is no parameter of the model")
            if grads[name] is not None:
                grad = grads[name].to(self.device_of(name), copy=True)
                held.append((name, torch.nn.Parameter(torch.empty_like(grad))))
                held[-1][1].grad = grad
        function = getattr(clip_grad, clip["name"])
        getattr(function, "first", function)([p for _, p in held], *map(store.decode, clip["values"]["args"]),
                                             **store.decode(clip["values"]["kwargs"]))
        return {**grads, **{name: p.grad.cpu() for name, p in held}}

    def update(self, record, used):
        """What the optimizer makes of these gradients: (parameters, the
        optimizer with its state). Raises NotPlayed."""
        if record.get("optimizer") is None or "state_after" not in record:
            raise NotPlayed(record.get("update_note", "the step did not end"))
        optimizer, held = self.optimizer(record), {}
        for group, names in zip(optimizer.param_groups, record["optimizer_names"], strict=True):
            for p, name in zip(group["params"], names, strict=True):
                if name is None:
                    raise NotPlayed("it holds parameters of no wrapped model as well")
                if name in record["sparse"]:
                    raise NotPlayed(f"the gradient of {name} is sparse")
                held[name] = p
                p.data.copy_(record["before"][name])
                p.grad = None if used[name] is None else used[name].to(p.device)
        with alone((record["rank"] + 1) % self.world, self.world), unwatched():
            optimizer.load_state_dict(store.decode(record["state_before"]))
            optimizer.step()
        return held, optimizer

    def optimizer(self, record):
        """A copy of the one that made the update: the same for all steps, if what it is made of is in its state."""
        number = record["optimizer"]
        if number in self.optimizers:
            return self.optimizers[number]
        try:
            optimizer = copy.deepcopy(self.keeper.optimizers[number])
        except Exception as error:
            raise NotPlayed(f"the optimizer cannot be copied: {error}") from error
        if type(optimizer).__module__.startswith("torch.optim."):
            self.optimizers[number] = optimizer
        return optimizer
