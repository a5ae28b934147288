"""What is ours never ends the program: functions that the program's own calls run are guarded."""
import functools
import sys

_failed = set()  # what is not watched any more


def guarded(what, otherwise=None):
    """Decorates a function of ours. What goes wrong in it is said once; from then on nothing that is guarded under the
    same words runs, and otherwise(the arguments) is returned in its place, None if there is none."""
    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if what not in _failed:
                try:
                    return function(*args, **kwargs)
                except Exception as error:  # pylint: disable=broad-except
                    _failed.add(what)
                    print(f"ddprove: {what}: not watched any more: {function.__name__}: {type(error).__name__}: {error}",
                          file=sys.stderr)
            return otherwise(*args, **kwargs) if otherwise is not None else None
        return call
    return decorate
