"""PyTorch DDP with gloo on the CPU, for comparison. Starts its own rank processes.

torch_ddp.py steps MODEL WORLD COUNT   -> "steps_per_s=... rss_mb=..."
torch_ddp.py equal MODEL WORLD         -> 20 steps of DDP against one process on the whole batch
"""
import importlib.util
import os
import resource
import socket
import subprocess
import sys
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
LOSSES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests/torch/losses.py")
MODELS = {
    "mlp_s": ([64, 256, 256, 10], 32),
    "mlp_l": ([784, 1024, 1024, 10], 64),
    "gpt_s": ([64, 128, 128, 256], 8),  # tokens, width of each layer, vocabulary
}
HEADS = 4


def build_gpt(torch, widths):
    """The model that tests/torch compares with ours, weight by weight."""
    spec = importlib.util.spec_from_file_location("losses", LOSSES)
    losses = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(losses)
    return losses.build_gpt(torch, widths, HEADS)


def build(torch, name):
    widths = MODELS[name][0]
    torch.manual_seed(7)
    if name == "gpt_s":
        return build_gpt(torch, widths)
    layers = []
    for i in range(len(widths) - 1):
        layers.append(torch.nn.Linear(widths[i], widths[i + 1]))
        if i + 2 < len(widths):
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


def draw(torch, name, rows):
    """Samples, and what is to be said of each, or of each of its tokens."""
    widths = MODELS[name][0]
    generator = torch.Generator().manual_seed(11)
    if name == "gpt_s":
        text = torch.randint(0, widths[-1], (rows, widths[0] + 1), generator=generator)
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()
    return torch.rand(rows, widths[0], generator=generator), torch.randint(0, 10, (rows,), generator=generator)


def optimizer_of(torch, name, model):
    if name == "gpt_s":
        return torch.optim.AdamW(model.parameters(), lr=1e-3)
    return torch.optim.SGD(model.parameters(), lr=0.1)


def rank_main(mode, name, count):
    warnings.filterwarnings("ignore")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    batch = MODELS[name][1]
    model = build(torch, name)
    if world > 1 or mode == "equal":
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = optimizer_of(torch, name, model)
    loss_of = torch.nn.CrossEntropyLoss()
    data, labels = draw(torch, name, 8 * world * batch)
    reference = build(torch, name) if mode == "equal" and rank == 0 else None
    reference_optimizer = optimizer_of(torch, name, reference) if reference else None

    def one(who, its_optimizer, rows):
        its_optimizer.zero_grad()
        loss_of(who(data[rows]), labels[rows].flatten()).backward()
        its_optimizer.step()

    def step(index):
        begin = (index % 8) * world * batch
        one(model, optimizer, slice(begin + rank * batch, begin + (rank + 1) * batch))
        if reference is not None:
            one(reference, reference_optimizer, slice(begin, begin + world * batch))

    if mode == "equal":
        for i in range(20):
            step(i)
        if reference is not None:
            worst = max(float((a - b).abs().max()) for a, b in zip(model.parameters(), reference.parameters()))
            print("max_abs_diff=%g" % worst)
        return
    for i in range(max(3, count // 10)):
        step(i)
    if world > 1:
        dist.barrier()
    begin = time.perf_counter()
    for i in range(count):
        step(i)
    seconds = time.perf_counter() - begin
    if rank == 0:
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print("steps_per_s=%.1f rss_mb=%.1f" % (count / seconds, rss))


def main():
    mode, name, world = sys.argv[1], sys.argv[2], int(sys.argv[3])
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 20
    if "RANK" in os.environ:
        rank_main(mode, name, count)
        return 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(world):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
        ranks.append(subprocess.Popen([sys.executable, __file__] + sys.argv[1:], env=env))
    return max(abs(r.wait()) for r in ranks)


if __name__ == "__main__":
    sys.exit(main())
