#!/usr/bin/env python3
"""What watching costs a PyTorch script, on each rank and step: time, and the processor's time, of the same training loop
alone, under `ddprove exec` (records, names) and under `ddprove exec --prove sums` (hashes and sums too); with --detail also
under TORCH_DISTRIBUTED_DEBUG=DETAIL. Two ranks on gloo. The ways take turns, so that each round has its own pairs; medians of
the rounds' ratios are shown, and their range. Then what it costs to keep and prove one step more (--prove equivalence), in
ordinary steps. PyTorch is imported once: ranks are forked, and load the adapter as `import torch` does.
Usage: torch_cost.py DDPROVE [--rounds N] [--model NAME] [--steps N] [--minutes N] [--detail] [--profile]
It ends after --minutes (7) and what the rounds under way then take. For figures that count: on a quiet machine, --detail.

--profile: no comparison, but where a watched rank's time goes (cProfile, of Python's part).
DETAIL kills DistributedDataParallel over gloo in 2.15 (see torch_faults.py); the call is left out there.
Exit: 0; 77 without PyTorch."""
import argparse
import importlib.util
import json
import multiprocessing.util
import os
import platform
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

MODELS = {"mlp_l": "MLP 784-1024-1024-10, batch 64", "gpt_s": "GPT, 2 layers, d 128, 4 heads, T 64, V 256, batch 8"}
WARM_UP = 10
RANKS = 2
ROUNDS_MIN = 3
KEPT_FEW, KEPT_MANY = 2, 10  # steps that are kept and proved: the difference leaves out what a proof costs once
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../harness/guest/torch")


def build(name):
    """The model and a function that gives a batch and its loss."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    if name == "mlp_l":
        model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
        torch.manual_seed(100 + int(os.environ["RANK"]))
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

    model = GPT()
    torch.manual_seed(100 + int(os.environ["RANK"]))
    ids = torch.randint(256, (8, 65))
    return model, lambda wrapped: F.cross_entropy(wrapped(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def train(name, steps, is_detailed):
    """A rank: says how long a step took, and how much of the processor's time, in milliseconds."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    torch.set_num_threads(1)
    if is_detailed:
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
    took, cpu = time.perf_counter() - began, time.process_time() - used
    dist.destroy_process_group()
    return f"{1e3 * took / steps:.4f} {1e3 * cpu / steps:.4f}"


