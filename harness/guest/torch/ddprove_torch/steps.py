"""Judges one kept step of all ranks: gradients, reduction, what the optimizer was given, update, replicas.

Each check starts from what was kept, not from what the check before expected, so that one error is named once."""
import hashlib
import math

import torch

from . import alike, context, loss, reduction, store
from .compare import camps, deviating, distances, factor_of, is_rounding, spreads
from .replay import NotPlayed


class Step:
    """records: {rank: what it kept}; step: its number; report: what is told of everything that is judged and found."""

    def __init__(self, report, player, records, step):
        self.report, self.player, self.records, self.step = report, player, records, step
        self.world = player.world
        first = min(records)
        self.models = records[first]["models"]
        self.names = list(records[first]["before"])

    def find(self, oracle, verdict, ranks, names, text, distances=None):
        self.report.find(oracle, verdict, ranks, self.step, names, text, distances)

    def pass_over(self, oracle, ranks, why):
        self.report.pass_over(oracle, self.step, ranks, why)

    def is_whole(self):
        """Whether all ranks of the job train one model together."""
        return all(facts["group"] == self.world for facts in self.models)

    def judge(self):
        for rank, record in self.records.items():
            self.gradient(rank, record)
        if self.is_whole():
            self.judge_together()
        else:
            self.pass_over("reduction", list(self.records), "the model is wrapped in a group of some of the ranks")
        for rank, record in self.records.items():
            self.update(rank, record)

    def judge_together(self):
        alike.structure(self)
        is_same_update = alike.updates(self)
        if is_same_update:
            alike.options(self)
        self.replicas()
        if not is_same_update:
            return  # what these steps consist of cannot be compared
        self.buffers()
        self.randomness()
        self.reduction()
        self.loss()

    # --- replicas

    def replicas(self):
        if any(record["averaged"] for record in self.records.values()):
            self.pass_over("replicas", list(self.records), "models are averaged now and then, and differ in between")
            return
        for ranks, other in deviating(camps({rank: record["before"] for rank, record in self.records.items()}, self.names)):
            mine, theirs = self.records[ranks[0]]["before"], self.records[other]["before"]
            wrong = [name for name in self.names if not store.same_bits(mine.get(name), theirs.get(name))]
            self.find("replicas", "VALUE.DIVERGED", ranks, wrong,
                      f"parameters are not those of the other ranks as step {self.step} begins",
                      distances({name: (mine.get(name), theirs.get(name)) for name in wrong}))
        for rank, record in self.records.items():
            changed = record["changed_between"] + record.get("moved", [])
            if changed:
                self.report.note(self.step, [rank], f"changed outside of the optimizer: {', '.join(changed)}")
        self.report.count("replicas")

    def forwards(self, rank):
        return [event for event in self.records[rank]["events"] if event["kind"] == "forward"]

    def backwards(self, rank):
        return [event for event in self.records[rank]["events"] if event["kind"] == "backward"]

    def buffers(self):
        first = min(self.records)
        for rank in self.records:
            if len(self.forwards(rank)) != len(self.forwards(first)):
                continue
            for mine, others in zip(self.forwards(rank), self.forwards(first), strict=True):
                facts = self.models[mine["model"]]
                if facts["broadcast_buffers"] and not mine["will_sync_buffers"]:
                    continue  # between two passes that synchronise, each rank's own are what is meant
                wrong = [name for name, buffer in mine["buffers"].items()
                         if not store.same_bits(buffer, others["buffers"].get(name))]
                if wrong:
                    why = "" if facts["broadcast_buffers"] else "; broadcast_buffers is off: nothing makes them equal"
                    self.find("replicas", "VALUE.DIVERGED", [rank], wrong,
                              f"buffers are not those of rank {first} as the pass begins{why}",
                              distances({name: (mine["buffers"][name], others["buffers"].get(name)) for name in wrong}))
                    break
                self.report.count("buffers")

    def randomness(self):
        for rank in self.records:
            for number, call in enumerate(self.forwards(rank)):
                if not call["drew"]:
                    continue
                states = [call["generators"][name] for name in context.GENERATORS if name in call["generators"]]
                state = hashlib.blake2b(b"".join(map(store.bytes_of, states)), digest_size=16)
                self.report.draw(rank, number, self.step, state.hexdigest())
                self.report.count("randomness")

    # --- gradients

    def gradient(self, rank, record):
        self.spread = {}  # of names whose gradients do not come out alike each time: how far they lie apart
        other = self.records.get((rank + 1) % self.world, record)
        attributes = [call["attributes"] for call in self.forwards(other["rank"])]
        if len(attributes) != len(self.forwards(rank)):
            attributes = None
        past = sorted({name for event in self.backwards(rank) for name in event["past"]})
        if past and not self.forwards(rank) and not any(event["late"] for event in self.backwards(rank)):
            return  # no pass of the wrapped module: the reduction's business
        try:
            played = self.player.passes(record, attributes)
            wrong = self.compare(record, played, past)
            if wrong and attributes is not None:
                own = self.compare(record, self.player.passes(record), past)
                differing = self.attributes_between(rank, other["rank"])
                if not own and differing:
                    self.find("gradient", "MISMATCH.MODEL", [rank], sorted(wrong),
                              f"its passes depend on what is not the same on rank {other['rank']}: "
                              f"{', '.join(differing)}", distances(wrong))
                    return
                wrong = own
            if wrong:
                self.spread = spreads(self.player.passes(record), self.player.passes(record))
            if self.spread:
                self.pass_over("gradient", [rank], "played twice, it gives two results: an operator does not repeat "
                               "(most do under torch.use_deterministic_algorithms(True))")
                wrong = self.compare(record, played, past)
                if not wrong:
                    return
            if wrong and self.player.may_vary() and all(is_rounding(*pair) for pair in wrong.values()):
                self.pass_over("gradient", [rank], "what its backward pass gives within rounding, not bit for bit: on a GPU, an "
                               "operator may not repeat")
                return
        except NotPlayed as error:
            self.pass_over("gradient", [rank], str(error))
            return
        if past:
            self.pass_over("gradient", [rank], f"the loss reaches {', '.join(past)} past the module's output")
        self.name_gradient(rank, record, wrong, played)
        self.report.count("gradient")

    def compare(self, record, played, past):
        """{name: (kept, played)} of what differs, by more than what is played twice does."""
        wrong = {}
        for event, again in zip(self.backwards(record["rank"]), played, strict=True):
            for name in set(event["local"]) | set(again):
                pair = event["local"].get(name), again.get(name)
                spread = self.spread.get(name, 0.0 if self.spread else -1.0)
                if name not in past and not store.same_bits(*pair) and (
                        spread < 0 or spread < math.inf and not is_rounding(*pair, spread)):
                    wrong.setdefault(name, pair)
        return wrong

    def attributes_between(self, one, other):
        found = set()
        for mine, others in zip(self.forwards(one), self.forwards(other)):
            for module, values in mine["attributes"].items():
                theirs = others["attributes"].get(module, {})
                found |= {f"{module}.{key}".lstrip(".") for key in values if values[key] != theirs.get(key)}
        return sorted(found)

    def name_gradient(self, rank, record, wrong, played):
        hooked = {name for name in wrong if name in record["hooked"]}
        for name in hooked:
            self.name_hook(rank, name, *wrong[name])
        rest = sorted(set(wrong) - hooked)
        if rest and not self.depends_on_rank(record, rest):
            self.name_changed(rank, {name: wrong[name] for name in rest})
        elif rest:
            used = [name for name in rest if wrong[name][1] is None]
            unused = [name for name in rest if wrong[name][0] is None]
            why = f"; played, {', '.join(used)} is not used" if used else ""
            why += f"; played, {', '.join(unused)} is used" if unused else ""
            self.find("gradient", "MISMATCH.MODEL", [rank], rest,
                      "its backward pass does not come out again when another rank's process plays it from the same "
                      f"parameters, inputs and random numbers: it depends on the rank{why}",
                      distances({name: wrong[name] for name in rest}))

    def depends_on_rank(self, record, names):
        """Whether the passes come out again under the rank's own number, if under no other."""
        try:
            own = self.compare(record, self.player.passes(record, as_itself=True), ())
        except NotPlayed:
            return True
        return not any(name in own for name in names)

    def name_changed(self, rank, wrong):
        """The pass does not come out again at all: what arrived is not what it gives. What it is like tells what
        was done to it."""
        names = sorted(wrong)
        kept, played = zip(*(wrong[name] for name in names))
        verdict, text = "VALUE.CORRUPTED", "is not what its backward pass gives"
        if all(one is None for one in kept):
            verdict, text = "VALUE.LOST", "did not come, and its backward pass gives one"
        elif any(one is None for one in kept + played):
            pass
        elif any(not torch.isfinite(one).all() for one in kept):
            verdict, text = "VALUE.NONFINITE", "holds NaN or infinity, and what its backward pass gives does not"
        elif all(not one.any() for one in kept):
            verdict, text = "VALUE.LOST", "is zero, and what its backward pass gives is not"
        else:
            factor = factor_of(kept, played)
            if factor is not None and abs(factor - 1) > 1e-4:
                verdict, text = "VALUE.SCALED", f"is {factor:.6g} times what its backward pass gives"
        self.find("gradient", verdict, [rank], names, f"the gradient of {', '.join(names[:3])} {text}", distances(wrong))

    def name_hook(self, rank, name, kept, played):
        """A hook of the script changes the gradient before it is reduced. That is no error if it changes it in
        proportion, and so the mean as each part."""
        if played is None or kept is None or not store.same_bits(self.player.hooked(name, played.clone()), kept):
            self.find("gradient", "VALUE.CORRUPTED", [rank], [name],
                      "is not what its backward pass gives, and its hooks do not explain it",
                      distances({name: (kept, played)}))
            return
        whole = self.player.hooked(name, played.clone() * 2) - 2 * self.player.hooked(name, played.clone())
        if float(whole.abs().max()) > 1e-4 * float(kept.abs().max()):
            self.find("gradient", "VALUE.SCALED", [rank], [name],
                      "a hook changes the gradient before it is reduced, and not in proportion (clipping before the "
                      "reduction?): the mean of what it gives is not what it gives of the mean",
                      distances({name: (kept, played)}))
        else:
            self.report.note(self.step, [rank], f"a hook changes the gradient of {name} before it is reduced")

    # --- the reduction

    def unjudged_reduction(self, ranks):
        hooks = [hook for facts in self.models for hook in facts["comm_hooks"]]
        if hooks:
            return f"gradients are reduced by a hook: {', '.join(hooks)}"
        if any(facts["mixed_precision"] for facts in self.models):
            return "DDP's own mixed precision"
        if len({len(self.backwards(rank)) for rank in ranks}) > 1:
            return "ranks have different numbers of backward passes"
        if any("arrived" not in self.records[rank] for rank in ranks):
            return "no backward pass"
        return None

    def divisor(self, ranks):
        calls = self.forwards(ranks[0])
        by_active = bool(calls) and calls[-1]["joined"] and not calls[-1]["by_initial"]
        return len(ranks) if by_active else self.world

    def reduction(self):
        ranks = sorted(self.records)
        why = self.unjudged_reduction(ranks)
        if why:
            self.pass_over("reduction", ranks, why)
            return
        if not self.synchronised(ranks):
            return
        alike.cleared(self, ranks)
        sparse = self.sparse()
        if sparse:
            self.pass_over("reduction", ranks, f"the gradient of {', '.join(sparse)} is sparse")
        grads = [{} for _ in ranks]
        scale_by = 1.0 / self.divisor(ranks)
        checked = {}
        for number in range(len(self.backwards(ranks[0]))):
            self.clip_before(ranks, number)
            self.accumulate(ranks, grads, number)
            if self.backwards(ranks[0])[number]["sync"]:
                checked |= self.reduce(ranks, grads, number, scale_by)
        for rank, grad in zip(ranks, grads, strict=True):
            self.compare_reduced(rank, grad, checked)
        self.report.count("reduction")

    def synchronised(self, ranks):
        """Whether what the optimizer uses was reduced at all."""
        last = [self.backwards(rank)[-1] for rank in ranks]
        if all(event["sync"] for event in last):
            return True
        lacking = [rank for rank, event in zip(ranks, last, strict=True) if not event["sync"]]
        if "updated" not in self.records[ranks[0]]:
            return False  # the run ended between two micro-batches
        if any(not self.forwards(rank) and not event["late"] for rank, event in zip(ranks, last, strict=True)
               if rank in lacking):
            self.find("reduction", "VALUE.LOST", lacking, sorted(last[0]["past"]),
                      "no pass went through the wrapped module (its `.module` was called?): DDP reduces nothing, each "
                      "rank uses its own gradient")
        else:
            self.find("reduction", "USAGE.NO_SYNC", lacking, sorted(last[0]["local"]),
                      "the last micro-batch was under no_sync too: the optimizer uses gradients that were never "
                      "reduced")
        return False

    def sparse(self):
        return sorted({name for record in self.records.values() for name in record["sparse"]})

    def clip_before(self, ranks, number):
        """Gradients that the script clips while they are not reduced."""
        for rank in ranks:
            for clip in self.records[rank]["clips"]:
                if clip["after"] == number and not clip["sync"] and clip["name"] != "unscale_" and number:
                    self.find("gradient", "VALUE.SCALED", [rank], [n for n in clip["names"] if n],
                              f"{clip['name']} is called after micro-batch {number - 1}, before the gradients are "
                              "reduced: each rank clips its own by another factor")

    def accumulate(self, ranks, grads, number):
        for place, rank in enumerate(ranks):
            grads[place].update(self.backwards(rank)[number]["start"])
            for name, local in self.backwards(rank)[number]["local"].items():
                own = grads[place].get(name)
                grads[place][name] = local if own is None else own + local

    def reduce(self, ranks, grads, number, scale_by):
        """Make of each rank's gradients the reduced ones. Returns {name: each rank's part}."""
        calls = {call["model"] for i, call in enumerate(self.forwards(ranks[0]))
                 if i in self.backwards(ranks[0])[number]["calls"]}
        calls |= {model for model, _ in self.backwards(ranks[0])[number]["late"]}
        values, buckets = {}, self.records[ranks[0]].get("buckets") or []
        for model in sorted(calls):
            facts = self.models[model]
            names = [name for name in self.names if name not in facts["ignored"] and name not in self.sparse()
                     and name not in self.records[ranks[0]]["replaced"]
                     and self.is_of(name, model) and any(grad.get(name) is not None for grad in grads)]
            if facts["find_unused"] or facts["static_graph"]:
                names = [name for name in names
                         if any(name in self.backwards(rank)[number]["local"] for rank in ranks)]
            known = model < len(buckets) and buckets[model]
            for place, bucket in enumerate(buckets[model] if known else [[name] for name in names]):
                # A parameter that no rank has used lies in its bucket as zeros.
                full = [{name: grad.get(name) if grad.get(name) is not None else
                         torch.zeros_like(self.records[ranks[0]]["before"][name]) for name in bucket} for grad in grads]
                full += [{name: torch.zeros_like(tensor) for name, tensor in full[0].items()}
                         for _ in range(self.world - len(ranks))]
                if self.world > len(ranks):  # joined ranks contribute zeros, each in its place
                    full = self.in_place(ranks, full)
                out, parts = reduction.reduce_bucket(bucket, full, scale_by, self.player.scratch, (number, model, place))
                for name in bucket:
                    if name in names:
                        values[name] = [part[name] for part in parts]
                        for grad in grads:
                            grad[name] = out[name]
        return values

    def is_of(self, name, model):
        """Whether a parameter is the model's: the first one's names have no prefix."""
        prefix = self.models[model]["prefix"]
        return name.startswith(prefix) if prefix else not any(
            facts["prefix"] and name.startswith(facts["prefix"]) for facts in self.models)

    def in_place(self, ranks, full):
        absent = iter(full[len(ranks):])
        present = dict(zip(ranks, full))
        return [present[rank] if rank in present else next(absent) for rank in range(self.world)]

    def compare_reduced(self, rank, expected, checked):
        arrived = self.records[rank]["arrived"]
        wrong = [name for name in self.names if not store.same_bits(arrived.get(name), expected.get(name))
                 and name not in self.records[rank]["replaced"] and name not in self.sparse()]
        real = []
        for name in wrong:
            values = checked.get(name)
            if values is None or arrived.get(name) is None:
                real.append(name)
            elif bool(reduction.any_order(values, arrived[name]).all()):
                self.report.note(self.step, [rank], f"{name} is summed in another order of the ring")
            else:
                exact = sum(value.double() for value in values)
                if not bool(((arrived[name].double() - exact).abs() <= reduction.bound(values)).all()):
                    real.append(name)
                else:
                    self.report.note(self.step, [rank], f"{name} is summed in an order that is not known: within "
                                                        "rounding, not bit for bit")
        if real:
            self.name_reduced(rank, real, expected, checked)

    def name_reduced(self, rank, names, expected, checked):
        arrived = self.records[rank]["arrived"]
        far = distances({name: (arrived.get(name), expected.get(name)) for name in names})
        verdict, text = "VALUE.CORRUPTED", "the reduced gradient is not the sum of what the ranks' passes gave"
        there = [name for name in names if arrived.get(name) is not None and checked.get(name) is not None]
        if any(not torch.isfinite(arrived[name]).all() for name in there):
            verdict, text = "VALUE.NONFINITE", "the reduced gradient holds NaN or infinity"
        elif there == names:
            factor = factor_of([arrived[n] for n in names], [expected[n] for n in names])
            if factor is not None and abs(factor - 1) > 1e-4:
                verdict, text = "VALUE.SCALED", f"the reduced gradient is {factor:.6g} times the right one"
            for other in range(self.world):
                missing = factor_of([expected[n] - arrived[n] for n in names], [checked[n][other] for n in names])
                if missing is not None and abs(missing - 1) < 1e-4:
                    verdict, text = "VALUE.LOST", f"the reduced gradient lacks what rank {other} put in"
                if missing is not None and abs(missing + 1) < 1e-4:
                    verdict, text = "VALUE.DUPLICATED", f"the reduced gradient has twice what rank {other} put in"
        hooked = [name for name in names if name in self.records[rank]["hooked_behind"]]
        if hooked:
            text += f"; a hook of the script changes {', '.join(hooked[:3])} as it is accumulated, before the reduction"
        self.find("reduction", verdict, [rank], names, text, far)

    # --- from the reduction to the update

    def used(self, rank):
        record = self.records[rank]
        return {name: record["used"][name] if name in record["used"] else record.get("arrived", {}).get(name)
                for name in self.names}

    def loss(self):
        """How much the loss's elements weigh in all, with whatever factor the script gave the gradients behind."""
        if any("used" not in record for record in self.records.values()):
            return
        weighed = {}
        for rank, record in self.records.items():
            factor = self.factor_behind(rank, record)
            weights = [loss.weights(event["terms"]) for event in self.backwards(rank)]
            if factor is None or not weights or (any(w is None for w in weights) and factor == 1):
                self.pass_over("loss", [rank], "what the loss is made of is not understood" if factor else
                               "the script changes gradients behind the reduction")
                continue
            total = factor if any(w is None for w in weights) else factor * sum(max(w) for w in weights)
            if None not in weights:
                weighed[rank] = (total, sum(loss.elements(event["terms"]) for event in self.backwards(rank)))
            self.report.count("loss")
            if self.world > 1 and abs(total * self.world - 1) < 1e-4 and (factor != 1 or self.is_divided(rank)):
                self.find("loss", "VALUE.SCALED", [rank], [],
                          f"the loss of all ranks' samples weighs 1/{self.world} of a mean: it is divided by the "
                          "number of ranks, which DDP does as well")
            elif self.world > 1 and factor != 1 and abs(total / self.world - 1) < 1e-4:
                self.find("loss", "VALUE.SCALED", [rank], [],
                          f"the script makes the reduced gradients {self.world} times as large, which is the number of "
                          "ranks (summed over them once more?)")
            elif abs(total - 1) > 1e-4:
                self.report.note(self.step, [rank], f"the loss weighs {total:.6g} of a mean over the samples")
        odd = loss.unequal(weighed) if len(weighed) == self.world else []
        if odd:
            self.find("loss", "VALUE.SCALED", odd, [], "ranks' losses weigh differently: " + ", ".join(
                f"rank {rank}'s {weight:.6g} of a mean over {count} elements" for rank, (weight, count) in
                sorted(weighed.items())[:8]))

    def is_divided(self, rank):
        """Whether a number divides the loss that can only be that of the ranks: not the number of its parts, and not
        the two of half a squared error."""
        parts = [term for event in self.backwards(rank) for term in event["terms"]]
        return self.world > 1 and all(term["divided"] for term in parts) and all(
            len(event["terms"]) != self.world for event in self.backwards(rank)) and not (
            self.world == 2 and any("Mse" in term["kind"] for term in parts))

    def factor_behind(self, rank, record):
        """What the script multiplied the reduced gradients with, 1 if nothing; None: it did something else."""
        if not record["used"]:
            return 1.0
        arrived, used = record.get("arrived", {}), self.used(rank)
        clips = [clip for clip in record["clips"] if clip["sync"]]
        if any(clip["name"] == "unscale_" for clip in clips):
            return None
        try:
            grads = {name: arrived.get(name) for name in self.names}
            for clip in clips:
                grads = self.player.clip(clip, grads)
        except NotPlayed as error:
            self.pass_over("gradient", [rank], str(error))
            return None
        if all(store.same_bits(grads[name], used[name]) for name in self.names):
            self.report.count("clipping")
            return 1.0
        names = [name for name in self.names if grads[name] is not None and used[name] is not None]
        factor = factor_of([used[name] for name in names], [grads[name] for name in names])
        is_alike = all(store.same_bits(used[name], self.used(other)[name]) for other in self.records
                       for name in self.names)
        if not is_alike:
            self.find("gradient", "VALUE.CORRUPTED", [rank], sorted(record["used"]),
                      "the script changes gradients between reduction and update, and not alike on all ranks",
                      distances({name: (used[name], grads[name]) for name in names}))
        return factor

    def update(self, rank, record):
        if "updated" not in record:
            return
        if not record["updated"]:
            return  # an optimizer that holds none of the parameters: equivalence.py says so
        try:
            held, optimizer = self.player.update(record, self.used(rank))
        except NotPlayed as error:
            self.pass_over("update", [rank], str(error))
            return
        wrong = [name for name in self.names
                 if not store.same_bits(record["after"][name], held.get(name, record["before"][name]))]
        if wrong and self.player.may_vary() and all(
                is_rounding(record["after"][name], held.get(name, record["before"][name]).cpu()) for name in wrong):
            self.pass_over("update", [rank], "what the optimizer makes of it within rounding, not bit for bit: on a GPU")
        elif wrong:
            self.find("update", "VALUE.CORRUPTED", [rank], wrong,
                      "the parameters after the update are not what the optimizer makes of those before",
                      distances({n: (record["after"][n], held.get(n, record["before"][n]).cpu()) for n in wrong}))
        elif not store.is_code_of(record["state_after"], optimizer.state_dict(), store.same_bits):
            self.find("update", "VALUE.CORRUPTED", [rank], [], "the optimizer's state is not what its step makes of it")
        self.report.count("update")
