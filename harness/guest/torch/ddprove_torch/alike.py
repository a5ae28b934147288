"""What is to be alike on all ranks in a step, beside parameters and gradients: which parameters the module holds, what
the optimizers are told, which of them steps, what is left of the step before. Functions of a steps.Step."""
from . import store
from .compare import deviating


def structure(step):
    replaced = sorted({name for record in step.records.values() for name in record["replaced"]})
    if replaced:
        step.find("replicas", "VALUE.LOST", sorted(step.records), replaced,
                  "the module holds another parameter than the one that DDP was given when it was wrapped (weights "
                  "that were shared and are not any more?): DDP does not reduce its gradient")


def options(step):
    """What the optimizers were told, rank by rank."""
    alike = {}
    told = {rank: store.decode(store.part_of(record["state_before"], "param_groups"))
            for rank, record in step.records.items() if record.get("state_before")}
    for rank, groups in told.items():
        alike.setdefault(repr(groups), []).append(rank)
    for ranks, other in deviating(list(alike.values())):
        differing = sorted({key for a, b in zip(told[ranks[0]], told[other])
                            for key in a if a[key] != b.get(key)})
        step.find("update", "VALUE.DIVERGED", ranks, [],
                  f"the optimizer is told another {', '.join(differing)} than on other ranks")


def updates(step):
    """Whether the step ends with the same optimizer on all ranks."""
    alike = {}
    for rank, record in step.records.items():
        if "updated" in record:
            alike.setdefault(tuple(record["updated"]), []).append(rank)
    if len(alike) <= 1:
        return True
    said = "; ".join(f"rank {', '.join(map(str, ranks))} updates {', '.join(names[:2]) or 'nothing'}"
                     f"{', ...' if len(names) > 2 else ''}" for names, ranks in alike.items())
    step.find("update", "VALUE.STALE", [rank for ranks, _ in deviating(list(alike.values())) for rank in ranks], [],
              f"the step does not end with the same optimizer on all ranks (one's step was left out?): {said}")
    return False


def cleared(step, ranks):
    """Gradients that are there as the step's first pass goes back. They are an earlier step's: all ranks add to
    them, or none does. Told where a rank has none at all, so that ranks which all go on adding up are not meant."""
    first = {rank: step.backwards(rank)[0] for rank in ranks}
    names = set(step.names).intersection(*(event["local"] for event in first.values()))
    left = {rank: sorted(name for name in names if event["start"].get(name) is not None
                         and bool(event["start"][name].any())) for rank, event in first.items()}
    camps = [[rank for rank in ranks if bool(left[rank]) == is_left] for is_left in (True, False)]
    if not all(camps):
        return
    has_left = len(camps[0]) <= len(camps[1])
    step.find("reduction", "VALUE.STALE", camps[0] if has_left else camps[1], left[camps[0][0]],
              "the gradients of the step before are still there as the first pass goes back (zero_grad() left out?), "
              "and are reduced once more; other ranks have cleared theirs" if has_left else
              "the gradients of the step before are gone as the first pass goes back, and other ranks add to theirs")
