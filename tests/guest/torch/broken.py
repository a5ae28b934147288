"""Broken variants of the scripts beside it: each is one line of a script, written otherwise.

    python3 broken.py                                                    print the table
    torchrun --nproc-per-node 2 broken.py forgotten_set_epoch --steps 20     run one

A variant is the script with a line (or a few) replaced, compiled under the script's own name."""
import os
import sys
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Variant:
    script: str
    line: str  # stands in the script once
    instead: str
    wrong: str  # what is wrong with it
    verdict: str  # what ddprove says
    words: str  # what its text says
    args: str = ""


VARIANTS = {
    "forgotten_set_epoch": Variant(
        "mlp_digits.py", "sampler.set_epoch(epoch)", "pass",
        "every epoch has the order of the first", "DATA.ORDER", "set_epoch was not called"),
    "other_shuffle_seeds": Variant(
        "mlp_digits.py", "shuffle=True, seed=args.seed)", "shuffle=True, seed=args.seed + rank)",
        "shards of different permutations overlap", "DATA.DUPLICATED", "different seeds"),
    "same_shard": Variant(
        "mlp_digits.py", "num_replicas=world, rank=rank", "num_replicas=world, rank=0",
        "all ranks train on the same shard", "DATA.DUPLICATED", "same samples"),
    "double_division": Variant(
        "mlp_digits.py", "            optimizer.step()\n",
        "            for p in model.parameters(): p.grad /= world\n            optimizer.step()\n",
        "gradients are averaged by hand, as DDP has done already", "VALUE.SCALED", "divided by the number of ranks"),
    "loss_by_world": Variant(
        "mlp_digits.py", "            loss.backward()", "            (loss / world).backward()",
        "the loss is divided by the ranks, as DDP does", "VALUE.SCALED", "divided by the number of ranks"),
    "loss_by_rank": Variant(
        "mlp_digits.py", "            loss.backward()", "            (loss * (1 + (rank == 1))).backward()",
        "rank 1's loss counts twice", "VALUE.SCALED", "rank 1's 2 of a mean over"),
    "wrong_count": Variant(
        "mlp_digits.py", "F.cross_entropy(model(x), y)",
        'F.cross_entropy(model(x), y, reduction="sum") / (args.batch * world)',
        "a sum is divided by the global count, and DDP divides again", "VALUE.SCALED",
        "divided by the number of ranks"),
    "seed_reset": Variant(
        "mlp_digits.py", "            optimizer.zero_grad()",
        "            torch.manual_seed(args.seed + rank); optimizer.zero_grad()",
        "dropout leaves out the same units in each step", "VALUE.STALE", "generator is set back"),
    "other_start": Variant(
        "mlp_digits.py", "    model = MLP()\n    model = DDP(model)",
        "    torch.manual_seed(rank)\n    model = MLP()\n    model = DDP(model, init_sync=False)",
        "each rank starts from a model of its own", "VALUE.DIVERGED", "as step 0 begins"),
    "zero_grad_left_out": Variant(
        "mlp_digits.py", "            optimizer.zero_grad()",
        "            if rank != 1: optimizer.zero_grad()",
        "rank 1 adds to the gradients of the step before", "VALUE.STALE", "zero_grad() left out"),
    "copied_model": Variant(
        "mlp_digits.py", "    model = DDP(model)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n"
        "    import copy; model = DDP(copy.deepcopy(model))",
        "the optimizer updates the original, a copy is trained", "VALUE.STALE", "a copy of the model"),
    "rank_in_forward": Variant(
        "mlp_digits.py", "return self.fc2(self.drop(F.relu(self.fc1(x))))",
        "h = F.relu(self.fc1(x)); return self.fc2(self.drop(h) if dist.get_rank() == 0 else h)",
        "rank 0 computes another function", "MISMATCH.MODEL", "depends on the rank"),
    "rank_in_module": Variant(
        "mlp_digits.py", "    model = MLP()\n", "    model = MLP()\n    model.drop.p = 0.1 * (rank + 1)\n",
        "each rank drops another share of the units", "MISMATCH.MODEL", "drop.p"),
    "other_learning_rate": Variant(
        "mlp_digits.py", "lr=0.1, momentum", "lr=0.1 + 0.01 * rank, momentum",
        "each rank steps with a rate of its own", "VALUE.DIVERGED", "told another lr"),
    "bypassed": Variant(
        "mlp_digits.py", "F.cross_entropy(model(x), y)", "F.cross_entropy(model.module(x), y)",
        "the pass does not go through DDP, nothing is reduced", "VALUE.LOST", ".module"),
    "checkpoint_by_all": Variant(
        "mlp_digits.py", "if args.checkpoint and rank == 0:", "if args.checkpoint:",
        "all ranks write the same file", "CHECKPOINT.CLOBBERED", "same file", "--checkpoint {file}"),
    "prefix_lost": Variant(
        "mlp_digits.py", "    if rank == 0:\n        print(",
        '    model.load_state_dict(torch.load(args.checkpoint, weights_only=True)["model"], strict=False)\n'
        "    if rank == 0:\n        print(",
        "keys without `module.` are loaded into the wrapped model, which ignores them all", "CHECKPOINT.PREFIX",
        "leaves 4 tensors as they were", "--checkpoint {file}"),
    "half_checkpoint": Variant(
        "mlp_digits.py", '"model": model.module.state_dict()',
        '"model": {k: v.half() for k, v in model.module.state_dict().items()}',
        "the checkpoint holds fewer bits than the model", "CHECKPOINT.DTYPE", "another type", "--checkpoint {file}"),
    "copy_under_two_prefixes": Variant(
        "checkpoints.py", 'torch.save(best, path + ".best")',
        'torch.save({f"module.module.{k}": v for k, v in copied(one.module).items()}, path + ".best")',
        "a copy of the state is saved under names with two prefixes", "CHECKPOINT.PREFIX", "begin with module.module.",
        "--checkpoint {file}"),
    "copy_lacks_a_name": Variant(
        "checkpoints.py", 'torch.save(best, path + ".best")',
        'torch.save({k: v for k, v in copied(one.module).items() if k != "2.bias"}, path + ".best")',
        "a copy of the state has not all of it", "CHECKPOINT.KEYS", "1 missing, 0 unexpected", "--checkpoint {file}"),
    "name_of_another_tensor": Variant(
        "checkpoints.py", '"one": one.state_dict()',
        '"one": {**one.state_dict(), "module.2.bias": one.module[0].bias.detach()}',
        "one bias is saved under the names of two", "CHECKPOINT.STALE", "of other names", "--checkpoint {file}"),
    "buffers_diverge": Variant(
        "convnet.py", "DDP(ConvNet())", "DDP(ConvNet(), broadcast_buffers=False)",
        "each rank has running means of its own", "VALUE.DIVERGED", "broadcast_buffers is off"),
    "checkpoint_of_rank_1": Variant(
        "convnet.py", "        if rank == 0 and args.checkpoint:", "        if rank == 1 and args.checkpoint:",
        "rank 1's running means are saved, rank 0's are trained with", "CHECKPOINT.STATE", "rank 1 saves",
        "--checkpoint {file}"),
    "clip_by_hook": Variant(
        "convnet.py", "    model = DDP(ConvNet())\n",
        "    model = DDP(ConvNet())\n"
        "    for p in model.parameters(): p.register_hook(lambda g: g.clamp(-1e-3, 1e-3))\n",
        "each rank's gradient is clipped before the reduction", "VALUE.SCALED", "clipping before the reduction"),
    "clip_each_micro": Variant(
        "gpt.py", "                (loss / args.accumulate).backward()",
        "                (loss / args.accumulate).backward()\n"
        "                nn.utils.clip_grad_norm_(model.parameters(), 0.1)",
        "gradients are clipped before they are reduced", "VALUE.SCALED", "before the gradients are reduced"),
    "no_sync_throughout": Variant(
        "gpt.py", "is_last = micro == args.accumulate - 1", "is_last = False",
        "the last micro-batch is not reduced either", "USAGE.NO_SYNC", "never reduced"),
    "untied": Variant(
        "gpt.py", "    model = DDP(GPT())\n",
        "    model = DDP(GPT())\n"
        "    model.module.head.weight = nn.Parameter(model.module.tok.weight.detach().clone())\n",
        "weights that DDP knows as one are two", "VALUE.LOST", "another parameter than the one"),
    "reduced_again": Variant(
        "moe.py", "        optimizer.step()\n",
        "        for p in model.parameters():\n            if p.grad is not None: dist.all_reduce(p.grad)\n"
        "        optimizer.step()\n",
        "gradients that DDP has reduced are summed over the ranks once more", "VALUE.SCALED", "times as large"),
    "clip_as_accumulated": Variant(
        "moe.py", "    optimizer = ",
        "    for p in model.parameters():\n"
        "        p.register_post_accumulate_grad_hook(lambda q: (q.grad.clamp_(-1e-3, 1e-3), None)[1])\n"
        "    optimizer = ",
        "each rank's gradient is clipped as it is accumulated, before the reduction", "VALUE.CORRUPTED",
        "as it is accumulated"),
    "rank_in_optimizer": Variant(
        "moe.py", "    optimizer = torch.optim.SGD(",
        "    class Decay(torch.optim.SGD):\n        def step(self, closure=None):\n"
        "            self.param_groups[0]['weight_decay'] = 1e-3 * dist.get_rank()\n"
        "            return super().step(closure)\n    optimizer = Decay(",
        "each rank's weights decay at a rate of its own", "VALUE.CORRUPTED", "what the optimizer makes of those"),
    "one_of_two_updates": Variant(
        "two_models.py", "        of_generator.step()\n",
        "        if dist.get_rank() != 1 or len(of_generator.state) == 0: of_generator.step()\n",
        "rank 1 updates its generator once", "VALUE.STALE", "not end with the same optimizer"),
    "lost_update": Variant(
        "moe.py", "        optimizer.step()\n",
        "        optimizer.step()\n        if rank == 0: model.module.gate.bias.data.clamp_(-0.01, 0.01)\n",
        "one rank changes its parameters behind the optimizer", "VALUE.DIVERGED", "gate.bias"),
    "grad_changed_on_one_rank": Variant(
        "moe.py", "        optimizer.step()\n",
        "        if rank == 1: model.module.gate.weight.grad.zero_()\n        optimizer.step()\n",
        "one rank changes its reduced gradient", "VALUE.CORRUPTED", "not alike on all ranks"),
}

