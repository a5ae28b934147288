#!/usr/bin/env python3
"""The reference's training step against PyTorch's on the same card: same model, batch, optimizer
and fp32 arithmetic (no TF32). Reads bench_gpu's output for our figures and prints ratios.

Usage: torch_gpu.py --ours FILE [--seconds S]. Exit 77 without PyTorch or a card."""
import argparse
import re
import sys
import time

ROWS = [("MLP-S", [64, 256, 256, 10], 32), ("MLP-L", [784, 1024, 1024, 10], 64)]


def steps_per_second(torch, widths, batch, seconds):
    """Best of six windows; each step is forward, loss to the host, backward, SGD, as ours."""
    torch.manual_seed(1)
    layers = []
    for i in range(len(widths) - 1):
        layers.append(torch.nn.Linear(widths[i], widths[i + 1]))
        if i + 2 < len(widths):
            layers.append(torch.nn.ReLU())
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    features = torch.randn(4096, widths[0])
    labels = torch.randint(0, widths[-1], (4096,))
    step = 0

    def train():
        nonlocal step
        rows = torch.arange(step * batch, (step + 1) * batch) % 4096
        x = features[rows].cuda(non_blocking=True)
        y = labels[rows].cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        value = loss.item()
        loss.backward()
        optimizer.step()
        step += 1
        return value

    for _ in range(50):
        train()
    best = 0.0
    for _ in range(6):
        torch.cuda.synchronize()
        begin, first = time.monotonic(), step
        while time.monotonic() - begin < seconds / 6:
            train()
        torch.cuda.synchronize()
        best = max(best, (step - first) / (time.monotonic() - begin))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return 77
    if not torch.cuda.is_available():
        print("PyTorch sees no card")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    with open(options.ours, encoding="utf-8") as file:
        ours = dict(re.findall(r"^reference (\S+) batch \d+: (\d+) steps/s", file.read(), re.M))
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name(0)}")
    for name, widths, batch in ROWS:
        if name not in ours:
            print(f"{name}: bench_gpu printed no figure for it")
            return 1
        peer = steps_per_second(torch, widths, batch, options.seconds)
        print(f"step {name}: ours {ours[name]}, PyTorch {peer:.0f} steps/s, ratio "
              f"{float(ours[name]) / peer:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
