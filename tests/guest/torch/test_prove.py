"""Tests of the proof's parts. Each compares with something worked out in another way."""
import contextlib
import io
import json
import os
import pickle
import signal
import sys
import tempfile
import threading
import unittest
import weakref
from unittest import mock

try:
    import torch
except ImportError:
    print("there is no PyTorch here: pip install torch")
    sys.exit(77)

import ranks

from ddprove_torch import (backend, compare, context, ddp, equivalence, faults, files, forms, keep, library, loss, ours,
                           proof, prove, record, reduction, share, states, store, usage)


class Hooks(unittest.TestCase):
    def test_the_first_call_of_a_hook_is_the_sum_of_its_bucket(self):
        """PowerSGD goes on in callbacks, which run here or in gloo's thread, as it comes: those calls are no bucket's."""
        class Bucket:
            def index(self):
                return 2

        found = []

        def ask():
            found.append(ddp.bucket_of(None, None))

        def hook(_state, _bucket):
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
            ask()
            ask()

        class Module:
            def register_comm_hook(self, state, hook):
                hook(state, Bucket())

        module, wrapped = Module(), ddp.Wrapped.__new__(ddp.Wrapped)
        wrapped.number, wrapped.module = 5, weakref.ref(module)
        ddp._watch_hooks(Module)
        ddp._modules.append(wrapped)
        try:
            module.register_comm_hook(None, hook)
        finally:
            ddp._modules.remove(wrapped)
        self.assertEqual(found, [None, (5, 2), None])
        self.assertIsNone(ddp.bucket_of(None, None))