def become_rank(rank, port, environment, out, name, steps, is_detailed, is_profiled):
    """This process, which has been forked, trains, says what it took, and ends."""
    import atexit
    os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    code = 1
    try:
        if "DDPROVE_ARENA" in environment:
            sys.path.insert(0, environment["PYTHONPATH"].split(":")[0])
            from ddprove_torch import adapter
            adapter.autoload()
        if "DDPROVE_PROVE" in environment:
            sys.path.insert(0, PACKAGE)
            from ddprove_torch import prove
            prove.load()
        if is_profiled and rank == 0:
            import cProfile
            import pstats
            profile = cProfile.Profile()
            said = profile.runcall(train, name, steps, is_detailed)
            pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(25)
        else:
            said = train(name, steps, is_detailed)
        os.write(out, (said + "\n").encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        multiprocessing.util._exit_function()
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(code)


def train_on_ranks(environment, *what):
    """[(milliseconds, of them the processor's)] of a step, rank by rank."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    out, into = os.pipe()
    children = []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            become_rank(rank, port, environment, into, *what)
        children.append(child)
    os.close(into)
    codes = [os.waitpid(child, 0)[1] for child in children]
    with os.fdopen(out) as said:
        found = [tuple(map(float, line.split())) for line in said]
    if any(codes) or len(found) != RANKS:
        sys.exit(f"a rank failed: {codes}")
    return found


def be_client(path):
    """What ddprove starts: tells who forks the ranks where the arena is, and waits until they have ended."""
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
        one.sendall("\n".join(f"{key}={os.environ[key]}" for key in
                              ("DDPROVE_ARENA", "DDPROVE_GUEST_LIBRARY", "PYTHONPATH")).encode() + b"\n\n")
        return 0 if one.recv(1) == b"0" else 1


def run(ddprove, way, name, steps, is_profiled=False):
    """(milliseconds a step, processor's milliseconds a step of a rank, ddprove's own)."""
    what = (name, steps, way == "DETAIL", is_profiled)
    if not way.startswith("exec"):
        found = train_on_ranks({}, *what)
        return statistics.mean(took for took, _ in found), statistics.mean(cpu for _, cpu in found), 0.0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(folder + "/ranks")
        server.listen(1)
        server.settimeout(60)
        with subprocess.Popen([ddprove, "exec", "--launcher", "env", *way.split()[1:], "--", sys.executable, "-S", "-E",
                               os.path.abspath(__file__), "--client", folder + "/ranks"],
                              stderr=subprocess.PIPE, text=True) as watching:
            client, _ = server.accept()
            with client:
                data = b""
                while not data.endswith(b"\n\n"):
                    data += client.recv(4096)
                environment = dict(line.split("=", 1) for line in data.decode().split("\n") if line)
                began = resource.getrusage(resource.RUSAGE_CHILDREN)
                found = train_on_ranks(environment, *what)
                ranks = resource.getrusage(resource.RUSAGE_CHILDREN)
                client.sendall(b"0")
            said = watching.communicate()[1]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if watching.returncode != 0 or "no rank has shown itself" in said:
        sys.exit(f"{way}: exit {watching.returncode}: {said}")
    own = sum(getattr(after, key) - getattr(before, key) - (getattr(ranks, key) - getattr(began, key))
              for key in ("ru_utime", "ru_stime"))
    return (statistics.mean(took for took, _ in found), statistics.mean(cpu for _, cpu in found),
            1e3 * own / (steps + WARM_UP))


def proved_ms(name):
    """What one step more costs that is kept, and played again and judged behind the run."""
    took = []
    for kept in (KEPT_FEW, KEPT_MANY):
        folder = tempfile.mkdtemp()  # a TemporaryDirectory would be removed by the first forked rank that ends
        steps = ",".join(str(WARM_UP + i) for i in range(kept))
        began = time.perf_counter()
        train_on_ranks({"DDPROVE_PROVE": folder, "DDPROVE_PROVE_STEPS": steps}, name, KEPT_MANY, False, False)
        took.append(1e3 * (time.perf_counter() - began))
        with open(os.path.join(folder, "proof.json"), encoding="utf-8") as file:
            proof = json.load(file)
        shutil.rmtree(folder)
        if proof["outcome"] != "PASS" or proof["judged"].get("gradient") != RANKS * kept:
            sys.exit(f"{name}: the proof says {proof['outcome']}, of {proof['judged']}: {proof['findings']}")
    return (took[1] - took[0]) / (KEPT_MANY - KEPT_FEW)


def show_proved(name, found, rounds):
    costs = [proved_ms(name) for _ in range(rounds)]
    alone = statistics.median(took for took, _, _ in found["alone"])
    print(f"    a proved step      {statistics.median(costs):8.3f} ms more: {statistics.median(costs) / alone:.2f} ordinary "
          f"steps ({min(costs) / alone:.2f} to {max(costs) / alone:.2f}, {rounds} rounds)", flush=True)


def show(name, ways, found):
    print(f"{name}: {MODELS[name]}; {len(found['alone'])} rounds")
    for way in ways:
        ratios = [[mine[i] / base[i] for mine, base in zip(found[way], found["alone"])] for i in range(2)]
        wall, cpu, own = (statistics.median(values) for values in zip(*found[way]))
        text = f"    {way:18} {wall:8.3f} ms a step, {cpu:8.3f} of a rank's processor"
        if way != "alone":
            text += "".join(f"; {what} {100 * (statistics.median(r) - 1):+.1f} % ({100 * (min(r) - 1):+.1f} to "
                            f"{100 * (max(r) - 1):+.1f})" for what, r in zip(("time", "processor"), ratios))
        print(text + (f"; ddprove itself {own:.3f} ms" if own else ""), flush=True)


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--client":
        return be_client(sys.argv[2])
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprove")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=7)
    parser.add_argument("--model", default="")
    parser.add_argument("--detail", action="store_true")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("no PyTorch here; python3 -m venv V && V/bin/pip install torch==2.15.0")
        return 77
    began = time.monotonic()
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    import torch
    import torch._dynamo  # noqa: F401  an optimizer imports it
    torch.set_num_threads(1)
    ddprove = os.path.abspath(args.ddprove)
    names = [name for name in MODELS if args.model in name]
    if args.profile:
        for name in names:
            run(ddprove, "exec", name, args.steps, is_profiled=True)
        return 0
    print(f"PyTorch {torch.__version__}, gloo, {RANKS} ranks, {args.steps} steps, up to {args.rounds} rounds, "
          f"{os.cpu_count()} cores, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}")
    ways = ("alone", "exec", "exec --prove sums") + (("DETAIL",) if args.detail else ())
    for place, name in enumerate(names, 1):
        found = {way: [] for way in ways}
        for number in range(args.rounds):
            for way in ways if number % 2 == 0 else reversed(ways):
                found[way].append(run(ddprove, way, name, args.steps))
            if number + 1 >= ROUNDS_MIN and time.monotonic() - began > 60 * args.minutes * place / len(names):
                break
        show(name, ways, found)
        show_proved(name, found, ROUNDS_MIN)
    print(f"load at the end {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
