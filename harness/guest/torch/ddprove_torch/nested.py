"""An optimizer may step another one inside of its own step, as one does that shares its state out among the ranks and hands
the parameters out behind it. That is one update, and over when the outer one is."""

_inside = []  # ids of optimizers whose step is under way, the outermost first


def begin(optimizer):
    """A step that failed never ended: it ends when its optimizer begins another one."""
    end(optimizer)
    _inside.append(id(optimizer))


def end(optimizer):
    if id(optimizer) in _inside:
        del _inside[_inside.index(id(optimizer)):]


def is_inner(optimizer):
    return bool(_inside) and _inside[0] != id(optimizer)