class Reduction(unittest.TestCase):
    def test_each_element_is_added_in_its_part(self):
        for world, count in ((2, 5), (3, 13), (4, 4), (4, 1001), (5, 7)):
            flat = [torch.randn(count, generator=torch.Generator().manual_seed(10 * world + i)) for i in range(world)]
            size = reduction.part_elements(count, 4, world)
            out = reduction.ring(flat)
            for i in range(count):
                begin = (i // size - 1) % world
                total = flat[begin][i]
                for other in range(1, world):
                    total = total + flat[(begin - other) % world][i]
                self.assertEqual(float(out[i]), float(total))

    def test_parts_are_those_of_gloo(self):
        # As measured: 3 ranks, float32.
        self.assertEqual([reduction.part_elements(n, 4, 3) for n in (1, 7, 13, 100, 70000, 900000)],
                         [2, 4, 6, 34, 23334, 300000])

    def test_bucket_names_and_shapes(self):
        grads = [{"a": torch.full((2, 2), float(r)), "b": None if r else torch.ones(3)} for r in range(2)]
        out, parts = reduction.reduce_bucket(["b", "a"], grads, 0.5, reduction.Scratch())
        self.assertTrue(torch.equal(out["a"], torch.full((2, 2), 0.5)))
        self.assertTrue(torch.equal(out["b"], torch.full((3,), 0.5)))
        self.assertTrue(torch.equal(parts[1]["a"], torch.full((2, 2), 0.5)))
        self.assertFalse(parts[1]["b"].any())


class Loss(unittest.TestCase):
    def setUp(self):
        self.x = torch.randn(6, 5, requires_grad=True)
        self.y = torch.tensor([0, 1, 2, 3, 4, 0])

    def weights(self, value):
        return loss.weights(loss.terms_of([(value.grad_fn, 0)]))

    def test_means_and_sums(self):
        nll = torch.nn.functional.cross_entropy
        self.assertEqual(self.weights(nll(self.x, self.y)), [1.0])
        self.assertEqual(self.weights(nll(self.x, self.y) / 4), [0.25])
        self.assertEqual(self.weights(nll(self.x, self.y, reduction="sum") / 12), [0.5])
        self.y[0] = -100
        self.assertEqual(self.weights(nll(self.x, self.y, reduction="sum") / 5), [1.0])
        self.assertEqual(sorted(self.weights(nll(self.x, self.y) + 0.5 * (self.x ** 2).mean())), [0.5, 1.0])

    def test_what_is_not_understood(self):
        self.assertIsNone(self.weights(self.x.exp().logsumexp(0).max()))

    def test_past_the_output(self):
        layer = torch.nn.Linear(5, 2)
        names = {id(layer.weight): "weight", id(layer.bias): "bias"}
        out = layer(self.x)
        value = out.sum()
        edge = (out.grad_fn, out.output_nr)
        self.assertEqual(loss.reach([(value.grad_fn, 0)], [edge], names), ({edge}, []))
        value = out.sum() + layer.weight.norm()
        self.assertEqual(loss.reach([(value.grad_fn, 0)], [edge], names), ({edge}, ["weight"]))

    def test_a_pass_of_an_earlier_step(self):
        """What was marked stops the search for parameters, and is found behind a later pass too."""
        first, second = torch.nn.Linear(5, 3), torch.nn.Linear(3, 2)
        names = {id(p): "first" for p in first.parameters()}
        early = first(self.x)
        loss.mark(early, (0, True))
        out = second(early)
        value, edge = out.sum(), (out.grad_fn, out.output_nr)
        self.assertEqual(loss.reach([(early.sum().grad_fn, 0)], [], names), (set(), []))
        self.assertEqual(loss.reach([(value.grad_fn, 0)], [edge], names), ({edge}, []))
        self.assertEqual(loss.marks_behind([(value.grad_fn, 0)], [edge]), [(0, True)])
        self.assertEqual(loss.marks_behind([(value.grad_fn, 0)], [edge, (early.grad_fn, early.output_nr)]), [])

    def test_nested_outputs(self):
        out = self.x * 2
        top = out.sum()
        edges = [(out.grad_fn, 0), (top.grad_fn, 0)]
        self.assertTrue(loss.are_nested(edges))
        self.assertFalse(loss.are_nested(edges[:1]))


class Files(unittest.TestCase):
    def kept(self, value):
        """What is read of a file in which a value was kept."""
        with tempfile.TemporaryDirectory() as folder:
            writer = record.Writer(os.path.join(folder, "x", "y.kept"))
            writer.finish(store.encode(value, "input", writer.keep))
            writer.close()
            return record.read(os.path.join(folder, "x", "y.kept"))

    def test_values_come_back(self):
        value = [torch.tensor([float("nan"), -0.0]), {"a": (1, "b", None)}, torch.ones(2, requires_grad=True),
                 torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last), torch.ones(0, 3),
                 torch.tensor([True, False]), torch.tensor(2.5, dtype=torch.bfloat16), torch.float16,
                 torch.tensor([1 + 2j]).conj(), torch.ones(3).expand(2, 3), torch.arange(6.0).reshape(2, 3).t()]
        code = self.kept(value)
        back = store.decode(code)
        self.assertEqual([type(one) for one in back], [type(one) for one in value])
        for one, other in zip(back, value):
            if isinstance(one, torch.Tensor):
                self.assertTrue(store.same_bits(one, other), other)
                self.assertEqual(one.stride(), other.clone().stride())
            else:
                self.assertEqual(one, other)
        self.assertFalse(store.same_bits(back[0], torch.tensor([float("nan"), 0.0])))
        self.assertTrue(back[2].requires_grad)
        self.assertTrue(store.is_code_of(code, value, store.same_bits))
        for place, other in ((0, torch.tensor([float("nan"), 0.0])), (1, {"a": (1, "c", None)}), (1, {"a": [1, "b", None]}),
                             (2, torch.ones(2)), (5, torch.tensor([1, 0])), (7, torch.float32)):
            self.assertFalse(store.is_code_of(code, value[:place] + [other] + value[place + 1:], store.same_bits))

    def test_what_is_kept_can_be_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            writer = record.Writer(os.path.join(folder, "y.kept"))
            for tensor in (torch.rand(3, 5), torch.rand(3, 5).t(), torch.tensor([float("nan")]), torch.ones(0)):
                kept = writer.keep(tensor)
                self.assertTrue(writer.same(tensor, kept))
                self.assertFalse(writer.same(tensor.double(), kept))
                self.assertFalse(writer.same(None, kept))
                if tensor.numel():
                    self.assertFalse(writer.same(tensor + 1 if not tensor.isnan().any() else -tensor, kept))
            self.assertTrue(writer.same(None, writer.keep(None)))
            writer.drop()
            self.assertEqual(os.listdir(folder), [])

    def test_what_is_not_kept_is_refused(self):
        for value in (object(), {1: {2: object()}}, torch.ones(2).to_sparse()):
            with self.assertRaises(store.NotKept):
                store.encode(value)

    def test_no_code_is_run(self):
        class Evil:
            def __reduce__(self):
                return (os.mkdir, ("evil",))
        with tempfile.TemporaryDirectory() as folder:
            writer = record.Writer(os.path.join(folder, "evil"))
            writer.finish({"x": Evil()})
            writer.close()
            with self.assertRaisesRegex(pickle.UnpicklingError, "posix.mkdir is neither a tensor nor a plain value"):
                record.read(os.path.join(folder, "evil"))
        self.assertFalse(os.path.exists("evil"))

    def test_damaged_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "y.kept")
            writer = record.Writer(path)
            kept = writer.keep(torch.ones(4))
            writer.finish([kept, record.Kept(kept.place, kept.dtype, (2, 2), (2, 1))])
            writer.close()
            self.assertEqual(record.read(path)[1].tolist(), [[1, 1], [1, 1]])
            with open(path, "rb") as file:
                whole = file.read()
            for data in (b"", whole[:20], whole[:-1], b"PK" + whole[2:]):
                with open(path, "wb") as file:
                    file.write(data)
                with self.assertRaises(pickle.UnpicklingError):
                    record.read(path)
            for bad in (record.Kept(1 << 40, torch.float32, (4,), None), record.Kept(-64, torch.float32, (1,), None),
                        record.Kept(64, torch.float32, (-1,), None), record.Kept(64, torch.float32, (2, 2), (900, 1))):
                writer = record.Writer(path)
                writer.finish([bad])
                writer.close()
                with self.assertRaises((pickle.UnpicklingError, RuntimeError)):
                    record.read(path)

    def test_generators_come_back(self):
        state = context.take_generators()
        first = torch.rand(3)
        context.put_generators(state)
        self.assertTrue(torch.equal(first, torch.rand(3)))


