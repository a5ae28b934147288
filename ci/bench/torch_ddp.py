"""PyTorch DDP with gloo on the CPU, for comparison. Starts its own rank processes.

torch_ddp.py steps MODEL WORLD COUNT   -> "steps_per_s=... rss_mb=..."
torch_ddp.py equal MODEL WORLD         -> 20 steps of DDP against one process on the whole batch
"""
import os
import resource
import socket
import subprocess
import sys
import time

MODELS = {
    "mlp_s": ([64, 256, 256, 10], 32),
    "mlp_l": ([784, 1024, 1024, 10], 64),
}


def build(torch, widths):
    torch.manual_seed(7)
    layers = []
    for i in range(len(widths) - 1):
        layers.append(torch.nn.Linear(widths[i], widths[i + 1]))
        if i + 2 < len(widths):
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


def rank_main(mode, model_name, count):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    widths, batch = MODELS[model_name]
    model = build(torch, widths)
    if world > 1 or mode == "equal":
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of = torch.nn.CrossEntropyLoss()
    generator = torch.Generator().manual_seed(11)
    data = torch.rand(8 * world * batch, widths[0], generator=generator)
    labels = torch.randint(0, 10, (8 * world * batch,), generator=generator)
    reference = build(torch, widths) if mode == "equal" and rank == 0 else None
    reference_optimizer = torch.optim.SGD(reference.parameters(), lr=0.1) if reference else None

    def step(index):
        begin = (index % 8) * world * batch
        mine = slice(begin + rank * batch, begin + (rank + 1) * batch)
        optimizer.zero_grad()
        loss_of(model(data[mine]), labels[mine]).backward()
        optimizer.step()
        if reference is not None:
            reference_optimizer.zero_grad()
            whole = slice(begin, begin + world * batch)
            loss_of(reference(data[whole]), labels[whole]).backward()
            reference_optimizer.step()

    if mode == "equal":
        for i in range(20):
            step(i)
        if reference is not None:
            worst = max(float((a - b).abs().max())
                        for a, b in zip(model.parameters(), reference.parameters()))
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
    mode, model_name, world = sys.argv[1], sys.argv[2], int(sys.argv[3])
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 20
    if "RANK" in os.environ:
        rank_main(mode, model_name, count)
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
