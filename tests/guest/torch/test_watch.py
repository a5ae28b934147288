"""Tests of what a rank tells while it runs: passes, samples, updates, and errors of ours."""
import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../harness/guest/torch"))

try:
    import torch
except ImportError:
    print("there is no PyTorch here")
    sys.exit(77)

from torch.utils.data import BatchSampler, DataLoader, DistributedSampler  # noqa: E402

from ddprove_torch import data as data_of, ddp, library, optimizer  # noqa: E402


class Passes(unittest.TestCase):
    """A module of two parameters: what is told of its passes."""

    def setUp(self):
        self.told = []
        guest = mock.Mock(unused=lambda _number, names, count, _is_allowed: self.told.append(list(names[:count])))
        patch = mock.patch.object(library, "guest", guest)
        patch.start()
        self.addCleanup(patch.stop)
        self.one = ddp.Wrapped.__new__(ddp.Wrapped)
        self.one.number, self.one.allows_unused, self.one.ready, self.one.is_due = 0, False, set(), False
        self.one.names, self.one.parameters = ["a", "b"], [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]

    def back(self, *ready, is_failed=False):
        self.one.ready.update(ready)
        self.one.goes_back(is_failed)

    def test_gradients_of_several_backward_passes_add_up(self):
        for _ in range(2):
            self.one.goes_forward(True)
            self.back(0)
            self.assertEqual(self.told, [])
            self.back(1)
            self.assertEqual(self.told.pop(), [])

    def test_what_is_missing_is_told_before_the_next_pass(self):
        self.one.goes_forward(True)
        self.back(0)
        self.one.goes_forward(False)
        self.assertEqual(self.told, [[b"b"]])
        self.one.goes_forward(True)
        self.back(0)
        self.assertEqual(len(self.told), 1)  # what came earlier counts no more

    def test_what_is_missing_is_told_with_its_update(self):
        self.one.goes_forward(True)
        self.back(0)
        ddp._modules.append(self.one)
        self.one.module = lambda: self.one
        try:
            ddp.tell_left(torch.optim.SGD(self.one.parameters[:1], 0.1))
            self.assertEqual(self.told, [])  # its own is there
            ddp.tell_left(torch.optim.SGD(self.one.parameters, 0.1))
        finally:
            ddp._modules.remove(self.one)
        self.assertEqual(self.told, [[b"b"]])

    def test_a_backward_pass_that_fails_says_nothing(self):
        self.one.goes_forward(True)
        self.back(0, is_failed=True)
        self.one.goes_forward(True)
        self.assertEqual(self.told, [])

    def test_an_operator_without_a_gradient_counts(self):
        class Nothing(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return None

        nodes = [self.one._watched_node(i, p) for i, p in enumerate(self.one.parameters)]
        (Nothing.apply(self.one.parameters[0]) + self.one.parameters[1]).sum().backward()
        self.assertEqual((self.one.ready, len(nodes)), ({0, 1}, 2))


class Samplers(unittest.TestCase):
    def test_those_that_draw_otherwise_are_not_known(self):
        class Own(DistributedSampler):
            def __iter__(self):
                return iter([0])

        class Named(DistributedSampler):
            def __len__(self):
                return 3

        class Batches(BatchSampler):
            def __iter__(self):
                return iter([[0]])

        data = list(range(8))
        samplers = [kind(data, num_replicas=2, rank=0) for kind in (DistributedSampler, Named, Own)]
        loaders = [DataLoader(data, sampler=sampler) for sampler in samplers] + \
            [DataLoader(data, batch_sampler=kind(samplers[0], 2, False)) for kind in (BatchSampler, Batches)] + \
            [DataLoader(data, batch_size=None, sampler=samplers[0]), DataLoader(data, batch_size=2)]
        with mock.patch("torch.distributed.is_initialized", lambda: True), \
                mock.patch("torch.distributed.get_world_size", lambda: 2):
            known = [data_of._sampler_of(loader) is not None for loader in loaders]
            first, DistributedSampler.__iter__ = DistributedSampler.__iter__, lambda self: iter([1])
            try:  # as with --prove equivalence
                self.assertIs(data_of._sampler_of(loaders[0]), samplers[0])
            finally:
                DistributedSampler.__iter__ = first
        self.assertEqual(known, [True, True, False, True, False, True, False])


class Closures(unittest.TestCase):
    def test_the_update_is_looked_at_behind_them(self):
        seen, parameter = [], torch.nn.Parameter(torch.ones(2))

        def closure():
            parameter.grad = torch.ones(2)
            return 5

        for kind, before in ((torch.optim.SGD, 0), (torch.optim.AdamW, 0), (torch.optim.Adam, 1),
                             (torch.optim.LBFGS, 1)):
            one = kind([parameter], lr=0.1)
            for args, kwargs in (((one, closure), {}), ((one,), {"closure": closure})):
                del seen[:]
                parameter.grad = None
                with mock.patch.object(optimizer, "_look_at_update", lambda _: seen.append(parameter.grad)):
                    result = optimizer._come_to_update(one, args, kwargs)
                    self.assertEqual(len(seen), before)
                    if result is not None:
                        args, kwargs = result
                        self.assertEqual((args[0], [*args[1:], *kwargs.values()][0]()), (one, 5))
                        self.assertIs(seen[0], parameter.grad)


if __name__ == "__main__":
    unittest.main()