class Shares(unittest.TestCase):
    """Ranks share out the steps that are to be judged."""

    def test_nobody_waits_and_a_killed_judge_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            seen, into = os.pipe()
            child = os.fork()
            if child == 0:
                with share._lock(folder, 1, False) as is_mine:
                    os.write(into, b"1" if is_mine else b"0")
                    signal.pause()
                os._exit(1)
            self.assertEqual(os.read(seen, 1), b"1")
            judged = []

            def judge(step):
                judged.append(step)
                return [["count", [f"step {step}"]]]

            share.part(folder, [0, 1, 2], judge)
            self.assertEqual(judged, [0, 2])
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            told = share.rest(folder, [0, 1, 2], judge)
            self.assertEqual(judged, [0, 2, 1])
            self.assertEqual(told, {step: [["count", [f"step {step}"]]] for step in range(3)})

    def test_a_step_that_cannot_be_judged_is_left_to_the_last_rank(self):
        def fail(step):
            raise ValueError(f"step {step}")
        with tempfile.TemporaryDirectory() as folder:
            share.part(folder, [0], fail)
            self.assertEqual(share.rest(folder, [0], lambda step: []), {0: []})
            share.part(folder, [1], lambda step: [])
            self.assertEqual(share.rest(folder, [1], fail), {1: []})
            with self.assertRaises(ValueError):
                share.rest(folder, [2], fail)

    def test_what_is_told_of_steps_is_reported_in_their_order(self):
        told = {}
        for step in (2, 1):
            one = equivalence.Told()
            one.draw(0, 0, step, "state")
            one.find("reduction", "VALUE.LOST", [1], step, ["a"], f"in step {step}", {"a": float("inf")})
            one.count("reduction")
            told[step] = json.loads(json.dumps(one.calls))
        report = equivalence.Report(2)
        for step in (1, 2):
            report.take(step, told[step])
        found = report.proof([1, 2])
        self.assertEqual([(f["verdict"], f["steps"]) for f in found["findings"]],
                         [("VALUE.LOST", [1, 2]), ("VALUE.STALE", [2])])
        self.assertEqual((found["judged"], found["table"][0]["distance"]), ({"reduction": 2}, float("inf")))


