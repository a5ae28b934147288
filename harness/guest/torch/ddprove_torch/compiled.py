"""torch.compile: what watches a program is not compiled with it, and passes that are compiled are known."""
import functools

import torch

_is_left_out = False


def _leave_out():
    """Dynamo runs this package's functions as they are, as it does PyTorch's own."""
    global _is_left_out
    if not _is_left_out:
        _is_left_out = True
        from torch._dynamo import trace_rules
        trace_rules.add(__package__)


def is_compiled(module):
    """Whether a pass that begins runs compiled code, in the module or around it."""
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    callback = getattr(frames, "get_eval_frame_callback", lambda: None)()
    return callable(callback) or any(
        type(part).__name__ == "OptimizedModule" or getattr(part, "_compiled_call_impl", None) is not None
        for part in module.modules())


def install():
    """Once, whoever asks. Dynamo is imported when the program compiles something, not before."""
    compile_it = getattr(torch, "compile", None)
    if compile_it is None or hasattr(compile_it, "ddprove_first"):
        return

    @functools.wraps(compile_it)
    def compile_seen(*args, **kwargs):
        _leave_out()
        return compile_it(*args, **kwargs)

    compile_seen.ddprove_first = compile_it
    torch.compile = compile_seen
