"""Keeps what is needed to play the chosen steps of a run again: see Keeper.

Nothing here changes a bit of the training: hooks return nothing, copies are taken of what was there anyway, and no
collective is called. A step ends with an optimizer's step; steps count from 0.
"""
import sys

import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.parallel.distributed import _DDPJoinHook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import averaged, compiled, context, loss, record as files, store


def own_hooks(hooks):
    """The script's own, not those by which it is watched."""
    return [hook for hook in (hooks or {}).values() if not getattr(hook, "is_of_ddprove", False)]


class Model:
    """A wrapped module and the names of its parameters as DDP was given them."""

    def __init__(self, ddp, prefix):
        self.ddp = ddp
        self.prefix = prefix
        self.first = {name: id(p) for name, p in self.named(ddp.module.named_parameters(remove_duplicate=False))}
        self.group = torch.distributed.get_world_size(ddp.process_group)
        self.hold = [p for p in ddp.module.parameters()]  # so that no other parameter gets one of these ids

    def named(self, pairs):
        return [(self.prefix + name, tensor) for name, tensor in pairs]

    def parameters(self):
        return self.named(self.ddp.module.named_parameters())

    def buffers(self):
        return self.named(self.ddp.module.named_buffers())

    def replaced(self):
        """Names whose parameter is not the one that DDP was given."""
        return [name for name, p in self.named(self.ddp.module.named_parameters(remove_duplicate=False))
                if self.first.get(name) != id(p)]

    def buckets(self):
        """[[name]]: which parameters each bucket holds, in the order in which they lie there; None if not known."""
        data = self.ddp._get_ddp_logging_data()
        text = data.get("rebuilt_per_bucket_param_indices") or data.get("initial_per_bucket_param_indices")
        names = [name for name, p in self.parameters() if p.requires_grad and name not in self.ignored()]
        try:
            return [[names[int(i)] for i in part.split()] for part in text.split(",")] if text else None
        except (IndexError, ValueError):
            return None

    def ignored(self):
        return {self.prefix + name for name in getattr(self.ddp, "parameters_to_ignore", ())}

    def facts(self):
        ddp = self.ddp
        hooks = [getattr(hook, "__qualname__", str(hook)) for hook, _ in getattr(ddp, "_comm_hooks", ())]
        return {"prefix": self.prefix, "find_unused": ddp.find_unused_parameters, "static_graph": ddp.static_graph,
                "broadcast_buffers": ddp.broadcast_buffers, "comm_hooks": hooks, "ignored": sorted(self.ignored()),
                "mixed_precision": ddp.mixed_precision is not None,
                "group": self.group}