class Words(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual(proof.numbers([3, 0, 1, 2, 7, 9, 8]), "0-3, 7-9")
        self.assertEqual(proof.numbers([1, 2]), "1, 2")

    def test_steps(self):
        self.assertIsNone(prove.steps_of("all"))
        self.assertEqual(prove.steps_of("0,7"), {0, 7})

    def test_prefixes(self):
        names = ["a.weight", "a.bias"]
        for count in range(3):
            self.assertEqual(states.prefix_of({"module." * count + name for name in names}, names), count)
        self.assertIsNone(states.prefix_of({"b.weight", "c"}, names))

    def test_factor(self):
        one = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
        self.assertAlmostEqual(compare.factor_of([t / 4 for t in one], one), 0.25)
        self.assertIsNone(compare.factor_of([torch.tensor([1.0, 2.0]), torch.tensor([4.0])], one))

    def test_rounding(self):
        ones = torch.linspace(-1, 1, 1000)
        self.assertTrue(compare.is_rounding(ones * (1 + 2 ** -20), ones))
        self.assertFalse(compare.is_rounding(ones * (1 + 2 ** -14), ones))
        self.assertTrue(compare.is_rounding(ones * (1 + 2 ** -14), ones, spread=2 ** -16))
        self.assertFalse(compare.is_rounding(ones * (1 + 2 ** -14), ones, spread=2 ** -20))
        for other in (None, ones.double(), ones[:9], ones * float("nan")):
            self.assertFalse(compare.is_rounding(other, ones, spread=1.0))
            self.assertFalse(compare.is_rounding(ones, other, spread=1.0))
        self.assertFalse(compare.is_rounding(torch.tensor([1]), torch.tensor([2]), spread=9.0))

    def test_spreads_of_what_is_played_twice(self):
        a, b = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])
        self.assertEqual(compare.spreads([{"x": a, "y": a}, {"x": a}], [{"x": b, "y": a}, {"x": b + 1}]), {"x": 1.5})
        self.assertEqual(compare.spreads([{"x": a}], [{"x": a.clone()}]), {})
        self.assertEqual(compare.spreads([{"x": a}], [{}]), {"x": float("inf")})
        self.assertEqual(compare.spreads([{"x": a}], [{"x": a * float("nan")}]), {"x": float("inf")})

    def test_camps_have_the_same_bits(self):
        one, other = torch.tensor([float("nan"), 0.0]), torch.tensor([float("nan"), -0.0])
        values = {0: {"a": one}, 1: {"a": other}, 2: {"a": one.clone()}, 5: {}}
        self.assertEqual(compare.camps(values, ["a"]), [[0, 2], [1], [5]])

    def test_the_smaller_camp_deviates(self):
        self.assertEqual(compare.deviating([[0, 1, 2]]), [])
        self.assertEqual(compare.deviating([[0], [1, 2]]), [([0], 1)])
        self.assertEqual(compare.deviating([[0], [1]]), [([0], 1), ([1], 0)])

    def test_a_finding_that_goes_on_is_one(self):
        report = equivalence.Report(2)
        for step in (0, 1, 5):
            report.steps.append(step)
            report.find("reduction", "VALUE.LOST", [1], step, ["a"], f"in step {step}", {"a": float(step)})
        report.find("replicas", "VALUE.DIVERGED", [1], 6, ["a"], "differ")
        found = report.proof([0, 1, 5, 6])
        self.assertEqual([(f["step"], f["steps"], f["explained_by"]) for f in found["findings"]],
                         [(0, [0, 1, 5], None), (6, [6], 0)])
        self.assertEqual(found["table"][0]["distance"], 5.0)
        self.assertEqual((found["outcome"], found["verdict"]), ("FAIL", "VALUE.LOST"))

    def test_nothing_judged_is_no_pass(self):
        self.assertEqual(equivalence.Report(2).proof([])["outcome"], "INCONCLUSIVE")


