"""What a forward pass depends on beside parameters and inputs: generators, autocast, modes, and the plain attributes
of its modules. Taken down before the pass, and put back before its replay."""
import json
import random
import sys

import torch

DEVICES = ("cpu", "cuda")
GENERATORS = ("torch", "cuda")  # PyTorch's: on the host, and on the GPU, if there is one in use


def take_generators():
    version, numbers, gauss = random.getstate()
    state = {"torch": torch.get_rng_state(), "python": [version, torch.tensor(numbers, device="cpu"), gauss]}
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = [kind, torch.tensor([int(key) for key in keys], device="cpu"), *rest]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def has_drawn(state):
    """Whether a random number of PyTorch's was drawn since."""
    return not torch.equal(state["torch"], torch.get_rng_state()) or (
        "cuda" in state and not torch.equal(state["cuda"], torch.cuda.get_rng_state()))


def put_generators(state):
    torch.set_rng_state(state["torch"])
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers.tolist()), gauss))
    if "numpy" in state:
        import numpy
        kind, keys, *rest = state["numpy"]
        numpy.random.set_state((kind, keys.numpy().astype("uint32"), *rest))
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])


def take_modes():
    autocast = {device: {"enabled": torch.is_autocast_enabled(device), "dtype": torch.get_autocast_dtype(device)}
                for device in DEVICES}
    return {"autocast": autocast, "cache": torch.is_autocast_cache_enabled(), "grad": torch.is_grad_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(), "threads": torch.get_num_threads(),
            "default_dtype": torch.get_default_dtype()}


class Modes:
    """The modes of a pass, for as long as it lasts."""

    def __init__(self, modes):
        self.modes = modes
        self.own = take_modes()
        self.autocasts = [torch.autocast(device, **modes["autocast"][device], cache_enabled=modes["cache"])
                          for device in DEVICES if modes["autocast"][device]["enabled"]]

    def put(self, modes):
        torch.set_grad_enabled(modes["grad"])
        torch.set_num_threads(modes["threads"])
        torch.set_default_dtype(modes["default_dtype"])
        torch.use_deterministic_algorithms(modes["deterministic"])

    def __enter__(self):
        self.put(self.modes)
        for autocast in self.autocasts:
            autocast.__enter__()

    def __exit__(self, *error):
        for autocast in reversed(self.autocasts):
            autocast.__exit__(*error)
        self.put(self.own)


def take_attributes(module):
    """Numbers, texts and switches that the modules hold, `training` among them; as one text, which is read faster."""
    return json.dumps({
        name: {key: value for key, value in vars(part).items() if type(value) in (bool, int, float, str)}
        for name, part in module.named_modules()})


def read_attributes(text):
    return json.loads(text)


def put_attributes(module, attributes):
    for name, part in module.named_modules():
        vars(part).update(attributes.get(name, {}))
