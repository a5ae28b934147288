#!/usr/bin/env python3
"""Mutants of the proof: each takes one check out of `ddprove exec --prove equivalence`, or makes it wrong. With it a
broken script that this check alone finds must pass or be called something else, or a correct one must be accused;
without it, as it is in the tree, the same script is called what it is.

Usage: mutants.py [--ranks 2] [--only NAME]
Exit: 0 all are noticed, 1 not, 77 this Python has no PyTorch."""
import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile

SCRIPTS = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(SCRIPTS, "../../../harness/guest/torch/ddprove_torch")
STEPS = 10

# name: (file, text there, once; what stands in its place; who notices: a variant of broken.py, or a correct script)
MUTANTS = {
    "replicas_not_compared": ("steps.py", "        for ranks, other in deviating(camps(",
                              "        for ranks, other in [] and (camps(", "other_start"),
    "options_not_compared": ("alike.py", "alike.setdefault(repr(groups), []).append(rank)",
                             "alike.setdefault(0, []).append(rank)", "other_learning_rate"),
    "buffers_not_compared": ("steps.py", "                if wrong:\n                    why =",
                             "                if False:\n                    why =", "buffers_diverge"),
    "random_numbers_not_remembered": ("equivalence.py", "self.drawn.setdefault((rank, number, state), step)", "step",
                                      "seed_reset"),
    "what_is_told_forgotten": ("equivalence.py", "        for name, values in told:\n", "        for name, values in told[:1]:\n",
                               "grad_changed_on_one_rank"),
    "state_of_the_step_before": ("store.py", "    return type(value).__name__ == kind and len(value) == len(kept) and all(",
                                 "    return True or all(", "gpt"),
    "gradients_not_compared": ("steps.py", "if name not in past and not store.same_bits(*pair)",
                               "if False and not store.same_bits(*pair)", "rank_in_forward"),
    "reduced_not_compared": ("steps.py", "        if real:\n            self.name_reduced(",
                             "        if False:\n            self.name_reduced(", "clip_as_accumulated"),
    "not_reduced_not_seen": ("steps.py", "if all(event[\"sync\"] for event in last):", "if True:", "no_sync_throughout"),
    "summed_again_not_seen": ("steps.py", "elif self.world > 1 and factor != 1 and abs(total / self.world - 1) < 1e-4:",
                              "elif self.world > 9:", "reduced_again"),
    "divided_loss_not_seen": ("steps.py", "if self.world > 1 and abs(total * self.world - 1) < 1e-4 and",
                              "if self.world > 9 and abs(total * self.world - 1) < 1e-4 and", "double_division"),
    "unequal_losses_not_seen": ("steps.py", "if len(weighed) == self.world else []", "if False else []", "loss_by_rank"),
    "updates_not_aligned": ("alike.py", "        if \"updated\" in record:\n", "        if False:\n", "one_of_two_updates"),
    "left_gradients_not_seen": ("alike.py", "    if not all(camps):", "    if True:", "zero_grad_left_out"),
    "updates_not_compared": ("steps.py", "        elif wrong:\n            self.find(\"update\",",
                             "        elif False:\n            self.find(\"update\",", "rank_in_optimizer"),
    "averages_not_looked_for": ("states.py", "else is_held([mine for _, mine, _ in others]))", "else False)",
                                "checkpoints --checkpoint {file}"),
    "names_of_others_not_seen": ("states.py", "if key[bare:] not in self", "if key[bare:] not in self.model.live and self",
                                 "name_of_another_tensor"),
    "keys_of_copies_not_seen": ("states.py", "exact or found if (is_asked", "exact if (is_asked", "copy_lacks_a_name"),
    "divisor_forgotten": ("steps.py", "scale_by = 1.0 / self.divisor(ranks)", "scale_by = 1.0", "moe"),
}


def mutated(folder, mutant):
    """A copy of the package with the mutant; None: as it is."""
    shutil.copytree(PACKAGE, os.path.join(folder, "ddprove_torch"), ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is None:
        return
    file, text, instead, _ = MUTANTS[mutant]
    path = os.path.join(folder, "ddprove_torch", file)
    with open(path, encoding="utf-8") as source:
        whole = source.read()
    if whole.count(text) != 1:
        sys.exit(f"mutant {mutant}: {file} holds its text {whole.count(text)} times; give it another one")
    with open(path, "w", encoding="utf-8") as source:
        source.write(whole.replace(text, instead))


def prove_with(mutant, command, ranks):
    """(outcome, verdict, what is said) of a proof by the mutant; in a process of its own, since the package is loaded once."""
    with tempfile.TemporaryDirectory() as folder:
        mutated(folder, mutant)
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            sys.path.insert(0, folder)
            import ddprove_torch
            assert ddprove_torch.__path__[0].startswith(folder)
            import ranks as jobs
            proof = jobs.prove(command, ranks, STEPS)
            said = next((f["text"] for f in proof["findings"] if f["explained_by"] is None), "")
            os.write(into, json.dumps([proof["outcome"], proof["verdict"], said]).encode())
            os._exit(0)
        os.close(into)
        with os.fdopen(out) as said:
            text = said.read()
        os.waitpid(child, 0)
    return json.loads(text) if text else ["ERROR", "NONE", ""]


def case_of(name):
    """(command, (outcome, verdict, words)) of a script or variant."""
    import broken
    if name in broken.VARIANTS:
        variant = broken.VARIANTS[name]
        return f"broken.py {name} {variant.args}", ("FAIL", variant.verdict, variant.words)
    script, *arguments = name.split()
    return " ".join([f"{script}.py", *arguments]), ("PASS", "NONE", "")


def is_as(found, expected):
    return tuple(found[:2]) == expected[:2] and expected[2] in found[2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("there is no PyTorch here: pip install torch")
        return 77
    sys.path.insert(0, SCRIPTS)
    import torch
    import torch._dynamo  # noqa: F401  an optimizer imports it at its first step
    torch.set_num_threads(1)
    right, wrong = {}, 0
    for mutant in [name for name in MUTANTS if args.only in name]:
        command, expected = case_of(MUTANTS[mutant][3])
        if command not in right:
            right[command] = prove_with(None, command, args.ranks)
        found = prove_with(mutant, command, args.ranks)
        is_noticed = is_as(right[command], expected) and not is_as(found, expected)
        wrong += not is_noticed
        print(f"{'noticed' if is_noticed else 'LIVES'}  {mutant}: {MUTANTS[mutant][3]}, {args.ranks} ranks, is "
              f"{' '.join(found)}; by the proof as it is {' '.join(right[command])}", flush=True)
    print(f"{len([name for name in MUTANTS if args.only in name])} mutants, {wrong} live")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
