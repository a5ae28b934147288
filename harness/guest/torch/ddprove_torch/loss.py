"""What can be told from a loss's graph: how much its elements weigh, and whether it reaches parameters past the
module's output.

A loss that one device would take as a mean over the global batch weighs one in all: each of n elements 1/n, since DDP
divides by the ranks itself. A loss that was divided by their number as well weighs 1/ranks. Only graphs that are a sum
of scaled means and sums are understood; of others nothing is said."""

MEAN, SUM = 1, 2
WITH_REDUCTION = ("NllLossBackward", "NllLoss2DBackward", "MseLossBackward", "L1LossBackward", "SmoothL1LossBackward",
                  "HuberLossBackward", "BinaryCrossEntropyBackward", "BinaryCrossEntropyWithLogitsBackward")
PASSED = ("ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward", "SqueezeBackward", "ToCopyBackward",
          "CloneBackward", "AliasBackward")


def kind_of(node):
    return node.name().rstrip("0123456789")


def number_in(node):
    """The other operand of a product or a quotient, if it is one number that takes no gradient."""
    other = getattr(node, "_saved_other", None)
    if other is None or other.numel() != 1 or other.requires_grad:
        return None
    return float(other)


def elements_of(node):
    """How many elements a loss of this kind is taken over."""
    target = getattr(node, "_saved_target", None)
    if target is None:
        target = getattr(node, "_saved_self", None)
    if target is None:
        return None
    ignored = getattr(node, "_saved_ignore_index", None)
    if kind_of(node).startswith("NllLoss") and ignored is not None:
        return int((target != ignored).sum())
    return target.numel()


def sum_elements(node):
    sizes = getattr(node, "_saved_self_sym_sizes", None)
    count = 1
    for size in sizes or ():
        count *= int(size)
    return count if sizes is not None else None


def terms(root):
    """The loss's parts as [{"kind", "elements", "weight", "divided"}], the weight being that of all elements together,
    divided whether a number divides it on the way; None if some part is not understood."""
    found = []
    stack = [(root, 0, 1.0, False)]
    while stack:
        node, output, factor, divided = stack.pop()
        kind = kind_of(node)
        below = [edge for edge in node.next_functions if edge[0] is not None]
        if kind in ("DivBackward", "MulBackward"):
            number = number_in(node)
            if not number or len(below) != 1:
                return None
            by = kind == "DivBackward"
            stack.append((*below[0], factor / number if by else factor * number, divided or by))
        elif kind == "AddBackward":
            stack += [(*edge, factor, divided) for edge in below]
        elif kind in PASSED and len(below) == 1:
            stack.append((*below[0], factor, divided))
        elif kind == "_DDPSinkBackward":
            stack.append((*edges_of(node, output)[0], factor, divided))
        elif kind in WITH_REDUCTION and node._saved_reduction in (MEAN, SUM):
            count = elements_of(node)
            if not count:
                return None
            found.append({"kind": kind, "elements": count, "divided": divided,
                          "weight": factor * (count if node._saved_reduction == SUM else 1)})
        elif kind == "MeanBackward":
            found.append({"kind": "mean", "elements": sum_elements(node), "divided": divided, "weight": factor})
        elif kind == "SumBackward" and sum_elements(node):
            found.append({"kind": "sum", "elements": sum_elements(node), "divided": divided,
                          "weight": factor * sum_elements(node)})
        else:
            return None
    return found


def edges_of(node, output):
    """Where the gradient goes that arrives at a node's output."""
    if kind_of(node) == "_DDPSinkBackward":  # hands each output's gradient on to the input of the same number
        return [node.next_functions[output]]
    return node.next_functions


def mark(tensor, what):
    """Notes at a pass's output what is known of the pass, for as long as its graph lives."""
    tensor.grad_fn.metadata.setdefault("ddprove", {})[tensor.output_nr] = what


def marked(edge):
    return edge[0].metadata.get("ddprove", {}).get(edge[1])


def reach(roots, outputs, names):
    """What a graph reaches from its roots without passing an output of a module: which of these outputs, and the names of
    parameters, which are then reached past the output. roots, outputs: (node, number of its output). names: by id of the
    parameter."""
    outputs, seen, found, past, stack = set(outputs), set(), set(), set(), list(roots)
    while stack:
        edge = stack.pop()
        if edge[0] is None or edge in seen:
            continue
        seen.add(edge)
        if edge in outputs:
            found.add(edge)
            continue
        if marked(edge) is not None:
            continue
        leaf = getattr(edge[0], "variable", None)
        if leaf is not None and id(leaf) in names:
            past.add(names[id(leaf)])
        stack += edges_of(*edge)
    return found, sorted(past)


def marks_behind(roots, outputs):
    """What was marked at all outputs that a graph reaches, but for these."""
    seen, found, stack = set(), [], list(roots)
    while stack:
        edge = stack.pop()
        if edge[0] is None or edge in seen:
            continue
        seen.add(edge)
        if edge not in outputs and marked(edge) is not None:
            found.append(marked(edge))
        stack += edges_of(*edge)
    return found


def are_nested(outputs):
    """Whether one of these outputs is made of another one: then what arrives there comes from inside as well."""
    return any(reach(edges_of(*edge), [other for other in outputs if other != edge], {})[0] for edge in outputs)


def terms_of(roots):
    """The parts of a backward pass from one root; None where there are several or what they are is not understood."""
    try:
        return terms(roots[0][0]) if len(roots) == 1 else None
    except RuntimeError:  # a saved tensor was changed since, or is freed: backward itself will say so
        return None


def weights(parts):
    """How much each part weighs; None if that is not known."""
    return [part["weight"] for part in parts] if parts else None


def elements(parts):
    """Over how many elements the part is taken that weighs most."""
    return max(parts, key=lambda part: part["weight"])["elements"]


def unequal(by_rank):
    """The ranks whose losses weigh otherwise than they should beside the others', given {rank: (weight, elements)}: those
    that are no mean, if another one is; else those that are not most ranks' weight, or all. None of them, if all weigh the same, or
    as much as they have elements, which makes a mean over the global batch of ranks with other numbers of samples."""
    for values in ([weight for weight, _ in by_rank.values()], [weight / count for weight, count in by_rank.values()]):
        if all(abs(value - values[0]) <= 1e-4 * abs(values[0]) for value in values):
            return []
    weights = {rank: round(weight, 4) for rank, (weight, _) in by_rank.items()}
    usual = 1 if 1 in weights.values() else max(weights.values(), key=list(weights.values()).count)
    is_told = usual == 1 or 2 * list(weights.values()).count(usual) > len(weights)
    return sorted(rank for rank, weight in weights.items() if weight != usual or not is_told)
