#!/usr/bin/env python3
"""What watching costs a PyTorch script on a GPU: milliseconds a step of a GPT that one rank trains by DistributedDataParallel
on NCCL, alone, under `ddprove exec`, and under `ddprove exec --prove sums`. The ways take turns; medians of the rounds'
ratios are shown, and their range. One rank has the card to itself, so the step is not that of processes that take turns on
it; the calls are made and watched as with many.

Usage: torch_cost_gpu.py DDPROVE [--rounds N] [--steps N]; for figures that count, with nothing else on the card.
Exit: 0; 77 without PyTorch or a GPU."""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

WAYS = {"alone": None, "watched": ["--adapter", "torch"], "sums": ["--adapter", "torch", "--prove", "sums"]}
WARM_UP = 20
ABOUT = "GPT, 6 layers, d 512, 8 heads, T 256, V 8192, batch 8, fp32 with TF32, AdamW"


def become_rank(steps, out):
    """Train, and write down what a step took."""
    import time

    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional as F
    from torch.nn.parallel import DistributedDataParallel as DDP

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(8192, 512), nn.Embedding(256, 512)
            layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, activation="gelu", batch_first=True,
                                               norm_first=True)
            self.blocks = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
            self.head = nn.Linear(512, 8192, bias=False)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(256), persistent=False)

        def forward(self, ids):
            return self.head(self.blocks(self.tokens(ids) + self.places.weight, mask=self.mask, is_causal=True))

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    torch.manual_seed(7)
    model = DDP(GPT().cuda(), device_ids=[0], bucket_cap_mb=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(8192, (8, 257), device="cuda")
    for step in range(WARM_UP + steps):
        if step == WARM_UP:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
    torch.cuda.synchronize()
    took = (time.perf_counter() - begin) / steps * 1e3
    buckets = model._get_ddp_logging_data().get("rebuilt_bucket_sizes") or ""
    with open(out, "w", encoding="ascii") as file:
        json.dump({"ms": took, "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                   "nccl": ".".join(map(str, torch.cuda.nccl.version())), "buckets": len(str(buckets).split(","))}, file)
    dist.destroy_process_group()


def run(ddprove, way, steps, folder):
    out = os.path.join(folder, "out.json")
    command = [sys.executable, os.path.abspath(__file__), "rank", str(steps), out]
    environment = dict(os.environ)
    if WAYS[way] is None:
        environment.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29631")
    else:
        command = [ddprove, "exec", "--ranks", "1", *WAYS[way], "--", *command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{way}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    with open(out, encoding="ascii") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ddprove")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("PyTorch is not there")
        return 77
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU")
        return 77
    found = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for way in WAYS:
                found[way].append(run(options.ddprove, way, options.steps, folder))
    about = found["alone"][0]
    print(f"{ABOUT}; {about['buckets']} buckets; {about['device']}, PyTorch {about['torch']}, NCCL {about['nccl']}, Python "
          f"{platform.python_version()}; {options.rounds} rounds of {options.steps} steps")
    for way, runs in found.items():
        ratios = [one["ms"] / alone["ms"] for one, alone in zip(runs, found["alone"])]
        print(f"{way:8} {statistics.median(one['ms'] for one in runs):8.3f} ms a step, {statistics.median(ratios):.3f} of "
              f"alone ({min(ratios):.3f} to {max(ratios):.3f})")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        become_rank(int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main())
