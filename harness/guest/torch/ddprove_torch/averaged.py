"""PyTorch's model averagers: between two averages of post-local SGD replicas differ on purpose."""
import functools
import sys

_is_used = False


def is_used():
    """Whether the program has made one."""
    return _is_used


def look():
    """To be called when a module is wrapped: what averages is imported before that, and made behind it."""
    averagers = sys.modules.get("torch.distributed.algorithms.model_averaging.averagers")
    if averagers is None or hasattr(averagers.ModelAverager, "ddprove_init"):
        return
    init = averagers.ModelAverager.__init__

    @functools.wraps(init)
    def construct(self, *args, **kwargs):
        global _is_used
        _is_used = True
        init(self, *args, **kwargs)

    averagers.ModelAverager.ddprove_init = init
    averagers.ModelAverager.__init__ = construct