class Keeper:
    """Takes down the chosen steps of this rank. steps: a set of numbers, or None for all."""

    def __init__(self, folder, steps, usage):
        self.folder, self.steps, self.usage = folder, steps, usage
        self.rank, self.world = None, None
        self.models, self.optimizers = [], []
        self.step, self.record, self.last = 0, None, None
        self.file = None  # of the step that is being kept
        self.hooks = []
        self.is_playing = False  # a replay is under way: nothing is taken down
        self.kept = []
        self.failure = None  # why nothing more is kept

    # --- what a step consists of, in the order in which it happens

    def on_wrap(self, ddp):
        if self.is_playing:
            return
        averaged.look()
        self.rank, self.world = torch.distributed.get_rank(), torch.distributed.get_world_size()
        own = {id(p) for p in ddp.module.parameters()}
        self.models = [model for model in self.models if not any(id(p) in own for p in model.hold)]  # wrapped again
        self.models.append(Model(ddp, f"model{len(self.models)}." if self.models else ""))

    def is_kept(self):
        return not self.is_playing and bool(self.models) and (self.steps is None or self.step in self.steps)

    def parameters(self):
        return {name: p for model in self.models for name, p in model.parameters()}

    def buffers(self):
        return {name: b for model in self.models for name, b in model.buffers()}

    def begin(self):
        """Take down what the step starts from, unless that was done."""
        if self.record is not None or not self.is_kept():
            return self.record is not None
        parameters = self.parameters()
        self.file = files.Writer(store.step_path(self.folder, self.rank, self.step))
        before, changed, last = None, [], self.last  # before: None if it is what the step before left, which is kept
        if last is not None and last["step"] == self.step - 1:
            changed = [name for name, p in parameters.items() if not last["file"].same(p, last["after"].get(name))]
        else:
            last = None
        if last is None or changed:
            before = self.kept_of(parameters)
        self.record = {
            "step": self.step, "rank": self.rank, "before": before, "changed_between": changed,
            "buffers": self.kept_of(self.buffers()),
            "replaced": [name for model in self.models for name in model.replaced()],
            "hooked_behind": [name for name, p in parameters.items()
                              if own_hooks(p._post_accumulate_grad_hooks)],
            "hooked": [name for name, p in parameters.items() if own_hooks(p._backward_hooks)],
            "frozen": [name for name, p in parameters.items() if not p.requires_grad],
            "averaged": averaged.is_used(), "sparse": [], "events": [], "notes": [], "clips": []}
        for name, p in parameters.items():
            if p.requires_grad:
                self.hooks.append(p.register_hook(self.local_hook(name)))
        self.names = {id(p): name for name, p in parameters.items()}
        self.local, self.outputs, self.nodes = {}, [], {}
        return True

    def kept_of(self, named):
        return {name: self.file.keep(tensor) for name, tensor in named.items()}

    def was_before(self, name, parameter):
        """Whether a parameter has the bits with which the step began."""
        before, last = self.record["before"], self.last
        return last["file"].same(parameter, last["after"].get(name)) if before is None else \
            self.file.same(parameter, before.get(name))

    def local_hook(self, name):
        def keep_local(grad):
            if grad.layout != torch.strided:
                self.note(f"the gradient of {name} is sparse: not kept")
                if name not in self.record["sparse"]:
                    self.record["sparse"].append(name)
                return
            self.local[name] = self.file.keep(grad)
        return lambda grad: guard(self, keep_local, grad)

    def fail(self, text):
        self.failure, self.record = text, None
        for hook in self.hooks:
            hook.remove()
        if self.file is not None:
            self.file.drop()
            self.file = None
        print(f"ddprove: nothing more of this run is kept: {text}", file=sys.stderr)

    def note(self, text):
        if self.record is not None and text not in self.record["notes"]:
            self.record["notes"].append(text)

    def before_forward(self, ddp, args, kwargs):
        """A pass of the wrapped module, whose buffers DDP has made equal by now, if it does. Returns what is kept of
        it, or None."""
        self.usage.forward(ddp)
        numbers = [i for i, model in enumerate(self.models) if model.ddp is ddp]
        if not numbers or not torch.is_grad_enabled():
            return None
        if not self.begin():
            return {"kind": "forward", "model": numbers[0], "sync": bool(ddp.require_backward_grad_sync), "is_kept": False}
        call = {"kind": "forward", "model": numbers[0], "sync": bool(ddp.require_backward_grad_sync),
                "joined": bool(ddp._join_config.enable),
                "by_initial": bool(getattr(ddp, "_divide_by_initial_world_size", True)),
                "will_sync_buffers": bool(ddp.will_sync_module_buffers()),
                "buffers": self.kept_of(dict(self.models[numbers[0]].buffers())),
                "generators": context.take_generators(), "modes": context.take_modes(),
                "attributes": context.take_attributes(ddp.module), "args": None, "kwargs": None}
        try:
            call["args"], call["kwargs"] = self.encode(list(args)), self.encode(kwargs)
        except store.NotKept as error:
            self.note(f"{error}: the pass is not played again")
        if compiled.is_compiled(ddp.module):
            self.note("torch.compile makes other operators of a pass: it is not played again")
        return call

    def after_forward(self, call, out):
        if call is None:
            return
        for tensor in store.tensors_of(out):
            if tensor.grad_fn is not None:
                loss.mark(tensor, (call["model"], call["sync"]))
        if self.record is None or "is_kept" in call:
            return
        call["drew"] = context.has_drawn(call["generators"])
        self.watch_outputs(call, out)
        self.record["events"].append(call)

    def watch_outputs(self, call, out):
        call["out_grads"] = []
        for number, tensor in enumerate(store.tensors_of(out)):
            call["out_grads"].append(None)
            if tensor.requires_grad and tensor.grad_fn is not None:
                tensor.register_hook(self.output_hook(call, number))
                self.nodes[(tensor.grad_fn, tensor.output_nr)] = (call, number)

    def output_hook(self, call, number):
        def keep_output(grad):
            if self.record is None:
                return
            if call["out_grads"][number] is not None:
                self.note("an output's gradient arrived twice: the pass is not played again")
            call["out_grads"][number] = self.file.keep(grad)
            self.outputs.append(call)
        return lambda grad: guard(self, keep_output, grad)

    def before_backward(self, tensors):
        """Returns what is kept of a backward pass and which outputs it reaches, or None."""
        if not self.models or not self.is_kept():
            return None
        roots = [(t.grad_fn, t.output_nr) for t in ([tensors] if isinstance(tensors, torch.Tensor) else tensors)
                 if isinstance(t, torch.Tensor) and t.grad_fn is not None]
        parameters = self.parameters()
        nodes = self.nodes if self.record else {}
        reached, past = loss.reach(roots, nodes, {id(p): name for name, p in parameters.items()})
        late = loss.marks_behind(roots, nodes)
        if not reached and not past and not late:
            return None  # another model's
        self.begin()
        if late:
            self.note("a pass of an earlier step goes back in this one, or goes back twice: it is not played again")
        if len(reached) > 1 and loss.are_nested(reached):
            self.note("an output is made of another one, and the loss of both: the pass is not played again")
        arrived = self.record.get("arrived", {})
        event = {"kind": "backward", "past": past, "late": late, "terms": loss.terms_of(roots),
                 "start": {name: self.file.keep(p.grad) for name, p in parameters.items()
                           if not self.file.same(p.grad, arrived.get(name))}}
        self.local, self.outputs = {}, []
        return event, reached

    def after_backward(self, kept):
        if kept is None or self.record is None:
            return
        event, reached = kept
        ends = [self.nodes[edge][0] for edge in reached]  # passes from which the loss is made
        self.look_at_chain([call for call in self.outputs if not any(call is end for end in ends)])
        for edge, (call, number) in self.nodes.items():
            if edge not in reached and any(call is end for end in ends):
                call["out_grads"][number] = None  # it came from inside of the module: the pass makes it again
        self.nodes = {edge: place for edge, place in self.nodes.items() if edge not in reached}
        calls = [e for e in self.record["events"] if e["kind"] == "forward"]
        event["calls"] = [i for i, call in enumerate(calls) if any(call is out for out in self.outputs)]
        event["sync"] = any(calls[i]["sync"] for i in event["calls"]) or any(sync for _, sync in event["late"])
        event["local"] = self.local
        self.record["events"].append(event)
        self.record["arrived"] = self.kept_of({name: p.grad for name, p in self.parameters().items()})
        if event["sync"]:
            self.record["buckets"] = [model.buckets() for model in self.models]

    def look_at_chain(self, inner):
        """inner: passes whose output goes into another pass of this backward pass, as a generator's does into the
        discriminator. Each is played by itself, from what arrived at its output. But what a model has added up of
        several passes, or what arrives at outputs that are made of each other, is not known by its parts."""
        models = [call["model"] for i, call in enumerate(self.outputs) if not any(call is other for other in self.outputs[:i])]
        if not inner:
            return
        if len(set(models)) < len(models):
            self.note("a pass's output goes into another pass of the same model: the passes are not played again")
        for call in inner:
            if loss.are_nested([edge for edge, (other, _) in self.nodes.items() if other is call]):
                self.note("an output is made of another one, and a pass of both: the pass is not played again")

    def clip(self, name, values, parameters):
        """The script clips or scales gradients by a known function."""
        if self.record is not None and not self.is_playing:
            last = [e for e in self.record["events"] if e["kind"] == "backward"]
            self.record["clips"].append({"name": name, "values": values, "after": len(last),
                                         "sync": bool(last) and last[-1]["sync"],
                                         "names": [self.names.get(id(p)) for p in parameters]})

    def before_update(self, optimizer, args, kwargs):
        if self.is_playing or not self.models:
            return
        parameters = self.parameters()
        ids = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not any(id(p) in ids for p in parameters.values()):
            self.usage.stranger(optimizer, parameters, self.record is not None)
            if self.record is not None and "arrived" in self.record and self.usage.strangers[-1]["is_copy"]:
                self.record["updated"], self.record["optimizer"], self.record["used"] = [], None, {}
                self.end_step(optimizer)
            return
        self.usage.owned += 1
        if not self.begin():
            return
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)
        record, arrived = self.record, self.record.get("arrived", {})
        has_closure = bool(args[1:]) or kwargs.get("closure") is not None  # whose passes are still to come
        record["used"] = {} if has_closure else {
            name: self.file.keep(p.grad) for name, p in parameters.items()
            if not self.file.same(p.grad, arrived.get(name))}
        record["updated"] = [name for name, p in parameters.items() if id(p) in ids]
        record["optimizer"] = self.optimizers.index(optimizer)
        record["optimizer_names"] = [[self.names.get(id(p)) for p in group["params"]]
                                     for group in optimizer.param_groups]
        record["moved"] = [name for name, p in parameters.items() if not self.was_before(name, p)]
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            self.note_update("the optimizer has hooks of the script")
        if has_closure:
            self.note_update("the optimizer calls a closure")
            self.note("the optimizer calls a closure, between whose passes it may change parameters: they are not "
                      "played again")
        try:
            record["state_before"] = self.state_before(optimizer)
        except store.NotKept as error:
            self.note_update(str(error))

    def encode(self, value, path="input"):
        return store.encode(value, path, self.file.keep)

    def state_before(self, optimizer):
        """Its state; None if it is what the step before left, which is kept."""
        state, last = optimizer.state_dict(), self.last
        if last is not None and last["step"] == self.step - 1 and last["optimizer"] is optimizer and \
                last["state"] is not None and store.is_code_of(last["state"], state, last["file"].same):
            return None
        return self.encode(state, "optimizer")

    def note_update(self, text):
        """The update cannot be played again."""
        self.record["optimizer"], self.record["update_note"] = None, text

    def after_update(self, optimizer, args, kwargs):
        if self.is_playing or not self.models:
            return
        ids = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if any(id(p) in ids for p in self.parameters().values()):
            self.end_step(optimizer)

    def end_step(self, optimizer):
        record = self.record
        if record is not None:
            record["after"] = self.kept_of(self.parameters())
            if record.get("optimizer") is not None:
                try:
                    record["state_after"] = self.encode(optimizer.state_dict(), "optimizer")
                except store.NotKept as error:
                    self.note_update(str(error))
            self.write(optimizer)
        self.usage.end_step(self.is_kept())
        self.step += 1

    def end_shadow_step(self):
        """The others have made a step, and this rank, which has no more samples (join), sums of zeros."""
        if not self.models:
            return
        if self.record is not None:
            self.write()
        self.usage.end_step(self.is_kept())
        self.step += 1

    def write(self, optimizer=None):
        """The step is over."""
        for hook in self.hooks:
            hook.remove()
        record, file, self.hooks = self.record, self.file, []
        record["models"] = [model.facts() for model in self.models]
        file.finish(record)
        if self.last is not None:
            self.last["file"].close()
        self.last = {"step": record["step"], "after": record.get("after", {}), "file": file,
                     "state": record.get("state_after"), "optimizer": optimizer}
        self.record = self.file = None
        self.kept.append(record["step"])

    def finish(self):
        """The run ends: a step that has begun is kept as far as it came."""
        if self.record is not None and self.record["events"]:
            guard(self, self.write)
        elif self.file is not None:
            self.file.drop()
        self.record = self.file = None


