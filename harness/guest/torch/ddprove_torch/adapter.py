"""Shows a PyTorch program to ddprove, without a change to it.

`import torch` calls `autoload` through the entry point `torch.backends`. In a process that nobody watches it does nothing
and imports nothing."""
import os


def autoload():
    """Called at the end of `import torch`. An adapter never breaks the program: what goes wrong here is said, and the
    program runs as if it were not watched."""
    if not os.environ.get("DDPROVE_ARENA"):
        return
    import sys

    try:
        from ddprove_torch import library

        if library.load() is None:
            return
        from ddprove_torch import backend, compiled, data, ddp, files, groups, optimizer, places, scaling

        for module in (compiled, groups, backend, ddp, optimizer, places, data, files, scaling):
            module.install()
    except Exception as error:  # pylint: disable=broad-except
        print(f"ddprove: PyTorch's calls are not seen: {type(error).__name__}: {error}", file=sys.stderr)
