"""The collectives of a job, told as a story: what each one is, of which type, how much of it, in the order in which rank 0 posts them. In
`pytorch` semantics that is PyTorch's own story (its trace, read from the source of 2.7): tests/data/narration.txt has it, and
tests/torch/trace.py compares the same with what PyTorch posts.

Usage: narration.py DDPROVE NARRATION [--write]: compare what the simulator's ranks post with the file, or write it.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile

COMMON = "steps: 3, data: digits, batch_per_rank: 4, bucket_cap_kb: 1, bucket_order: pytorch, semantics: pytorch, optimizer: {kind: sgd, lr: 0.1}"
MLP, CONVNET = "model: mlp, widths: [64, 32, 10]", "model: convnet, widths: [64, 4, 8, 10]"
CASES = {
    "plain": f"{{ranks: 2, {MLP}, {COMMON}}}",
    "buffers": f"{{ranks: 2, {CONVNET}, {COMMON}}}",
    "buffers, no_sync": f"{{ranks: 2, micro_batches: 2, {CONVNET}, {COMMON}}}",
    "find_unused_parameters": f"{{ranks: 2, find_unused_parameters: true, {MLP}, {COMMON}}}",
    "join": f"{{ranks: 2, shard_sizes: [12, 4], join: {{}}, {CONVNET}, {COMMON}}}",
    "join, throw_on_early_termination":
        f"{{ranks: 2, shard_sizes: [12, 4], join: {{throw_on_early_termination: true}}, {MLP}, {COMMON}}}",
}
POST = re.compile(r"r(\d+)#\d+ +(-?\d+)\.(\d+) +(\w+) +coll\.post +seq=\d+ op=(\w+)/(\w+)/(\w+)/(\w+):(\d+)/root:(\d+) count=(\d+)")


def line_of(place, kind, dtype, count, redop, root):
    """One collective in words."""
    detail = {"all_reduce": redop, "broadcast": f"from {root}"}.get(kind, "")
    return f"{place}: {kind} {dtype}[{count}] {detail}".rstrip()


def posts_of(path):
    """(place, role, kind, dtype, count, redop, root) of each collective that a rank's trace has; the last barrier is the trainer's, not
    DDP's."""
    posts = []
    with open(path, encoding="utf-8") as file:
        for found in filter(None, map(POST.search, file)):
            _, step, micro, phase, kind, redop, dtype, role, _, root, count = found.groups()
            place = "constructor" if phase == "init" else f"step {step}" + (f", pass {micro}" if micro != "0" else "")
            place = "end of join" if phase == "join" and role in ("param_sync", "buffer_sync") else place
            if role == "verify" and dtype == "u8":
                dtype, count = "i64", int(count) // 8  # numbers, sent as bytes
            if role != "barrier":
                posts.append((place, role, kind, dtype, int(count), redop, int(root)))
    return posts


def narrate(ddprove, name, folder):
    """The lines of a case."""
    path = os.path.join(folder, "narration", "case.yaml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"# What is posted: {name}.\nid: narration.case\njob: {CASES[name]}\nexpect: {{verdict: NONE}}\n")
    out = os.path.join(folder, "run")
    subprocess.run([ddprove, "run", path, "--driver", "sim", "--out", out], stdout=subprocess.DEVNULL, check=False)
    ranks = [posts_of(os.path.join(out, "narration.case", "sim", f"trace.rank{rank}.txt")) for rank in range(2)]
    both = [[post[2:] for post in posts] for posts in ranks]
    if both[0] != both[1]:
        sys.exit(f"{name}: rank 1 posts other collectives than rank 0: {both}")
    return ranks[0]


def story(ddprove):
    """All cases."""
    lines = []
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            lines += [f"== {name}"] + [line_of(place, *post) for place, _, *post in narrate(ddprove, name, folder)]
    return lines


def main():
    """Compare, or write."""
    lines = story(sys.argv[1])
    if sys.argv[-1] == "--write":
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return 0
    with open(sys.argv[2], encoding="utf-8") as file:
        different = list(difflib.unified_diff(file.read().splitlines(), lines, "expected", "now", n=1, lineterm=""))
    print("\n".join(different) if different else f"{len(lines)} lines, as expected")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
