"""Proves the scripts of tests/guest/torch and their broken variants, and prints what was said of each.

    python3 ci/torch_variants.py [--ranks 2,4] [--only NAME,...] [--steps 20] >ci/results/torch_variants.txt

Run it with a Python that has PyTorch. Ranks are forked from this process, so that PyTorch is imported once; how a
launcher starts them is tested elsewhere. Exit status 1 if a correct script is accused or not proved, or a variant is
not called what it is; 77 where there is no PyTorch."""
import argparse
import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPTS = os.path.join(ROOT, "tests/guest/torch")
PACKAGE = os.path.join(ROOT, "harness/guest/torch")
sys.path[:0] = [SCRIPTS, PACKAGE]

import broken  # noqa: E402
import ranks as jobs  # noqa: E402
from ddprove_torch import proof as proofs  # noqa: E402

CORRECT = {"mlp_digits": "mlp_digits.py --checkpoint {file}", "convnet": "convnet.py --checkpoint {file}",
           "checkpoints": "checkpoints.py --checkpoint {file}", "gpt": "gpt.py",
           "moe": "moe.py", "uneven": "uneven.py", "uneven --join": "uneven.py --join"}
def said(proof):
    """The first finding that nothing explains, in words."""
    for finding in proof["findings"]:
        if finding["explained_by"] is None:
            names = f" ({', '.join(finding['parameters'][:2])}{', ...' if len(finding['parameters']) > 2 else ''})"
            return (f"rank {proofs.numbers(finding['ranks'])}, step {finding['step']}"
                    f"{names if finding['parameters'] else ''}: {finding['text']}")
    why = [entry["why"] for entry in proof["not_judged"]]
    return f"not judged: {why[0]}" if why else ", ".join(f"{k} {v}" for k, v in sorted(proof["judged"].items()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("there is no PyTorch here: pip install torch")
        return 77
    torch = jobs.warm_up()
    print(f"PyTorch {torch.__version__}, gloo, {args.steps} steps")
    cases = [(name, command, "PASS", "NONE", "") for name, command in CORRECT.items()]
    cases += [(name, f"broken.py {name} {v.args}", "FAIL", v.verdict, v.words) for name, v in broken.VARIANTS.items()]
    cases += [(name, f"broken.py {name} {v.args}", v.verdict, "NONE", v.words) for name, v in broken.HARMLESS.items()]
    wrong = total = 0
    print(f"{'script or variant':25} ranks outcome      verdict                what is said")
    for ranks in map(int, args.ranks.split(",")):
        for name, command, outcome, verdict, words in cases:
            if args.only and name not in args.only.split(","):
                continue
            proof = jobs.prove(command, ranks, args.steps)
            text = said(proof)
            is_right = (proof["outcome"], proof["verdict"]) == (outcome, verdict) and words in text
            wrong, total = wrong + (not is_right), total + 1
            print(f"{name:25} {ranks:5} {proof['outcome']:12} {proof['verdict']:22} {text}"
                  f"{'' if is_right else f'   WRONG: {outcome} {verdict} {words} is right'}", flush=True)
    print(f"{total - wrong} of {total} right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
