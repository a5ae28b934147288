"""BatchNorm over the batches of all ranks beside the real PyTorch. ddprove's ranks take one step of SGD with the rate 1 from the weights
that `ddprove export` wrote, and leave a checkpoint: what they started from less that is the averaged gradient. torch.nn.SyncBatchNorm
runs on GPUs only; what it has to compute is torch.nn.BatchNorm2d on the rows of all ranks at once, with the mean over ranks of each
rank's own mean loss. Gradients and running statistics must agree within what fp32 explains (losses.py), and a BatchNorm for each rank
by itself must not. Usage: sync_batchnorm.py DDPROVE SCENARIOS. Exit: 0 all within, 1 not, 77 there is no PyTorch."""
import glob
import importlib.util
import os
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import losses  # noqa: E402

SETTINGS = ("job.steps=1", "job.micro_batches=1", "job.checkpoint_every=1", "job.checkpoint_wrapped=false",
            "job.semantics=strict", "job.bucket_order=reverse", "job.optimizer={kind: sgd, lr: 1}")


def run(ddprove, scenario, folder, batch_per_rank):
    words = [word for one in (*SETTINGS, f"job.batch_per_rank={batch_per_rank}") for word in ("--set", one)]
    subprocess.run([ddprove, "run", scenario, "--driver", "sim", "-j", "1", "--keep", "all", "--out", folder, *words], check=True,
                   stdout=subprocess.DEVNULL)
    return glob.glob(f"{glob.escape(folder)}/**/checkpoint*.safetensors", recursive=True)[0]


def reference(torch, job, initial, data, is_synced):
    """The averaged gradient of step 0, the running statistics after it, and the model."""
    model = losses.build_convnet(torch, job["model"]["widths"])
    model.load_state_dict({name: value.reshape(()) if name.endswith("tracked") else value for name, value in initial.items()})
    model = model.double()
    ranks = [rank[0] for rank in job["batches"][0]]
    if is_synced:
        out = model(data["features"][[sample for samples in ranks for sample in samples]].double())
        parts = out.split([len(samples) for samples in ranks])
    else:
        parts = [model(data["features"][samples].double()) for samples in ranks]
    loss = sum(torch.nn.functional.cross_entropy(part, data["labels"][samples].reshape(-1).long())
               for part, samples in zip(parts, ranks)) / len(ranks)
    loss.backward()
    return {name: param.grad for name, param in model.named_parameters()}, dict(model.named_buffers())


def compare(torch, ddprove, scenario, top, batch_per_rank):
    folder = os.path.join(top, "export" + batch_per_rank)
    words = ("job.steps=1", "job.micro_batches=1", "job.semantics=strict", f"job.batch_per_rank={batch_per_rank}",
             "job.bucket_order=reverse")
    job = losses.export(ddprove, scenario, folder, *words)
    initial, data = losses.read(torch, f"{folder}/initial.safetensors"), losses.read(torch, f"{folder}/data.safetensors")
    after = losses.read(torch, run(ddprove, scenario, os.path.join(top, "run" + batch_per_rank), batch_per_rank))
    gradient, buffers = reference(torch, job, initial, data, True)
    other, _ = reference(torch, job, initial, data, False)
    size = sum(float(value.square().sum()) for value in gradient.values()) ** 0.5
    wrong, worst, is_seen = [], 0.0, False
    for name, value in gradient.items():
        bound = losses.GAMMA * size + 2.0**-23 * float(initial[name].abs().max())
        got = initial[name].double() - after[name].double()
        off = float((got - value).abs().max())
        worst = max(worst, off / bound)
        is_seen = is_seen or float((other[name] - value).abs().max()) > 2 * bound
        if not off <= bound:
            wrong.append(f"batches {batch_per_rank}: the gradient of {name} is off by {off:.2g}, more than {bound:.2g}")
    for name, value in buffers.items():
        off = float((after[name].double().reshape(-1) - value.double().reshape(-1)).abs().max())
        bound = losses.GAMMA * (1 + float(value.double().abs().max()))
        if not off <= bound:
            wrong.append(f"batches {batch_per_rank}: {name} is off by {off:.2g}, more than {bound:.2g}")
    if not is_seen:
        wrong.append(f"batches {batch_per_rank}: the bound is too wide to see a BatchNorm for each rank by itself")
    print(f"batches {batch_per_rank}: {len(gradient)} gradients, the worst at {worst:.2g} of its bound, {len(buffers)} buffers")
    return wrong


def main():
    if importlib.util.find_spec("torch") is None:
        print("there is no PyTorch here: pip install torch")
        return 77
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    ddprove, scenarios = sys.argv[1:3]
    wrong = []
    with tempfile.TemporaryDirectory() as top:
        for batch_per_rank in ("[8,8,8,8]", "[2,3,4,5]", "[8,1,3,1]"):
            wrong += compare(torch, ddprove, f"{scenarios}/models/sync_batchnorm.yaml", top, batch_per_rank)
    print("\n".join(wrong) if wrong else "all within their bounds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
