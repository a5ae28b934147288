"""How DDP on gloo makes one gradient of those of all ranks, bit for bit.

A bucket is what its parameters' gradients are, one behind the other, each multiplied by 1/D. gloo's ring cuts it into a
part for each rank. Part c is begun by rank c - 1, and each next lower rank adds its own; with two ranks there is one
order only."""
import torch

SEGMENT_BYTES_MAX = 1 << 20  # of gloo


def part_elements(count, element_bytes, world):
    """Elements of each rank's part of a ring, as gloo cuts it: segments of equal length, at least two a rank."""
    most = element_bytes * max(1, SEGMENT_BYTES_MAX // element_bytes)
    segments = max(-(-count * element_bytes // most), 2 * world)
    segments = -(-segments // world) * world
    segment_bytes = -(-count * element_bytes // segments)
    segment_bytes = -(-segment_bytes // element_bytes) * element_bytes
    return segments // world * segment_bytes // element_bytes


def add_down(parts, begin):
    """The sum that rank `begin` begins and each next lower one continues."""
    world = len(parts)
    total = parts[begin].clone()
    for distance in range(1, world):
        total = parts[(begin - distance) % world] + total
    return total


class Scratch:
    """Tensors that are used again for the same purpose: memory that is new each time costs more than the sums."""

    def __init__(self):
        self.held = {}

    def take(self, purpose, count, like):
        found = self.held.get(purpose)
        if found is None or found.numel() != count or (found.dtype, found.device) != (like.dtype, like.device):
            found = self.held[purpose] = torch.empty(count, dtype=like.dtype, device=like.device)
        return found


def ring(flat, out=None):
    """The sum of one flat tensor of each rank."""
    world, count = len(flat), flat[0].numel()
    if world == 1:
        return flat[0]
    out = torch.empty_like(flat[0]) if out is None else out
    size = part_elements(count, flat[0].element_size(), world)
    for part in range(world):
        cut = slice(min(count, part * size), min(count, (part + 1) * size))
        total, begin = out[cut], part - 1
        torch.add(flat[(begin - 1) % world][cut], flat[begin % world][cut], out=total)
        for distance in range(2, world):
            torch.add(flat[(begin - distance) % world][cut], total, out=total)
    return out


def cut_up(flat, names, shaped):
    """{name: its part of a flat tensor}."""
    out, place = {}, 0
    for name in names:
        count = shaped[name].numel()
        out[name] = flat[place:place + count].reshape(shaped[name].shape)
        place += count
    return out


def reduce_bucket(names, grads, scale_by, scratch, purpose=()):
    """({name: reduced gradient}, [{name: what the rank puts in}] of each rank). grads: for each rank {name: its gradient
    or None}. Both lie in scratch, until something else is reduced for this purpose."""
    shaped = {name: next((grad[name] for grad in grads if grad[name] is not None), None) for name in names}
    there = [name for name in names if shaped[name] is not None]
    count, flat = sum(shaped[name].numel() for name in there), []
    for rank, grad in enumerate(grads):
        parts = [(grad[name] if grad[name] is not None else torch.zeros_like(shaped[name])).reshape(-1) for name in there]
        flat.append(torch.cat(parts, out=scratch.take((*purpose, rank), count, parts[0])).mul_(scale_by))
    total = ring(flat, scratch.take((*purpose, "sum"), count, flat[0]))
    return cut_up(total, there, shaped), [cut_up(one, there, shaped) for one in flat]


def any_order(values, result):
    """Which elements of a result are the sum of these values, begun by some rank of the ring."""
    found = torch.zeros_like(result, dtype=torch.bool)
    for begin in range(len(values)):
        found |= add_down(values, begin) == result
    return found


def bound(values):
    """How far rounding may carry a sum of these values, in any order, with one rounding of each before."""
    size = sum(value.double().abs() for value in values)
    return 2 * len(values) * torch.finfo(values[0].dtype).eps * size
