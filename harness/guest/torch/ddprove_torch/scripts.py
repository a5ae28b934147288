"""Judges what a script does around its steps: which samples, which optimizer, which checkpoints."""
import hashlib

from . import store
from .states import PREFIX


def digest_of(code):
    """A number for an encoded value's tensors; None if there are none."""
    sums, found = hashlib.blake2b(digest_size=8), False
    for tensor in store.tensors_of(code):
        sums.update(str(tuple(tensor.shape)).encode() + store.bytes_of(tensor))
        found = True
    return sums.hexdigest() if found else None


def judge_inputs(report, records, step):
    """Ranks that train on the same samples. Inputs that never change say nothing."""
    seen = {}
    for rank, record in records.items():
        calls = [event for event in record["events"] if event["kind"] == "forward"]
        sums = [digest_of([call["args"], call["kwargs"]]) for call in calls if call["args"] is not None]
        if sums and None not in sums:
            seen[rank] = sums
    for rank, sums in seen.items():
        report.draw_inputs(rank, step, sums)


def judge_repeats(report):
    inputs = report.inputs
    ranks = sorted(inputs)
    if len(ranks) > 1 and len({tuple(sums) for _, sums in inputs[ranks[0]]}) > 1:
        report.count("inputs")
        for rank in ranks[1:]:
            if inputs[rank] == inputs[ranks[0]]:
                report.find("data", "DATA.DUPLICATED", [ranks[0], rank], inputs[rank][0][0], [],
                            "both ranks train on the same samples in all kept steps")


def judge(report, facts):
    judge_repeats(report)
    judge_samplers(report, facts)
    judge_optimizers(report, facts)
    for usage in facts.values():
        judge_saves(report, usage, facts)
        judge_loads(report, usage)
    judge_writers(report, facts)


def judge_samplers(report, facts):
    for rank, usage in facts.items():
        epochs = {}
        for one in usage["passes"]:
            if one["is_training"] and one["shuffle"]:
                key = (one["sampler"], one["epoch"])
                if key in epochs:
                    report.find("data", "DATA.ORDER", [rank], one["step"], [],
                                f"a second pass over the samples comes in the order of the first one, that of epoch "
                                f"{one['epoch']}: DistributedSampler.set_epoch was not called in between")
                epochs.setdefault(key, one["step"])
                report.count("samplers")
    judge_shards(report, facts)


def judge_shards(report, facts):
    """Shards of one pass must be of one permutation, each taken once."""
    for passes in zip(*[[one for one in usage["passes"] if one["is_training"]] for usage in facts.values()]):
        first = passes[0]
        seeds = {(one["seed"], one["epoch"]) for one in passes if one["shuffle"]}
        shards = [one["rank"] for one in passes]
        if len(seeds) > 1:
            report.find("data", "DATA.DUPLICATED", list(facts), first["step"], [],
                        "ranks shuffle the samples with different seeds or epochs: shards overlap, other samples are "
                        "left out")
        elif first["replicas"] == report.world and len(set(shards)) < len(shards):
            report.find("data", "DATA.DUPLICATED", list(facts), first["step"], [],
                        f"shards {', '.join(map(str, shards))} are taken: some by several ranks")


def judge_optimizers(report, facts):
    for rank, usage in facts.items():
        strange = [one for one in usage["strangers"] if one["after_backward"]]
        if strange and not usage["owned"]:
            copy = ": they have the shapes of a copy of the model" if strange[0]["is_copy"] else ""
            report.find("update", "VALUE.STALE", [rank], strange[0]["step"], [],
                        f"the optimizer ({strange[0]['kind']}) holds none of the wrapped module's parameters{copy}: "
                        "the gradients are computed and reduced, and change nothing")


def where(save):
    return (f"in {save['where']} " if save["where"] else "") + f"of the checkpoint saved by rank {save['rank']}"


def judge_saves(report, usage, facts):
    whole = {save["model"] for other in facts.values() for save in other["saves"] if save["own"] and not save["dtypes"]}
    for save in usage["saves"]:
        report.count("checkpoint")
        if save["own"]:
            judge_state(report, save, save["model"] not in whole)
            judge_buffers(report, save, facts[0]["buffers"][:save["step"]])
        if save["not_read_back"]:
            report.find("checkpoint", "CHECKPOINT.CORRUPTED", [save["rank"]], save["step"], save["not_read_back"],
                        f"tensors {where(save)} are read back with other bits")


def judge_state(report, save, is_only_one):
    """What is the model's own state as it is then. is_only_one: no other save holds it in the model's types, beside which
    another one may be made for what it likes."""
    def find(verdict, names, text):
        report.find("checkpoint", verdict, [save["rank"]], save["step"], names, text)

    if save["prefix"] > 1:
        find("CHECKPOINT.PREFIX", [], f"keys {where(save)} begin with {PREFIX * save['prefix']}")
    if save["missing"] or save["unexpected"]:
        find("CHECKPOINT.KEYS", save["missing"] + save["unexpected"],
             f"keys {where(save)} are not the model's: {len(save['missing'])} missing, "
             f"{len(save['unexpected'])} unexpected")
    if save["dtypes"] and save["resumes"] and is_only_one:
        find("CHECKPOINT.DTYPE", save["dtypes"], f"tensors {where(save)} have another type than the model's")
    if save["differs"]:
        find("CHECKPOINT.STALE", save["differs"], f"tensors {where(save)} are those of other names of the model")


def judge_buffers(report, save, main):
    """main: of rank 0, after each step before the save."""
    if save["rank"] == 0 or not save["buffer_names"] or not main:
        return
    if main[-1] is None:
        report.pass_over("checkpoint", save["step"], [save["rank"]], "the step before it was not kept: whether the "
                         "buffers that are saved are those of rank 0 is not known")
    elif save["buffers"] != main[-1]:
        report.find("checkpoint", "CHECKPOINT.STATE", [save["rank"]], save["step"], save["buffer_names"],
                    f"rank {save['rank']} saves, and its buffers are not those of rank 0, which are the ones that DDP "
                    "hands to all ranks: a resumed run goes on from others")


def judge_writers(report, facts):
    writers = {}
    for usage in facts.values():
        for save in usage["saves"]:
            if save["path"]:
                writers.setdefault((save["path"], save["step"]), set()).add(save["rank"])
    for (_, step), ranks in writers.items():
        if len(ranks) > 1:
            report.find("checkpoint", "CHECKPOINT.CLOBBERED", sorted(ranks), step, [],
                        f"ranks {', '.join(map(str, sorted(ranks)))} save to the same file")


def judge_loads(report, usage):
    for load in usage["loads"]:
        report.count("checkpoint")
        wrong = load["prefix"] is not None and load["prefix"] != load["wanted"]
        if wrong and (load["refused"] or load["missing"]):
            what = "is refused" if load["refused"] else f"leaves {len(load['missing'])} tensors as they were"
            report.find("checkpoint", "CHECKPOINT.PREFIX", [usage["rank"]], load["step"], load["missing"],
                        f"keys of the loaded state begin with {PREFIX * load['prefix'] or 'no prefix'}, those of the "
                        f"module with {PREFIX * load['wanted'] or 'none'}: loading {what}")
        elif load["missing"] or load["unexpected"]:
            report.find("checkpoint", "CHECKPOINT.KEYS", [usage["rank"]], load["step"],
                        load["missing"] + load["unexpected"], "the loaded state does not have the module's keys")