class States(unittest.TestCase):
    """Whose a saved state dict is."""

    def setUp(self):
        sizes = (8, 32, 32, 16)
        nets = [self.net(sizes), self.net(sizes), self.net((16, 32, 1))]
        self.wrapped = [self.wrap(net) for net in nets]
        self.models = [states.Model(one) for one in self.wrapped]

    def net(self, sizes):
        return torch.nn.Sequential(*[part for pair in zip(sizes, sizes[1:]) for part in (torch.nn.Linear(*pair), torch.nn.ReLU())])

    def wrap(self, net):
        class Wrapper(torch.nn.Module):  # stands for DDP's
            def __init__(self):
                super().__init__()
                self.module = net
        return Wrapper()

    def owner(self, state):
        """(the model's number, how often the prefix, whether it is its own, missing, unexpected)."""
        found = states.find(state, self.models)
        return found and (self.models.index(found.model), found.count, found.is_own(), found.missing, found.unexpected)

    def copied(self, state, prefix=""):
        return {prefix + name: value.clone() for name, value in state.items()}

    def test_what_shares_memory(self):
        for number, wrapped in enumerate(self.wrapped):
            self.assertEqual(self.owner(wrapped.module.state_dict()), (number, 0, True, [], []))
            self.assertEqual(self.owner(wrapped.state_dict()), (number, 1, True, [], []))
        state = self.wrapped[0].module.state_dict()
        twice = {"module.module." + name: value for name, value in state.items()}
        self.assertEqual(self.owner(twice), (0, 2, True, [], []))
        self.assertEqual(self.owner({**{k: v for k, v in state.items() if k != "2.bias"}, "x": torch.ones(1)}),
                         (0, 0, True, ["2.bias"], ["x"]))
        self.assertIsNone(self.owner(self.wrapped[0].module[0].state_dict()))
        holder = self.wrap(self.wrapped[0])
        self.models[0].ddp.__class__ = type("DDP", (type(self.models[0].ddp),), {})
        self.assertFalse(states.find(twice, self.models).is_own())  # it is the holder's, which saves it so
        self.assertEqual(list(holder.state_dict()), list(twice))

    def test_copies(self):
        for number, wrapped in enumerate(self.wrapped):
            for count in range(3):
                copy = self.copied(wrapped.module.state_dict(), "module." * count)
                self.assertEqual(self.owner(copy), (number, count, True, [], []))
                self.assertEqual(self.owner({name: value.half() for name, value in copy.items()}),
                                 (number, count, True, [], []))
        copy = self.copied(self.wrapped[1].module.state_dict())
        del copy["2.bias"]
        self.assertEqual(self.owner(copy), (1, 0, True, ["2.bias"], []))
        self.assertIsNone(self.owner({name: value + 1 for name, value in copy.items()}))

    def test_what_only_looks_like_the_model(self):
        state = self.wrapped[0].module.state_dict()
        self.assertFalse(self.owner({name: value + 1 for name, value in state.items()})[2])
        self.assertFalse(self.owner({name: (value + 1).half() for name, value in state.items()})[2])
        for copied in (self.wrapped[0].module, self.wrapped[0]):
            average = torch.optim.swa_utils.AveragedModel(copied)  # with the model's bits until it is updated
            found = states.find(average.state_dict(), self.models)
            self.assertEqual((found.is_average, found.is_own()), (True, False))
        self.assertFalse(self.owner(average.module.state_dict())[2])

    def test_other_types_and_names(self):
        state = self.wrapped[0].module.state_dict()
        self.assertEqual(states.find({**state, "2.bias": state["2.bias"].half()}, self.models).other_types(), ["2.bias"])
        self.assertEqual(states.find({**state, "2.bias": state["0.bias"]}, self.models).swapped(), ["2.bias"])
        self.assertEqual(states.find(state, self.models).swapped(), [])

    def test_no_hook_of_the_script_is_called(self):
        def fail(*_):
            raise AssertionError("called")
        net = self.net((8, 32, 1))
        net.register_buffer("kept", torch.ones(1))
        net.register_buffer("left", torch.ones(1), persistent=False)
        net[2].again = net[0]
        state = net.state_dict()
        net[0].get_extra_state = fail
        self.assertEqual(list(states.live_of(net)), list(state))
        self.assertTrue(states.is_plain(net))
        net[0]._register_state_dict_hook(fail)
        model = states.Model(self.wrap(net))
        self.assertFalse(model.is_plain)
        self.assertTrue(states.find(state, [model]).is_own())
        del state["kept"]  # the hook may have done that
        self.assertIsNone(states.find(state, [model]))

    def test_what_is_to_be_trained_on_with(self):
        net = self.wrapped[0].module
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1).state_dict()
        self.assertTrue(states.resumes({"model": net.state_dict(), "optimizers": [optimizer]}))
        self.assertFalse(states.resumes({"model": net.state_dict(), "state": 1}))


