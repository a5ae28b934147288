"""A LightningModule, trained by Lightning's own launcher: the script starts its other ranks itself.

    python in_lightning.py [--ranks 2] [--steps 14]
"""
import argparse

import lightning
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, batch_index):
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=14)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lightning.seed_everything(5, verbose=False)
    count = args.steps * 16 * args.ranks
    data = TensorDataset(torch.randn(count, 64), torch.randint(10, (count,)))
    trainer = lightning.Trainer(accelerator="cpu", devices=args.ranks, strategy="ddp", max_epochs=1, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Digits(), DataLoader(data, batch_size=16))


if __name__ == "__main__":
    main()