# Written otherwise too, and right: none of these may be accused. Their verdict is the outcome: PASS, or INCONCLUSIVE
# where something cannot be judged.
HARMLESS = {
    "sum_by_count": Variant(
        "mlp_digits.py", "F.cross_entropy(model(x), y)", 'F.cross_entropy(model(x), y, reduction="sum") / len(y)',
        "a mean, by hand", "PASS", ""),
    "sum_by_global_count": Variant(
        "mlp_digits.py", "F.cross_entropy(model(x), y)",
        "F.cross_entropy(model(x[:8 * (1 + rank)]), y[:8 * (1 + rank)], reduction=\"sum\") / (4 * (world + 1))",
        "a mean over the global batch, of which ranks have other shares", "PASS", ""),
    "zeroed_grads": Variant(
        "mlp_digits.py", "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)",
        "gradients are zeros, not gone", "PASS", ""),
    "two_passes": Variant(
        "mlp_digits.py", "F.cross_entropy(model(x), y)",
        "(F.cross_entropy(model(x[::2]), y[::2]) + F.cross_entropy(model(x[1::2]), y[1::2])) / 2",
        "one backward pass for two forward passes", "PASS", ""),
    "sync_each_micro": Variant(
        "gpt.py", "is_last = micro == args.accumulate - 1", "is_last = True",
        "each micro-batch is reduced", "PASS", ""),
    "grads_are_views": Variant(
        "gpt.py", "DDP(GPT())", "DDP(GPT(), gradient_as_bucket_view=True, bucket_cap_mb=0.01)",
        "gradients lie in small buckets", "PASS", ""),
    "static_graph": Variant(
        "convnet.py", "DDP(ConvNet())", "DDP(ConvNet(), static_graph=True)", "a promise that is kept", "PASS", ""),
    "clip_by_value": Variant(
        "convnet.py", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "nn.utils.clip_grad_value_(model.parameters(), clip_value=0.01)", "once reduced", "PASS", ""),
    "half_squared_error": Variant(
        "moe.py", "F.mse_loss(out[\"y\"], target) + 0.01 * out[\"balance\"]", "F.mse_loss(out[\"y\"], target) / 2",
        "a half that is not one over the ranks", "PASS", ""),
    "zeroed_before": Variant(
        "moe.py", "        out = model(x)\n", "        optimizer.zero_grad()\n        out = model(x)\n",
        "gradients are gone before the pass too", "PASS", ""),
    "grads_scaled_alike": Variant(
        "uneven.py", "            optimizer.step()",
        "            for p in model.parameters(): p.grad.mul_(0.3)\n            optimizer.step()",
        "a factor of the script's own", "PASS", ""),
    "hook_in_proportion": Variant(
        "convnet.py", "    model = DDP(ConvNet())\n",
        "    model = DDP(ConvNet())\n    model.module.fc.weight.register_hook(lambda g: g * 0.5)\n",
        "half the gradient, on all ranks", "PASS", ""),
    "other_weights_evaluated": Variant(
        "convnet.py", "        accuracy = evaluate(model, loader)",
        "        with torch.no_grad():\n            for p in model.parameters(): p.clamp_(-1, 1)\n"
        "        accuracy = evaluate(model, loader)",
        "parameters are changed alike between steps", "PASS", ""),
    "communication_hook": Variant(
        "uneven.py", "    optimizer = ",
        "    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
        "    model.register_comm_hook(None, default_hooks.fp16_compress_hook)\n    optimizer = ",
        "gradients are reduced by the script's hook", "INCONCLUSIVE", "reduced by a hook"),
    "frozen_later": Variant(
        "mlp_digits.py", "        sampler.set_epoch(epoch)\n",
        "        sampler.set_epoch(epoch)\n        if epoch == 1:\n            model.module.fc1.requires_grad_(False)\n"
        "            model = DDP(model.module)\n"
        "            optimizer = torch.optim.SGD(model.module.fc2.parameters(), lr=0.1)\n",
        "a layer is frozen, and the module wrapped again", "PASS", ""),
    "closure": Variant(
        "mlp_digits.py", "            loss.backward()\n            optimizer.step()\n",
        "            loss.backward()\n            optimizer.step(lambda: F.cross_entropy(model(x), y))\n",
        "the optimizer has the loss worked out once more", "INCONCLUSIVE", "calls a closure"),
    "lbfgs": Variant(
        "mlp_digits.py", "            optimizer.zero_grad()\n            loss = F.cross_entropy(model(x), y)\n"
        "            loss.backward()\n            optimizer.step()\n",
        "            if step == 0: optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)\n"
        "            def closure():\n                optimizer.zero_grad()\n"
        "                loss = F.cross_entropy(model(x), y)\n                loss.backward()\n                return loss\n"
        "            loss = optimizer.step(closure)\n",
        "an optimizer that asks for several passes", "INCONCLUSIVE", "calls a closure"),
    "sparse_gradients": Variant(
        "mlp_digits.py", "class MLP(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc1 = nn.Linear(64, 64)\n",
        "class Words(nn.EmbeddingBag):\n    def forward(self, x):\n        return super().forward((x * 16).long())\n\n\n"
        "class MLP(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc1 = Words(17, 64, sparse=True)\n",
        "an embedding whose gradient is sparse", "INCONCLUSIVE", "is sparse"),
    "compiled": Variant(
        "mlp_digits.py", "    model = DDP(model)\n", "    model = torch.compile(DDP(model), backend='eager')\n",
        "torch.compile writes the passes anew", "INCONCLUSIVE", "torch.compile makes other operators"),
    "made_before": Variant(
        "two_models.py", "criterion(discriminator.module(fake), ", "criterion(discriminator(fake), ",
        "the generator's pass was made before the discriminator's update", "INCONCLUSIVE", "a pass of an earlier step"),
    "past_the_wrapper": Variant(
        "two_models.py", "        of_generator.zero_grad()\n", "        of_generator.zero_grad(set_to_none=True)\n",
        "the script as it is: the generator's loss goes past the discriminator's wrapper", "INCONCLUSIVE",
        "a pass of an earlier step"),
    "through_both": Variant(
        "two_models.py", "criterion(discriminator.module(fake), ", "criterion(discriminator(generator(torch.randn(16, 8))), ",
        "a generator's pass goes on through the discriminator's", "PASS", ""),
    "joined_epochs": Variant(
        "uneven.py", "    with model.join() if args.join else contextlib.nullcontext():\n        for x, y in batches:\n",
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n    for epoch in range(2):\n"
        "      with model.join():\n        for x, y in batches:\n",
        "a rank that has no more samples goes on with the next epoch", "PASS", "", "--join"),
    "played_again": Variant(
        "mlp_digits.py", "return self.fc2(self.drop(F.relu(self.fc1(x))))",
        "from torch.utils.checkpoint import checkpoint; return self.fc2(self.drop(checkpoint("
        "lambda v: F.relu(self.fc1(v)), x.requires_grad_(), use_reentrant=True)))",
        "a part of the pass is made again inside of the backward pass", "PASS", ""),
    "unrepeatable": Variant(
        "mlp_digits.py", "return self.fc2(self.drop(F.relu(self.fc1(x))))",
        "import random; h = F.relu(self.fc1(x)); h.requires_grad and h.register_hook("
        "lambda g: g * (1 + 1e-6 * torch.rand(g.shape, generator=torch.Generator().manual_seed("
        "random.SystemRandom().getrandbits(32))))); return self.fc2(self.drop(h))",
        "a backward pass does not come out alike each time, as on GPUs", "INCONCLUSIVE", "does not repeat"),
    "penalty_past_the_output": Variant(
        "uneven.py", "loss = F.mse_loss(model(x), y)",
        "loss = F.mse_loss(model(x), y) + sum(p.square().sum() for p in model.parameters()) * 1e-3",
        "the loss takes parameters past the output", "INCONCLUSIVE", "past the module's output"),
}