class Guards(unittest.TestCase):
    """What is ours and goes wrong is said once, and the program goes on."""

    def test_it_is_said_once(self):
        calls = []

        @ours.guarded("a test", otherwise=lambda value: -value)
        def fail(value):
            calls.append(value)
            raise ValueError("no such thing")

        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual([fail(1), fail(2)], [-1, -2])
        self.assertEqual((calls, said.getvalue()),
                         ([1], "ddprove: a test: not watched any more: fail: ValueError: no such thing\n"))

    def test_the_script_saves_and_loads_and_clips(self):
        """Whatever a proof thinks of it."""
        facts = usage.Usage("")
        facts.keeper = keeper = keep.Keeper("", None, facts)
        net = torch.nn.Linear(2, 2)
        net(torch.ones(1, 2)).sum().backward()
        with contextlib.ExitStack() as stack:
            for holder, name in ((torch, "save"), (torch.nn.Module, "load_state_dict"), (torch.amp.GradScaler, "unscale_"),
                                 *((holder, name) for holder in (torch.nn.utils, torch.nn.utils.clip_grad)
                                   for name in ("clip_grad_norm_", "clip_grad_value_"))):
                stack.enter_context(mock.patch.object(holder, name, getattr(holder, name)))  # put back at the end
            said = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            usage.install_clips(facts)
            usage.install_files(facts)
            keeper.models = [None]
            torch.save(net.state_dict(), io.BytesIO())
            net.load_state_dict(net.state_dict(), True, False)
            torch.nn.utils.clip_grad_norm_(net.parameters(), object.__new__(Number), norm_type=2)
        self.assertIn("save: AttributeError", keeper.failure)
        self.assertEqual(said.getvalue().count("nothing more of this run is kept"), 1)
        self.assertAlmostEqual(float(net.weight.grad.norm() ** 2 + net.bias.grad.norm() ** 2), 1.0, 4)

    def test_buffers_are_read_of_kept_steps_only(self):
        facts = usage.Usage("")
        facts.keeper = mock.Mock(rank=0, world=2)
        facts.keeper.buffers.return_value = {"mean": torch.ones(2)}
        facts.end_step(False)
        facts.keeper.buffers.assert_not_called()
        facts.end_step(True)
        facts.keeper.rank = 1
        facts.end_step(True)
        self.assertEqual(facts.buffers, [None, usage.digest([("mean", torch.ones(2))]), None])

    def test_what_is_no_dict_is_saved_at_once(self):
        with mock.patch.object(library, "guest", mock.Mock()), mock.patch.object(states, "Model") as model:
            self.assertEqual(files._before_save([1]), ([1], True))
            self.assertEqual(files._before_save({"step": 1}), ({"step": 1}, True))
            model.assert_not_called()

    def test_numbers_of_other_libraries(self):
        self.assertEqual([usage.number_of(value) for value in (object.__new__(Number), 2, None, "inf")],
                         [1.0, 2, None, "inf"])


