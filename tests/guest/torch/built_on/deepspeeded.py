"""A training loop with DeepSpeed's engine on the CPU, ZeRO stage 0 or 1.

    DS_ACCELERATOR=cpu torchrun --nproc-per-node 2 deepspeeded.py [--stage 1] [--steps 14]
"""
import argparse
import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--steps", type=int, default=14)
    args = parser.parse_args()
    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        config={"train_micro_batch_size_per_gpu": 16, "zero_optimization": {"stage": args.stage},
                "zero_allow_untested_optimizer": True, "steps_per_print": 1000000})
    torch.manual_seed(torch.distributed.get_rank())
    loss_function = nn.CrossEntropyLoss()
    for _ in range(args.steps):
        loss = loss_function(engine(torch.randn(16, 64)), torch.randint(10, (16,)))
        engine.backward(loss)
        engine.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