def guard(keeper, call, *args):
    """Whatever goes wrong here must not end the training: from then on nothing is kept, and that is said."""
    try:
        return None if keeper.failure else call(*args)
    except Exception as error:
        keeper.fail(f"{call.__name__}: {type(error).__name__}: {error}")
        return None


def install_join(keeper):
    """A rank that has no more samples goes on counting steps with the others."""
    match, follow = DDP._match_all_reduce_for_bwd_pass, _DDPJoinHook.main_hook
    has_matched = []

    def matched(self):
        has_matched.append(True)
        return match(self)

    def followed(self):
        has_matched.clear()
        follow(self)
        if has_matched:
            guard(keeper, keeper.end_shadow_step)

    DDP._match_all_reduce_for_bwd_pass, _DDPJoinHook.main_hook = matched, followed


def install(keeper):
    """Let the keeper see what this process does with DDP."""
    first_init, first_run, first_backward = DDP.__init__, DDP._run_ddp_forward, torch.autograd.backward

    def init(self, *args, **kwargs):
        first_init(self, *args, **kwargs)
        guard(keeper, keeper.on_wrap, self)

    def run_forward(self, *inputs, **kwargs):
        call = guard(keeper, keeper.before_forward, self, inputs, kwargs)
        out = first_run(self, *inputs, **kwargs)
        guard(keeper, keeper.after_forward, call, out)
        return out

    def backward(tensors, *args, **kwargs):
        if torch._C._current_graph_task_id() != -1:
            return first_backward(tensors, *args, **kwargs)  # within another one: a checkpoint plays its part again
        kept = guard(keeper, keeper.before_backward, tensors)
        result = first_backward(tensors, *args, **kwargs)
        guard(keeper, keeper.after_backward, kept)
        return result

    DDP.__init__, DDP._run_ddp_forward, torch.autograd.backward = init, run_forward, backward
    install_join(keeper)
    register_optimizer_step_pre_hook(lambda *args: guard(keeper, keeper.before_update, *args))
    register_optimizer_step_post_hook(lambda *args: guard(keeper, keeper.after_update, *args))