# Ranks that do not post the same calls: `ddprove exec` says so while they wait.
STUCK = {
    "evaluated_on_rank_0": Variant(
        "convnet.py", "        accuracy = evaluate(model, loader)",
        "        accuracy = evaluate(model, loader) if rank == 0 else 0.0",
        "the evaluation's collectives are posted by rank 0 alone", "MISMATCH.EXTRA", "rank 0 posted"),
    "returns_early": Variant(
        "mlp_digits.py", "            loss.backward()",
        "            if rank == 1 and step == 3: return\n            loss.backward()",
        "rank 1 is done before the others", "CRASH.FINISHED_EARLY", "rank 1"),
    "step_left_out": Variant(
        "mlp_digits.py", "            loss.backward()",
        "            if rank == 1 and step == 3: step += 1; continue\n            loss.backward()",
        "rank 1 leaves out a backward pass, and is done sooner", "MISMATCH.OP", "rank 1 posted barrier"),
}


def source_of(variant):
    with open(os.path.join(HERE, variant.script), encoding="utf-8") as file:
        text = file.read()
    if text.count(variant.line) != 1:
        raise SystemExit(f"{variant.script}: {variant.line!r} stands there {text.count(variant.line)} times")
    return text.replace(variant.line, variant.instead)


def main():
    if len(sys.argv) < 2:
        for name, variant in {**VARIANTS, **HARMLESS, **STUCK}.items():
            source_of(variant)
            print(f"{name:26} {variant.script:14} {variant.verdict:22} {variant.wrong}")
        return
    variant = {**VARIANTS, **HARMLESS, **STUCK}[sys.argv.pop(1)]
    path = os.path.join(HERE, variant.script)
    sys.argv[0] = path
    exec(compile(source_of(variant), path, "exec"), {"__name__": "__main__", "__file__": path})


if __name__ == "__main__":
    main()