class Number:
    def __float__(self):
        return 1.0


class Bits(unittest.TestCase):
    """Keeping steps changes no bit of the training."""

    def final(self, command, is_kept):
        held = []
        first = torch.nn.parallel.DistributedDataParallel.__init__

        def init(ddp, *args, **kwargs):
            first(ddp, *args, **kwargs)
            held.append(ddp)

        with tempfile.TemporaryDirectory() as folder:
            def at_end(rank):
                if rank == 0:
                    torch.save(held[0].module.state_dict(), os.path.join(folder, "final.pt"))
            torch.nn.parallel.DistributedDataParallel.__init__ = init
            if is_kept:
                os.environ["DDPROVE_PROVE"] = folder
            try:
                self.assertEqual(ranks.run(command, 2, 6, folder, at_end), [0, 0])
            finally:
                os.environ.pop("DDPROVE_PROVE", None)
                torch.nn.parallel.DistributedDataParallel.__init__ = first
            self.assertEqual(os.path.exists(os.path.join(folder, "proof.json")), is_kept)
            return torch.load(os.path.join(folder, "final.pt"), weights_only=True)

    def test_weights(self):
        ranks.warm_up()
        for command in ("mlp_digits.py", "convnet.py", "gpt.py", "moe.py", "uneven.py --join"):
            with self.subTest(command):
                one, other = self.final(command, False), self.final(command, True)
                self.assertEqual(one.keys(), other.keys())
                self.assertEqual([name for name in one if not store.same_bits(one[name], other[name])], [])


class Faults(unittest.TestCase):
    """A contribution that a fault has changed in a copy goes into the call, however the operator takes it."""

    def test_copies_are_handed_on(self):
        for name, named in (
                ("allgather_", {"output_tensors": [[torch.zeros(3), torch.zeros(3)]], "input_tensors": [torch.ones(3)]}),
                ("_allgather_base_", {"output_tensor": torch.zeros(6), "input_tensor": torch.ones(3)}),
                ("gather_", {"output_tensors": [[]], "input_tensors": [torch.ones(3)], "root_rank": 0}),
                ("alltoall_base_", {"output": torch.zeros(4), "input": torch.ones(4), "output_split_sizes": [],
                                    "input_split_sizes": []})):
            shape = forms.FORMS[name](named, 1, 2)
            call = library.Call()
            call.dtype, call.elem_count = shape.dtype, shape.count
            call.input, call.output = shape.addresses()
            entry = backend.Entry(call, [])
            entry.asked = faults.values_of(call)
            self.assertIs(faults.change(name, entry, shape, named).named, named)
            other = torch.full_like(shape.source, 7.0)
            call.input = other.data_ptr()
            changed = faults.change(name, entry, shape, named).named
            (key,) = [key for key in ("input", "input_tensor", "input_tensors") if key in named]
            value, was = changed[key], named[key]
            value, was = (value[0], was[0]) if isinstance(value, list) else (value, was)
            self.assertEqual((value.tolist(), was.tolist()), (other.tolist(), [1.0] * len(was)), name)
            for key in named:
                if key.startswith("output"):
                    self.assertIs(changed[key], named[key])


if __name__ == "__main__":
    unittest.main()
