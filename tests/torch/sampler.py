"""Deals 200 drawn datasets with the core's sampler and with torch.utils.data.DistributedSampler: the same indices, in the same
order, on every rank. Usage: sampler.py SAMPLER_PRINT. Exit: 0 all alike, 1 not, 77 there is no PyTorch."""
import importlib.util
import random
import subprocess
import sys
import warnings

DRAWS = 200


def draw(rng):
    """Samples, ranks, seed, epoch, drop_last, shuffle; small ones often, where padding and dropping are odd."""
    ranks = rng.randint(1, 9)
    samples = rng.choice([rng.randint(1, 2 * ranks + 1), rng.randint(1, 3000), ranks * rng.randint(1, 50)])
    seed = rng.choice([0, rng.randint(0, 1000), rng.randint(0, 2**40)])
    return samples, ranks, seed, rng.randint(0, 20), rng.randint(0, 1), rng.choice([0, 1, 1, 1])


def expected(sampler, samples, ranks, seed, epoch, drop_last, shuffle):
    """A line for each rank."""
    for rank in range(ranks):
        one = sampler(range(samples), ranks, rank, shuffle=bool(shuffle), seed=seed, drop_last=bool(drop_last))
        one.set_epoch(epoch)
        yield " ".join(map(str, one))


def main():
    if importlib.util.find_spec("torch") is None:
        print("there is no PyTorch here: pip install torch")
        return 77
    warnings.filterwarnings("ignore")
    from torch.utils.data.distributed import DistributedSampler

    rng = random.Random(2026)
    draws = [draw(rng) for _ in range(DRAWS)]
    lines = "".join(" ".join(map(str, one)) + "\n" for one in draws)
    got = iter(subprocess.run([sys.argv[1]], input=lines, capture_output=True, text=True, check=True).stdout.splitlines())
    wrong = 0
    for one in draws:
        for rank, line in enumerate(expected(DistributedSampler, *one)):
            if next(got) != line:
                wrong += 1
                print(f"rank {rank} of samples, ranks, seed, epoch, drop_last, shuffle = {one} is dealt otherwise")
    if next(got, None) is not None:
        wrong += 1
        print("the core dealt more than was asked for")
    print(f"{DRAWS} draws, {wrong} ranks dealt otherwise")
    return 1 if wrong > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
