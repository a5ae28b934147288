"""Python objects between ranks, and barriers.

    torchrun --nproc-per-node 2 objects.py [--steps 10]
"""
import argparse
from datetime import timedelta

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    for step in range(steps):
        everybody = [None] * world_size
        dist.all_gather_object(everybody, {"rank": rank, "seen": list(range(rank * step))})
        assert [one["rank"] for one in everybody] == list(range(world_size))
        told = [{"lr": 0.1 / (step + 1)}, "a name"] if rank == 0 else [None, None]
        dist.broadcast_object_list(told, src=0)
        assert told[1] == "a name"
        gathered = [None] * world_size if rank == 0 else None
        dist.gather_object((rank, step), gathered, dst=0)
        mine = [None]
        dist.scatter_object_list(mine, [f"for {i}" for i in range(world_size)] if rank == 0 else None, src=0)
        assert mine[0] == f"for {rank}"
        dist.barrier()
        dist.monitored_barrier(timeout=timedelta(seconds=30))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
