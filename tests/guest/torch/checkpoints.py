"""Two generators of the same shape and a discriminator, as examples of GANs save them: all of them in one file, beside
moving averages of a generator, its best state so far, and halves to be served from. The discriminator's names are some
of a generator's.

    torchrun --nproc-per-node 2 checkpoints.py --checkpoint FILE [--steps 6]
"""
import argparse
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel


class Scaled(nn.Linear):
    """It saves its scale, and says so when it is loaded."""

    scale = 0.5

    def forward(self, x):
        return super().forward(x) * self.scale

    def get_extra_state(self):
        return {"scale": self.scale}

    def set_extra_state(self, state):
        self.scale = state["scale"]


class Net(nn.Sequential):
    def load_state_dict(self, state_dict, strict=True, assign=False):
        return super().load_state_dict(state_dict, strict, assign)


class Average(nn.Module):
    """A moving average, as it is written by hand."""

    def __init__(self, model):
        super().__init__()
        self.module = copy.deepcopy(model)

    @torch.no_grad()
    def update_parameters(self, model):
        for mine, other in zip(self.module.parameters(), model.parameters()):
            mine.lerp_(other, 0.1)


def generator():
    return DDP(Net(Scaled(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16)))


def copied(model):
    """As it is done for models on a GPU."""
    return {name: value.detach().clone() if isinstance(value, torch.Tensor) else value
            for name, value in model.state_dict().items()}


def halves(model):
    return {name: value.half() if isinstance(value, torch.Tensor) else value
            for name, value in model.state_dict().items()}


def save(path, one, other, critic, averages, best, optimizers):
    torch.save({"one": one.state_dict(), "other": copied(other.module), "critic": critic.module.state_dict(),
                "averages": [average.state_dict() for average in averages], "average": averages[0].state_dict(),
                "average_of_wrapped": averages[1].state_dict(), "average_by_hand": averages[2].state_dict(),
                "best": best, "optimizers": [optimizer.state_dict() for optimizer in optimizers]}, path)
    torch.save(best, path + ".best")
    torch.save(averages[0].module.state_dict(), path + ".average")
    torch.save(halves(one.module), path + ".half")


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(7)
    one, other = generator(), generator()
    critic = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    averages = [AveragedModel(one.module), AveragedModel(one), Average(one)]
    optimizer = torch.optim.Adam([p for model in (one, other, critic) for p in model.parameters()], lr=1e-3)
    loss_of = nn.MSELoss()
    best, lowest = copy.deepcopy(one.module.state_dict()), float("inf")
    torch.manual_seed(100 + rank)
    for _ in range(args.steps):
        if rank == 0:
            save(args.checkpoint, one, other, critic, averages, best, [optimizer])
        x, y = torch.randn(16, 8), torch.randn(16, 16)
        losses = []
        optimizer.zero_grad()
        for model, given, wanted in ((one, x, y), (other, x, y), (critic, y, torch.ones(16, 1))):
            losses.append(loss_of(model(given), wanted))
            losses[-1].backward()
        optimizer.step()
        for average in averages:
            average.update_parameters(one.module if average is averages[0] else one)
        if losses[0].item() < lowest:
            best, lowest = copy.deepcopy(one.module.state_dict()), losses[0].item()
    dist.barrier()
    state = torch.load(args.checkpoint, weights_only=True)
    one.load_state_dict(state["one"])
    other.module.load_state_dict(state["other"])
    critic.module.load_state_dict(state["critic"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--checkpoint", default="model.pt")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(args)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
