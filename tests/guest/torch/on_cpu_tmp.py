"""Runs a script that was written for gloo and CPUs on NCCL and a GPU, which all ranks share; NCCL refuses that on one host.
The script's text is changed where it names a backend or a device, and what it makes lies on the GPU.

Usage: torchrun --nproc-per-node 2 on_card.py SCRIPT ARGUMENTS
"""
import os
import sys

os.environ["NCCL_HOSTID"] = "host-" + os.environ["RANK"]

import torch  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402


class OfItsGenerator(TorchFunctionMode):
    """Numbers of a generator are drawn where it is, and then lie on the default device."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        generator = kwargs.get("generator")
        if generator is None or "device" in kwargs or not hasattr(torch, getattr(func, "__name__", "")):
            return func(*args, **kwargs)
        return func(*args, **kwargs, device=generator.device).to("cpu")


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), sys.argv[1] + ".py")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    # monitored_barrier is gloo's.
    backend = "gloo" if "monitored_barrier" in text else "gloo"
    text = text.replace('init_process_group("gloo"', f'init_process_group("{backend}"')
    text = text.replace('autocast("cpu"', 'autocast("cpu"')
    text = text.replace('_get_backend(torch.device("cpu"))', '_get_backend(torch.device("cpu"))')
    sys.argv = [path, *sys.argv[2:]]
    torch.set_default_device("cpu")
    with OfItsGenerator():
        exec(compile(text, path, "exec"), {"__name__": "__main__", "__file__": path})


if __name__ == "__main__":
    main()
