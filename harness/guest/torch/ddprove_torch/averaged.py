"""PyTorch's model averagers: between two averages of post-local SGD replicas differ on purpose."""
import functools
import sys

from .ours import guarded

_is_used = False


def is_used():
    """Whether the program has made one."""
    return _is_used


def _suppose():
    """What cannot be watched may be used."""
    global _is_used
    _is_used = True


@guarded("model averagers", otherwise=_suppose)
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
