"""Ranks that have come to their ends share out the kept steps among themselves, without waiting for one another.

A step is judged by whoever gets its lock, which goes with its process: a step whose judge was killed is judged by the last
rank. What was told of it is a file."""
import contextlib
import fcntl
import os
import sys

from . import store


def _path(folder, step):
    return os.path.join(folder, "judged", f"step{step}.json")


@contextlib.contextmanager
def _lock(folder, step, is_waiting):
    """Yields whether this process is to judge the step."""
    os.makedirs(os.path.join(folder, "judged"), exist_ok=True)
    with open(_path(folder, step) + ".lock", "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if is_waiting else fcntl.LOCK_NB))
        except OSError:  # somebody else judges it; or there are no locks in this folder: the last rank judges it
            yield is_waiting
            return
        yield not os.path.exists(_path(folder, step))


def _judge(folder, steps, judge_step, is_waiting):
    for step in steps:
        with _lock(folder, step, is_waiting) as is_mine:
            if is_mine:
                store.write_json(_path(folder, step), judge_step(step))


def part(folder, steps, judge_step):
    """Of each rank: judge what nobody judges yet."""
    try:
        _judge(folder, steps, judge_step, False)
    except Exception as error:  # the last rank judges it again, and says so if that fails, too
        print(f"ddprove: a step is left to the last rank: {type(error).__name__}: {error}", file=sys.stderr)


def rest(folder, steps, judge_step):
    """Of the last rank, which has taken its part: {step: what was told of it}, of all steps."""
    _judge(folder, steps, judge_step, True)
    return {step: store.read_json(_path(folder, step)) for step in steps}
