"""All-reduces of PyTorch's gloo, measured as `ddprove coll bench` does: fp32 sums of numbers whose order shows, in place, each
call as long as its slowest rank's, its result compared between two calls. Prints one line a size: "size median_us least_us wrong".

coll_gloo.py RANKS ITERATIONS SIZE...
"""
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def numbers(rank, count):
    generator = torch.Generator().manual_seed(1000 + rank)
    mantissa = torch.rand(count, generator=generator) + 1
    exponent = torch.randint(-6, 6, (count,), generator=generator)
    sign = torch.randint(0, 2, (count,), generator=generator) * 2 - 1
    return torch.ldexp(mantissa * sign, exponent)


def run(rank, ranks, path, iterations, sizes):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=ranks)
    for size in sizes:
        count = size // 4
        mine = numbers(rank, count)
        terms = [numbers(r, count).double() for r in range(ranks)]
        u = (ranks - 1) * 2.0 ** -24
        bound = (u / (1 - u) + 2.0 ** -40) * sum(t.abs() for t in terms)
        exact = sum(terms)
        times = torch.zeros(iterations, dtype=torch.float64)
        wrong = torch.zeros(1, dtype=torch.float64)
        for i in range(-5, iterations):
            data = mine.clone()
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(data)
            elapsed = time.perf_counter() - begin
            if i >= 0:
                times[i] = elapsed
            wrong += int((~((data.double() - exact).abs() <= bound)).sum())
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        dist.all_reduce(wrong)
        if rank == 0:
            print("%d %.3f %.3f %d" % (size, times.median().item() * 1e6, times.min().item() * 1e6, int(wrong.item())), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile() as meeting:
        mp.spawn(run, args=(int(sys.argv[1]), meeting.name + ".store", int(sys.argv[2]), [int(s) for s in sys.argv[3:]]),
                 nprocs=int(sys.argv[1]))
