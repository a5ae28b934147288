"""Bucket assignments of ddpcore against PyTorch's own function, torch.distributed._compute_bucket_assignment_by_size.

test_assignments.py ASSIGNMENTS [COUNT] [SEED]; exit code 77 without PyTorch.
"""
import subprocess
import sys

try:
    import torch
    import torch.distributed as dist
    compute = dist._compute_bucket_assignment_by_size
except (ImportError, AttributeError) as error:
    print(f"SKIP: no PyTorch with distributed: {error}")
    sys.exit(77)

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}


def buckets_of(text):
    return [[int(param) for param in bucket.split()] for bucket in text.split("/")]


def size_of(bucket, tensors):
    return sum(tensors[i].numel() * tensors[i].element_size() for i in bucket)


def split_full(buckets, limits, tensors):
    """The buckets that reached their limit, and those that did not, whose order PyTorch leaves to a hash table."""
    full = [b for b, limit in zip(buckets, limits) if size_of(b, tensors) >= limit]
    rest = [b for b, limit in zip(buckets, limits) if size_of(b, tensors) < limit]
    return full, sorted(rest)


def check(line):
    caps, params, walk, first, rebuilt = (part.strip() for part in line.split("|"))
    limits = [int(cap) for cap in caps.split()[1:]]
    pairs = [param.split(":") for param in params.split()]
    tensors = [torch.empty(int(count), dtype=DTYPES[name]) for name, count in pairs]
    walk = [int(param) for param in walk.split(":")[1].split()]

    theirs, _ = compute(tensors, limits)
    ours = buckets_of(first.split(":")[1])
    if ours != list(reversed(theirs)):
        return f"first: {ours}, PyTorch {list(reversed(theirs))}"

    theirs, their_limits = compute([tensors[i] for i in walk], limits, [False] * len(walk), walk)
    ours = buckets_of(rebuilt.split(":")[1])
    limit_of = {tuple(bucket): limit for bucket, limit in zip(theirs, their_limits)}
    our_limits = [limit_of.get(tuple(bucket), 0) for bucket in ours]
    if 0 in our_limits or split_full(ours, our_limits, tensors) != split_full(theirs, their_limits, tensors):
        return f"rebuilt: {ours}, PyTorch {theirs}"
    return None


def main():
    count = sys.argv[2] if len(sys.argv) > 2 else "200"
    seed = sys.argv[3] if len(sys.argv) > 3 else "1"
    lines = subprocess.run([sys.argv[1], count, seed], check=True, capture_output=True, text=True).stdout.splitlines()
    wrong = 0
    for number, line in enumerate(lines):
        difference = check(line)
        if difference is not None:
            wrong += 1
            print(f"case {number} of seed {seed}: {difference}\n    {line}")
    print(f"{len(lines)} lists, {wrong} assigned otherwise than by PyTorch {torch.__version__}")
    return 1 if wrong > 0 or len(lines) != int(count) else 0


sys.exit(main())
