#!/usr/bin/env python3
"""What watching costs a PyTorch script: steps/s of the same script alone, under `ddprove exec` (records, names), under
`ddprove exec --prove sums` (hashes and sums too), and under TORCH_DISTRIBUTED_DEBUG=DETAIL; two ranks on gloo, the ways
take turns, and medians are shown. And what it costs to prove a step by `--prove equivalence`, in ordinary steps: the
processor time of a run in which 12 steps are proved, less that of one in which 2 are.
Usage: torch_cost.py DDPROVE [--rounds N] [--model NAME] [--steps N]

DETAIL kills DistributedDataParallel over gloo in 2.15 (see torch_faults.py); the call is left out there.
Exit: 0; 77 without PyTorch."""
import argparse
import importlib.util
import multiprocessing.util
import os
import platform
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

MODELS = {"mlp_l": "MLP 784-1024-1024-10, batch 64", "gpt_s": "GPT, 2 layers, d 128, 4 heads, T 64, V 256, batch 8"}
WARM_UP = 5
RANKS = 2
PROVED = (2, 12)


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
        took, cpu = time.perf_counter() - began, time.process_time() - used
        print(f"steps/s {steps / took:.3f} cpu_ms {1e3 * cpu / steps:.3f}", flush=True)
    dist.destroy_process_group()


def launch(name, steps):
    """Import PyTorch once, and fork the ranks: start-up is not what is measured."""
    import atexit
    import torch._dynamo  # noqa: F401  an optimizer imports it
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    children = []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                              MASTER_PORT=str(port))
            code = 1
            try:
                train(name, steps)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                multiprocessing.util._exit_function()
                atexit._run_exitfuncs()
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    return max(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child in children)


def run(ddprove, way, name, steps):
    """(steps/s, processor milliseconds of rank 0 a step, processor seconds of the whole run)."""
    command = [sys.executable, os.path.abspath(__file__), "--launch", name, str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        if way == "DETAIL":
            environment["TORCH_COST_DETAIL"] = "1"
        if way.startswith("exec"):
            more = way.split()[1:]
            if "equivalence" in way:
                more += ["--out", folder + "/out"]
            command = [ddprove, "exec", "--launcher", "env", *more, "--", *command]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=900, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    match = re.search(r"steps/s ([\d.]+) cpu_ms ([\d.]+)", ran.stdout)
    if match is None or ran.returncode != 0:
        sys.exit(f"{way}: {' '.join(command)} failed ({ran.returncode}):\n{ran.stdout[-3000:]}")
    return float(match[1]), float(match[2]), used


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--launch":
        return launch(sys.argv[2], int(sys.argv[3]))
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
            print(f"    {way:24} {speed:8.2f} steps/s ({100 * (speed / base - 1):+6.1f} %)   {cpu:8.3f} ms of a "
                  f"rank's processor a step ({cpu - base_cpu:+.3f} ms, {100 * (cpu / base_cpu - 1):+.1f} %)",
                  flush=True)
        few, many = (f"exec --prove equivalence --steps {','.join(map(str, range(WARM_UP, WARM_UP + count)))}"
                     for count in PROVED)
        costs = [run(ddprove, many, name, args.steps)[2] - run(ddprove, few, name, args.steps)[2]
                 for _ in range(args.rounds)]
        ratio = 1e3 * statistics.median(costs) / (PROVED[1] - PROVED[0]) / (RANKS * base_cpu)
        print(f"    proving a step costs {ratio:.2f} ordinary steps", flush=True)
    print(f"load at the end {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
