"""`ddprove exec --prove equivalence`: what PyTorch's import starts in each process, and what ends it.

The environment says what is wanted: DDPROVE_PROVE, the run folder; DDPROVE_PROVE_STEPS, the steps to keep ("0,1,7",
"all"). As ranks end, they play all ranks' kept steps again and judge them, each as many as it gets at (share.py); the
last one says what was found, and `python -m ddprove_torch.proof DIR` prints it."""
import multiprocessing.util
import os
import sys

FOLDER, STEPS = "DDPROVE_PROVE", "DDPROVE_PROVE_STEPS"


def steps_of(text):
    """None: all."""
    return None if text in ("", "all") else {int(part) for part in text.split(",")}


def load():
    """Entry point of `torch.backends`: runs within `import torch`."""
    folder = os.environ.get(FOLDER)
    if not folder or "RANK" not in os.environ:
        return  # nobody asks, or this is the launcher
    try:
        _load(folder)
    except Exception as error:  # pylint: disable=broad-except
        print(f"ddprove: nothing is proved: {type(error).__name__}: {error}", file=sys.stderr)


def _load(folder):
    from . import compiled, keep, usage
    facts = usage.Usage(folder)
    keeper = keep.Keeper(folder, steps_of(os.environ.get(STEPS, "")), facts)
    facts.keeper = keeper
    compiled.install()
    keep.install(keeper)
    usage.install(facts)
    # At the process's own end, and at that of a child of `multiprocessing`, which runs no exit handlers.
    multiprocessing.util.Finalize(None, finish, args=(keeper, facts), exitpriority=0)


def finish(keeper, facts):
    """This rank has come to its end. Nobody waits for one that has not: whoever ends last judges what the others have
    left over."""
    if not keeper.models:
        return
    keeper.finish()
    facts.write()
    folder, world = keeper.folder, keeper.world
    open(os.path.join(folder, f"rank{keeper.rank}", "end"), "x", encoding="ascii").close()
    from . import equivalence, replay, share, store
    player = replay.Player(keeper)
    whole = [step for step in keeper.kept
             if all(os.path.exists(store.step_path(folder, rank, step)) for rank in range(world))]
    share.part(folder, whole, lambda step: equivalence.judge_step(folder, player, step))
    if not all(os.path.exists(os.path.join(folder, f"rank{rank}", "end")) for rank in range(world)):
        return
    try:
        open(os.path.join(folder, "claimed"), "x", encoding="ascii").close()
    except FileExistsError:
        return  # several ranks saw each other's end; one of them goes on
    equivalence.write(folder, equivalence.judge(folder, player))
