"""A small GPT with tied weights: AdamW, bf16 autocast, gradients accumulated over micro-batches with no_sync, clipped
once they are reduced, a cosine learning rate.

    torchrun --nproc-per-node 2 gpt.py --steps 20
"""
import argparse
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 64, 16, 32, 4, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.ln2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).reshape(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCABULARY, WIDTH)
        self.pos = nn.Embedding(CONTEXT, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, tokens, targets):
        x = self.drop(self.tok(tokens) + self.pos(torch.arange(tokens.shape[1])))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def draw_batch(generator, batch):
    """Text of a kind: each token is mostly the one before it and three."""
    start = torch.randint(VOCABULARY, (batch, 1), generator=generator)
    noise = torch.randint(2, (batch, CONTEXT + 1), generator=generator)
    text = (start + 3 * torch.arange(CONTEXT + 1) + noise) % VOCABULARY
    return text[:, :-1], text[:, 1:]


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = DDP(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    torch.manual_seed(args.seed + 1 + rank)
    generator = torch.Generator().manual_seed(args.seed * 1000 + rank)
    for step in range(args.steps):
        optimizer.zero_grad()
        for micro in range(args.accumulate):
            tokens, targets = draw_batch(generator, args.batch)
            is_last = micro == args.accumulate - 1
            with contextlib.nullcontext() if is_last else model.no_sync():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    _, loss = model(tokens, targets)
                (loss / args.accumulate).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    if rank == 0:
        print(f"step {args.steps} loss {loss.item():.6f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
