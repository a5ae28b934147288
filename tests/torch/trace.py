"""What PyTorch's DistributedDataParallel posts, taken by ddprove's adapter, is what our core posts in `pytorch` semantics: the cases of
tests/suite/narration.py, call by call, with kind, type, count, operator and root.

One difference is on purpose: PyTorch sends parameters and buffers of one type together when it makes a model equal, we one after the
other. So those are added up before they are compared.

Usage: trace.py DDPROVE NARRATION. Exit: 0 the same, 1 not, 77 there is no PyTorch."""
import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
LINE = re.compile(r"(.*): (\w+) (\w+)\[(\d+)\](?: (?:from (\d+)|(\w+)))?$")
CALL = re.compile(r"call kind=(\w+) dtype=(\w+) redop=(\w+) root=(\d+) count=(\d+)")
# job: model, whether batches run out at another step on each rank, and what else it says
CASES = {
    "plain": ("mlp", {}),
    "buffers": ("convnet", {}),
    "buffers, no_sync": ("convnet", {"micro": 2}),
    "find_unused_parameters": ("mlp", {"find_unused_parameters": True}),
    "join": ("convnet", {"join": {}}),
    "join, throw_on_early_termination": ("mlp", {"join": {"throw_on_early_termination": True}}),
}


def train(case):
    """A rank."""
    warnings.filterwarnings("ignore")
    import torch
    import torch.distributed as dist

    spec = importlib.util.spec_from_file_location("losses", os.path.join(HERE, "losses.py"))
    losses = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(losses)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    name, says = CASES[case]
    model = losses.build_mlp(torch, [64, 32, 10]) if name == "mlp" else losses.build_convnet(torch, [64, 4, 8, 10])
    ddp = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1 / 1024,
                                                    find_unused_parameters=says.get("find_unused_parameters", False))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    steps = 1 if "join" in says and dist.get_rank() == 1 else 3

    def step():
        optimizer.zero_grad()
        for micro in range(says.get("micro", 1)):
            is_last = micro + 1 == says.get("micro", 1)
            with contextlib.nullcontext() if is_last else ddp.no_sync():
                torch.nn.functional.cross_entropy(ddp(torch.rand(4, 64)), torch.randint(0, 10, (4,))).backward()
        optimizer.step()

    try:
        with ddp.join(**says["join"]) if "join" in says else contextlib.nullcontext():
            for _ in range(steps):
                step()
    except RuntimeError as error:  # of throw_on_early_termination, on both ranks
        if "exhausted" not in str(error):
            raise


def recorded(path):
    """Calls of the group of all ranks, in order: [kind, dtype, count, redop or root]."""
    calls, is_world, times = [], False, 1
    with open(path, encoding="utf-8") as file:
        for line in file:
            found = CALL.match(line)
            if line.startswith("comm "):
                is_world = line.rstrip().endswith("text=world")
            elif line.startswith("steps "):
                calls.append([])
                first, last = re.match(r"steps (\d+)-(\d+)", line).groups()
                times = int(last) - int(first) + 1
                calls[-1] = (times, []) if is_world else (0, [])
            elif found and is_world:
                kind, dtype, redop, root, count = found.groups()
                detail = root if kind == "broadcast" else redop if kind == "all_reduce" else ""
                calls[-1][1].append([kind, dtype, int(count), detail])
    return [call for times, block in calls for _ in range(times) for call in block]


def coalesced(lines):
    """Calls of a case of the file; parameters and buffers that are made equal are added up by type."""
    calls, parts = [], {}
    for line in lines + ["behind: barrier u8[0]"]:
        place, kind, dtype, count, root, redop = LINE.match(line).groups()
        if kind == "broadcast" and place in ("constructor", "end of join") and dtype in ("f32", "i64") and \
                (parts or dtype == "f32"):
            parts[dtype] = [kind, dtype, parts.get(dtype, [0, 0, 0])[2] + int(count), root]
            continue
        calls += parts.values()
        parts = {}
        calls.append([kind, dtype, int(count), root or redop or ""])
    return calls[:-1]


def cases_of(path):
    cases = {}
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("== "):
                cases[line[3:]] = []
            else:
                list(cases.values())[-1].append(line)
    return cases


def main():
    if importlib.util.find_spec("torch") is None:
        print("there is no PyTorch here: pip install torch")
        return 77
    ddprove, expected, wrong = sys.argv[1], cases_of(sys.argv[2]), []
    if sorted(expected) != sorted(CASES):
        wrong.append(f"cases: {sorted(expected)}, not {sorted(CASES)}")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ddprove, "exec", "--ranks", "2", "--adapter", "torch", "--record", folder, "--", sys.executable,
                                   os.path.abspath(__file__), "--rank", case], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                wrong.append(f"{case}: {done.stdout}{done.stderr}")
                continue
            theirs = recorded(os.path.join(folder, "program.txt"))
        ours = coalesced(expected[case])
        if theirs != ours:
            place = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
            wrong.append(f"{case}: {len(theirs)} calls of PyTorch, {len(ours)} of ours; call {place + 1}: "
                         f"{theirs[place:place + 3]}, not {ours[place:place + 3]}")
        else:
            print(f"{case}: {len(ours)} calls, the same")
    print("\n".join(wrong) if wrong else "all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        train(sys.argv[2])
    else:
        sys.exit(main())
