"""Proves the scripts of tests/guest/torch and their broken variants, and prints what was said of each.

    python3 ci/torch_variants.py [--ddprove build/bin/ddprove] [--ranks 2,4] [--only NAME,...] [--steps 20]

Run it with a Python that has PyTorch. Ranks are forked from this process, so that PyTorch is imported once; how a
launcher starts them is tested elsewhere. Variants whose ranks wait for each other for ever run under `ddprove exec`, if
it is given: nothing of theirs can be proved. Exit status 1 if a correct script is accused or not proved, or a variant
is not called what it is; 77 where there is no PyTorch."""
import argparse
import importlib.util
import os
import re
import subprocess
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
STUCK_LIMIT_S = 600
PAGE = os.path.join(PACKAGE, "PROVE.md")


def count_variants():
    """Whether the page says how many broken variants there are, and a line that does."""
    hang, right = len(broken.STUCK), len(broken.HARMLESS)
    count = len(broken.VARIANTS) + hang
    with open(PAGE, encoding="utf-8") as file:
        stated = re.findall(r"(\d+) broken variants of them, of which (\d+) hang", file.read())
    is_stated = stated == [(str(count), str(hang))]
    line = f"{len(CORRECT)} scripts, {count} broken variants of them, of which {hang} hang, and {right} that are right"
    return is_stated, line + ("" if is_stated else f"   WRONG: PROVE.md says {stated}")


def steps_for(script, command, ranks, steps):
    """What to ask for, so that so many steps are proved. uneven.py ends with the last rank's shard, which is shorter."""
    return steps + 2 * (ranks - 1) if script == "uneven.py" and "--join" not in command else steps


def said(proof):
    """The first finding that nothing explains, in words."""
    for finding in proof["findings"]:
        if finding["explained_by"] is None:
            names = f" ({', '.join(finding['parameters'][:2])}{', ...' if len(finding['parameters']) > 2 else ''})"
            return (f"rank {proofs.numbers(finding['ranks'])}, step {finding['step']}"
                    f"{names if finding['parameters'] else ''}: {finding['text']}")
    why = [entry["why"] for entry in proof["not_judged"]]
    return f"not judged: {why[0]}" if why else ", ".join(f"{k} {v}" for k, v in sorted(proof["judged"].items()))


def watched(ddprove, name, ranks, steps):
    """What `ddprove exec` says first of a variant that hangs: verdict, ranks and sentence."""
    command = [ddprove, "exec", "--limit", "60", "--ranks", str(ranks), "--adapter", "torch", "--", sys.executable,
               os.path.join(SCRIPTS, "broken.py"), name, "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=STUCK_LIMIT_S,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    found = re.search(r"^ddprove: ([A-Z_]+\.[A-Z_]+), rank ([\d, ]+): (.*)", done.stderr, re.M)
    return found.groups() if found else ("NONE", "", (done.stderr.splitlines() or ["nothing"])[-1])


def run_stuck(args, ranks):
    """How many of the variants that hang were not called what they are, and how many there are."""
    wrong = total = 0
    for name, variant in broken.STUCK.items() if args.ddprove else ():
        if args.only and name not in args.only.split(","):
            continue
        verdict, culprits, text = watched(args.ddprove, name, ranks, args.steps)
        is_right = verdict == variant.verdict and variant.words in text
        wrong, total = wrong + (not is_right), total + 1
        print(f"{name:25} {ranks:5} {'exec: FAIL' if verdict != 'NONE' else 'exec':12} {verdict:22} "
              f"rank {culprits}: {text}"
              f"{'' if is_right else f'   WRONG: {variant.verdict} {variant.words} is right'}", flush=True)
    return wrong, total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprove")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("there is no PyTorch here: pip install torch")
        return 77
    torch = jobs.warm_up()
    print(f"PyTorch {torch.__version__}, gloo, {args.steps} steps")
    is_stated, line = count_variants()
    print(line)
    cases = [(name, command.split()[0], command, "PASS", "NONE", "") for name, command in CORRECT.items()]
    cases += [(name, v.script, f"broken.py {name} {v.args}", "FAIL", v.verdict, v.words)
              for name, v in broken.VARIANTS.items()]
    cases += [(name, v.script, f"broken.py {name} {v.args}", v.verdict, "NONE", v.words)
              for name, v in broken.HARMLESS.items()]
    wrong = total = 0
    print(f"{'script or variant':25} ranks outcome      verdict                what is said")
    for ranks in map(int, args.ranks.split(",")):
        for name, script, command, outcome, verdict, words in cases:
            if args.only and name not in args.only.split(","):
                continue
            proof = jobs.prove(command, ranks, steps_for(script, command, ranks, args.steps))
            text = said(proof)
            is_right = (proof["outcome"], proof["verdict"]) == (outcome, verdict) and words in text
            wrong, total = wrong + (not is_right), total + 1
            print(f"{name:25} {ranks:5} {proof['outcome']:12} {proof['verdict']:22} {text}"
                  f"{'' if is_right else f'   WRONG: {outcome} {verdict} {words} is right'}", flush=True)
        wrong_stuck, stuck = run_stuck(args, ranks)
        wrong, total = wrong + wrong_stuck, total + stuck
    print(f"{total - wrong} of {total} right")
    return 1 if wrong or not is_stated else 0


if __name__ == "__main__":
    sys.exit(main())
