"""How tensors of several ranks, or of a run and its replay, are compared."""
import torch

from . import store


def distance_of(one, other):
    """The largest difference; None if shapes or types differ or one is not there."""
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return None
    difference = (one.double() - other.double()).abs()
    return float(difference.max()) if difference.numel() else 0.0


def distances(pairs):
    """How far two tensors of each name are from each other, where that can be said."""
    return {name: far for name, far in ((name, distance_of(*pair)) for name, pair in pairs.items()) if far is not None}


def is_rounding(one, other, spread=0.0):
    """Whether they differ by no more than additions in another order may, or by little more than a spread."""
    if one is None or other is None or not one.is_floating_point() or not torch.isfinite(one).all():
        return False
    far, size = distance_of(one, other), float(other.double().abs().max()) if other.numel() else 0.0
    return far is not None and far <= max(64 * torch.finfo(one.dtype).eps * size, 16 * spread)


def spreads(ones, others):
    """How far what is played twice lies apart: {name: distance} of what differs. ones, others: [{name: tensor}]; a tensor
    that is there once only is infinitely far."""
    found = {}
    for one, other in zip(ones, others, strict=True):
        for name in set(one) | set(other):
            if not store.same_bits(one.get(name), other.get(name)):
                far = distance_of(one.get(name), other.get(name))
                found[name] = max(found.get(name, 0.0), float("inf") if far is None or far != far else far)
    return found


def factor_of(ones, others):
    """The one factor by which all numbers of some tensors are those of others; None if there is none."""
    one = torch.cat([t.double().reshape(-1) for t in ones])
    other = torch.cat([t.double().reshape(-1) for t in others])
    weight = float((other * other).sum())
    if not weight or not torch.isfinite(one).all():
        return None
    factor = float((one * other).sum()) / weight
    return factor if float((one - factor * other).norm()) <= 1e-5 * float(one.norm()) else None


def camps(values, names):
    """Ranks whose tensors of these names have the same bits: [[rank]]. values: {rank: {name: tensor}}."""
    found = []
    for rank, mine in values.items():
        for camp in found:
            other = values[camp[0]]
            if all(store.same_bits(mine.get(name), other.get(name)) for name in names):
                camp.append(rank)
                break
        else:
            found.append([rank])
    return found


def deviating(camps):
    """Of ranks that differ from each other, those that are not of the largest camp, or all if none is the largest:
    [(ranks, a rank that differs)]."""
    camps = sorted(camps, key=len, reverse=True)
    if len(camps) > 1 and len(camps[0]) > len(camps[1]):
        return [(camp, camps[0][0]) for camp in camps[1:]]
    return [(camp, camps[0][0] if camp is not camps[0] else camps[1][0]) for camp in camps] if len(camps) > 1 else []
