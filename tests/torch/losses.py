"""Starts PyTorch from what `ddprove export` wrote of mlp, convnet and gpt, and trains it on the same batches: the losses of 20 steps,
and each gradient of step 0, within a bound that follows from fp32. Then the other way: PyTorch's own initial weights are what a job
of ddprove starts from. Usage: losses.py DDPROVE SCENARIOS. Exit: 0 all within, 1 not, 77 there is no PyTorch.

The bound. n roundings in fp32 are off by at most n u in all (u = 2^-24), and by more than 4 sqrt(n) u with a probability of 0.001, as
their signs differ. No sum in these models is longer than 2048, and at most 8 such sums lie behind each other, so a gradient is off by
gamma = 4 sqrt(8 * 2048) u of its size, and after t steps with the rate lr the parameters by lr gamma times the sizes of the gradients
so far, which moves the loss by that times the present gradient: loss error <= gamma (|loss| + lr |g_t| sum |g_s|). Sizes are those of
PyTorch in fp64. PyTorch in fp32 itself must be within the bound, too, and a rate that is 1 % higher must be outside of it."""
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import warnings

GAMMA = 4 * (8 * 2048) ** 0.5 * 2.0**-24
TYPES = {"F32": ("float32", 4), "I32": ("int32", 4), "I64": ("int64", 8)}


