"""A training loop with Hugging Face Accelerate, as its quick tour has it.

    torchrun --nproc-per-node 2 accelerated.py [--steps 14]
"""
import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=14)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(5)
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    count = args.steps * 16 * accelerator.num_processes
    data = TensorDataset(torch.randn(count, 64), torch.randint(10, (count,)))
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=16, shuffle=True))
    loss_function = nn.CrossEntropyLoss()
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = loss_function(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        losses = accelerator.gather(loss.detach())
    accelerator.wait_for_everyone()
    accelerator.print(f"loss {losses.mean().item():.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
