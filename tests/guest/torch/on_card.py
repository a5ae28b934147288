"""Runs a script that was written for gloo and CPUs on NCCL and a GPU, which all ranks share; NCCL refuses that on one host.
The script's text is changed where it names a backend or a device, and what it makes lies on the GPU.

Usage: torchrun --nproc-per-node 2 on_card.py FILE ARGUMENTS
"""
import os
import re
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
        return func(*args, **kwargs, device=generator.device).to(torch.get_default_device())


def main():
    del sys.argv[0]
    path = os.path.abspath(sys.argv[0])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    # What a group is split from is told its device; monitored_barrier is gloo's.
    bound = ', device_id=torch.device("cuda", 0)' if "split_group" in text else ""
    text = text.replace('init_process_group("gloo"', 'init_process_group("nccl"' + bound)
    text = re.sub(r"monitored_barrier\([^\n]*\)", "barrier()", text)
    text = text.replace('autocast("cpu"', 'autocast("cuda"')
    text = text.replace('_get_backend(torch.device("cpu"))', '_get_backend(torch.device("cuda"))')
    torch.cuda.set_device(0)
    torch.set_default_device("cuda")
    with OfItsGenerator():
        exec(compile(text, path, "exec"), {"__name__": "__main__", "__file__": path})


if __name__ == "__main__":
    main()