def read(torch, path):
    """The tensors of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + at for at in entry["data_offsets"])
            kind = getattr(torch, TYPES[entry["dtype"]][0])
            tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=kind).reshape(entry["shape"])
    return tensors


def write(path, tensors):
    """Writes tensors of fp32 and int64 as a safetensors file."""
    header, blob = {}, b""
    for name, tensor in tensors.items():
        kind = "I64" if tensor.dtype.is_floating_point is False else "F32"
        raw = bytes(tensor.detach().contiguous().reshape(-1).untyped_storage()[:tensor.numel() * tensor.element_size()])
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + blob)


def build_mlp(torch, widths):
    class Mlp(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.count = len(widths) - 1
            for i in range(self.count):
                setattr(self, f"fc{i}", torch.nn.Linear(widths[i], widths[i + 1]))

        def forward(self, x):
            for i in range(self.count):
                x = getattr(self, f"fc{i}")(x)
                x = torch.relu(x) if i + 1 < self.count else x
            return x
    return Mlp()


def build_convnet(torch, widths):
    nn = torch.nn

    class Convnet(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = len(widths) - 2
            for i in range(self.count):
                setattr(self, f"conv{i}", nn.Conv2d(widths[i] if i > 0 else 1, widths[i + 1], 3, padding=1, bias=False))
                setattr(self, f"bn{i}", nn.BatchNorm2d(widths[i + 1]))
            self.fc = nn.Linear(widths[-2], widths[-1])

        def forward(self, x):
            side = round(x.shape[1] ** 0.5)
            x = x.reshape(-1, 1, side, side)
            for i in range(self.count):
                x = torch.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
                x = nn.functional.avg_pool2d(x, 2 if i + 1 < self.count else x.shape[-1])
            return self.fc(x.flatten(1))
    return Convnet()


def build_gpt(torch, widths, heads):
    nn, d = torch.nn, widths[1]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.attn = nn.ModuleDict({"c_attn": nn.Linear(d, 3 * d), "c_proj": nn.Linear(d, d)})
            self.mlp = nn.ModuleDict({"c_fc": nn.Linear(d, 4 * d), "c_proj": nn.Linear(4 * d, d)})

        def forward(self, x):
            rows, tokens = x.shape[:2]
            q, k, v = (part.reshape(rows, tokens, heads, d // heads).transpose(1, 2)
                       for part in self.attn["c_attn"](self.ln_1(x)).split(d, dim=2))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.attn["c_proj"](y.transpose(1, 2).reshape(rows, tokens, d))
            hidden = nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
            return x + self.mlp["c_proj"](hidden)

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(widths[-1], d), nn.Embedding(widths[0], d)
            self.h = nn.ModuleList([Block() for _ in widths[1:-1]])
            self.ln_f = nn.LayerNorm(d)

        def forward(self, x):
            x = self.wte(x.long()) + self.wpe.weight
            for block in self.h:
                x = block(x)
            return (self.ln_f(x) @ self.wte.weight.t()).flatten(0, 1)
    return Gpt()


def build(torch, job):
    model = job["model"]
    if model["name"] == "mlp":
        return build_mlp(torch, model["widths"])
    if model["name"] == "convnet":
        return build_convnet(torch, model["widths"])
    return build_gpt(torch, model["widths"], model["heads"])


def train(torch, job, initial, data, kind, rate=1.0):
    """Losses, the gradient of step 0, and sizes of gradients: a step of SGD on the rows of all ranks, one rank behind the other."""
    model = build(torch, job)
    model.load_state_dict({name: value.reshape(()) if name.endswith("tracked") else value for name, value in initial.items()})
    model = model.to(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate * job["optimizer"]["lr"], momentum=0)
    losses, gradient, sizes = [], {}, []
    for step in job["batches"]:
        rows = sum(len(micro) for rank in step for micro in rank)
        optimizer.zero_grad()
        loss = 0.0
        for samples in (micro for rank in step for micro in rank):
            x = data["features"][samples].to(kind)
            y = data["labels"][samples].reshape(-1).long()
            part = torch.nn.functional.cross_entropy(model(x), y) * (len(samples) / rows)
            part.backward()
            loss += part.item()
        if not losses:
            gradient = {name: param.grad.clone() for name, param in model.named_parameters()}
        losses.append(loss)
        sizes.append(sum(float(param.grad.double().square().sum()) for param in model.parameters()) ** 0.5)
        optimizer.step()
    return losses, gradient, sizes


def bounds(job, losses, sizes):
    so_far, rate = 0.0, job["optimizer"]["lr"]
    for loss, size in zip(losses, sizes):
        yield GAMMA * (abs(loss) + rate * size * so_far)
        so_far += size


def compare(name, torch, job, folder):
    """What is not within its bound."""
    initial, data = read(torch, f"{folder}/initial.safetensors"), read(torch, f"{folder}/data.safetensors")
    ours = read(torch, f"{folder}/gradient.safetensors")
    exact, gradient, sizes = train(torch, job, initial, data, torch.float64)
    single, _, _ = train(torch, job, initial, data, torch.float32)
    other, _, _ = train(torch, job, initial, data, torch.float64, 1.01)
    wrong, worst, is_seen = [], 0.0, False
    for step, bound in enumerate(bounds(job, exact, sizes)):
        is_seen = is_seen or abs(other[step] - exact[step]) > bound
        for who, losses in (("ddprove", job["losses"]), ("PyTorch", single)):
            worst = max(worst, abs(losses[step] - exact[step]) / bound)
            if not abs(losses[step] - exact[step]) <= bound:
                wrong.append(f"{name}: {who}'s loss of step {step} is {losses[step]}, not {exact[step]} +- {bound:.2g}")
    if sorted(ours) != sorted(gradient):
        wrong.append(f"{name}: gradients of other parameters: {sorted(set(ours) ^ set(gradient))}")
    for key in gradient:
        difference = float((ours[key].double() - gradient[key]).abs().max())
        bound = GAMMA * sizes[0]
        if not difference <= bound:
            wrong.append(f"{name}: the gradient of {key} is off by {difference:.2g}, more than {bound:.2g}")
    if not is_seen:
        wrong.append(f"{name}: the bound is too wide to see a rate that is 1 % higher")
    print(f"{name}: losses {exact[0]:.4f} to {exact[-1]:.4f}, worst at {worst:.2g} of its bound, {len(gradient)} gradients")
    return wrong


def export(ddprove, scenario, folder, *settings):
    subprocess.run([ddprove, "export", scenario, "--out", folder, *(word for one in settings for word in ("--set", one))], check=True,
                   stdout=subprocess.DEVNULL)
    with open(f"{folder}/job.json", encoding="utf-8") as file:
        return json.load(file)


def main():
    if importlib.util.find_spec("torch") is None:
        print("there is no PyTorch here: pip install torch")
        return 77
    warnings.filterwarnings("ignore")
    import torch

    torch.manual_seed(5)
    torch.set_num_threads(1)
    ddprove, scenarios = sys.argv[1:3]
    common = ("job.steps=20", "job.ranks=2", "job.optimizer={kind: sgd, lr: 0.1}")
    wrong = []
    with tempfile.TemporaryDirectory() as top:
        for name, scenario in (("mlp", "equivalence/mlp_w4"), ("convnet", "models/convnet"), ("gpt", "models/gpt")):
            folder = os.path.join(top, name)
            job = export(ddprove, f"{scenarios}/{scenario}.yaml", folder, *common)
            wrong += compare(name, torch, job, folder)
            # The other way: weights of PyTorch's own.
            back, weights = os.path.join(top, f"{name}_back"), os.path.join(top, f"{name}.safetensors")
            write(weights, build(torch, job).state_dict())
            job = export(ddprove, f"{scenarios}/{scenario}.yaml", back, *common, f"job.initial={weights}")
            wrong += compare(f"{name} from PyTorch's weights", torch, job, back)
    print("\n".join(wrong) if wrong else "all within their bounds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
