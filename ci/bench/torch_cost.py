#!/usr/bin/env python3
"""What watching costs a PyTorch script: steps/s of the same script alone, under `ddprove exec` (records and names), under
`ddprove exec --prove sums` (hashes and sums too), and under TORCH_DISTRIBUTED_DEBUG=DETAIL; and what proving a step costs,
by `--prove equivalence`. Two ranks on gloo; the ways take turns, and medians are shown.
Usage: torch_cost.py DDPROVE [--rounds N] [--model NAME] [--steps N]

DETAIL kills DistributedDataParallel over gloo in 2.15 (see torch_faults.py); the call is left out there.
Exit: 0; 77 without PyTorch."""
import argparse
import importlib.util
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = {"mlp_l": "MLP 784-1024-1024-10, batch 64", "gpt_s": "GPT, 2 layers, d 128, 4 heads, T 64, V 256, batch 8"}
WARM_UP = 5
RANKS = 2


def build(name):
    """The model and a function that gives a batch and its loss."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    if name == "mlp_l":
        model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
        x, y = torch.randn(64, 784), torch.randint(10, (64,))
        return model, lambda wrapped: F.cross_entropy(wrapped(x), y)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, 128), nn.Embedding(64, 128)
            layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, activation="gelu", batch_first=True,
                                               norm_first=True)
            self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 256, bias=False)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(64), persistent=False)

        def forward(self, ids):
            h = self.tokens(ids) + self.places.weight
            return self.head(self.norm(self.blocks(h, mask=self.mask, is_causal=True)))

    ids = torch.randint(256, (8, 65))
    return GPT(), lambda wrapped: F.cross_entropy(wrapped(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def train(name, steps):
    """A rank: prints how many steps it made in a second, and what processor time they took."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    torch.set_num_threads(1)
    if os.environ.get("TORCH_COST_DETAIL"):
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        dist.Logger.set_construction_data_and_log = lambda *_args, **_kwargs: None
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    model, loss_of = build(name)
    model = DDP(model)
    optimizer = (torch.optim.AdamW if name == "gpt_s" else torch.optim.SGD)(model.parameters(), lr=1e-3)
    began = used = 0.0
    for step in range(WARM_UP + steps):
        if step == WARM_UP:
            began, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"steps/s {steps / (time.perf_counter() - began):.3f} cpu_ms {1e3 * (time.process_time() - used) / steps:.3f}",
              flush=True)
    dist.destroy_process_group()


def run(ddprove, way, name, steps):
    """(steps/s, processor milliseconds of rank 0 a step, seconds of the whole run)."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS),
               os.path.abspath(__file__), "--train", name, str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        if way == "DETAIL":
            environment["TORCH_COST_DETAIL"] = "1"
        if way.startswith("exec"):
            more = {"exec": [], "exec --prove sums": ["--prove", "sums"],
                    "exec --prove equivalence": ["--prove", "equivalence", "--steps", f"{WARM_UP + 1}",
                                                 "--out", folder + "/out"]}[way]
            command = [ddprove, "exec", *more, "--", *command]
        began = time.monotonic()
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=900, check=False)
    match = re.search(r"steps/s ([\d.]+) cpu_ms ([\d.]+)", ran.stdout)
    if match is None or ran.returncode != 0:
        sys.exit(f"{way}: {' '.join(command)} failed ({ran.returncode}):\n{ran.stdout[-3000:]}")
    return float(match[1]), float(match[2]), time.monotonic() - began


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--train":
        return train(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprove")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--model", default="")
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("no PyTorch here; python3 -m venv V && V/bin/pip install torch==2.15.0")
        return 77
    import torch
    ddprove = os.path.abspath(args.ddprove)
    print(f"PyTorch {torch.__version__}, gloo, {RANKS} ranks, {args.steps} steps, {args.rounds} rounds, "
          f"{os.cpu_count()} cores, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}")
    ways = ("alone", "exec", "exec --prove sums", "DETAIL")
    for name in [name for name in MODELS if args.model in name]:
        found = {way: [] for way in ways}
        for number in range(args.rounds):
            for way in ways if number % 2 == 0 else reversed(ways):
                found[way].append(run(ddprove, way, name, args.steps))
        print(f"{name}: {MODELS[name]}")
        base = statistics.median(speed for speed, _, _ in found["alone"])
        base_cpu = statistics.median(cpu for _, cpu, _ in found["alone"])
        for way in ways:
            speed = statistics.median(speed for speed, _, _ in found[way])
            cpu = statistics.median(cpu for _, cpu, _ in found[way])
            print(f"    {way:18} {speed:8.2f} steps/s ({100 * (speed / base - 1):+6.1f} %)   {cpu:8.3f} ms of a rank's "
                  f"processor a step ({cpu - base_cpu:+.3f} ms, {100 * (cpu / base_cpu - 1):+.1f} %)", flush=True)
    print(f"load at the end {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
