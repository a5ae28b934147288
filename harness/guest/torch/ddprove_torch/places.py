"""Places in a PyTorch program where faults act, beside its calls: a parameter's gradient, an update, what follows it.

Nothing here is in the way of a rank that no fault waits for."""
import torch

from ddprove_torch import ddp, forms, host, library, store

_left_out = {}  # optimizer -> gradients that an update was not given
_is_installed = False


def _changed(point, name, tensor, part="whole"):
    """The tensor as a fault wants it, or None if it is left alone."""
    copy = tensor.detach().to("cpu", copy=True).contiguous()
    before = copy.clone()
    library.guest.come_to(point, name, copy, part)
    return None if store.same_bits(copy, before) else copy.to(tensor.device)


def _watch_gradients(wrapped):
    """A hook of each parameter that a fault waits for, in front of the script's own and of what is kept for a proof."""
    for name, parameter in zip(wrapped.names, wrapped.parameters):
        if not library.guest.wants_at("backward/grad_ready", name):
            continue
        wrapped.faulty.append((name, parameter))

        def hook(grad, name=name):
            return _changed("backward/grad_ready", name, grad, "what") \
                if forms.address(grad) is not None or host.can_copy(grad) else None

        hook.is_of_ddprove = True
        parameter.register_hook(hook)


def _watch_pass(wrapped):
    """Parameters that a fault keeps out of a pass on this rank: their values are used all the same. The module is
    changed inside of its pass alone, and a copy of it is not."""
    inner, places = wrapped.module().module, []

    def before(module, _args):
        if module is not inner or not wrapped.is_due:
            return
        for name, parameter in wrapped.faulty:
            if library.guest.come_to("backward/grad_ready", name, part="whether")[0] == 0:
                places.extend((part._parameters, key, parameter) for part in inner.modules()
                              for key, held in part._parameters.items() if held is parameter)
        for holder, key, parameter in places:
            holder[key] = parameter.detach()

    def after(module, _args, _out):
        if module is inner:
            for holder, key, parameter in places:
                holder[key] = parameter
            places.clear()

    inner.register_forward_pre_hook(before)
    inner.register_forward_hook(after, always_call=True)


def leave_out(optimizer_):
    """To be called when the update is about to be made. An optimizer does nothing to parameters without a gradient."""
    if library.guest.wants_at("optimizer/pre") and library.guest.come_to("optimizer/pre")[0] == 0:
        parameters = [p for group in optimizer_.param_groups for p in group["params"]]
        _left_out[id(optimizer_)] = [(p, p.grad) for p in parameters]
        for p in parameters:
            p.grad = None


def _give_back(optimizer_, _args, _kwargs):
    for p, grad in _left_out.pop(id(optimizer_), ()):
        p.grad = grad


def pass_buffers():
    """Parameters are come by in the guest library, which is told of them; buffers here."""
    if not library.guest.wants_at("optimizer/updated"):
        return
    for wrapped in ddp.modules():
        for name, buffer in wrapped.module().module.named_buffers():
            if forms.address(buffer) is not None:
                library.guest.come_to("optimizer/updated", name, buffer)
            elif host.can_copy(buffer):
                changed = _changed("optimizer/updated", name, buffer)
                if changed is not None:
                    buffer.copy_(changed)


def _on_wrap(module):
    """Once a module is wrapped, all that watches this process has been loaded: hooks of here come last."""
    global _is_installed
    for wrapped in ddp.modules():
        if wrapped.module() is module:
            _watch_gradients(wrapped)
            if wrapped.faulty:
                _watch_pass(wrapped)
    if not _is_installed:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        _is_installed = True
        register_optimizer_step_post_hook(_give_back)


def install():
    ddp.on_wrap(_on_wrap)
