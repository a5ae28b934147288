"""What is told of calls whose data lie on a GPU, which nobody needs for it: streams and events are made up."""
import os
import sys
import threading
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "harness", "guest", "torch"))

try:
    import torch
except ImportError:
    print("there is no PyTorch here")
    sys.exit(77)

from ddprove_torch import backend, device, host, library, optimizer  # noqa: E402


class Event:
    """The device comes to it when the test says so."""

    def __init__(self, error=None):
        self.come, self.error = threading.Event(), error

    def record(self, _stream):
        pass

    def query(self):
        is_come = self.come.is_set()
        if is_come and self.error is not None:
            raise self.error
        return is_come

    def synchronize(self):
        self.come.wait()
        self.query()


class Guest:
    """Notes what it is told."""

    def __init__(self):
        self.told, self.changed = [], threading.Condition()
        self.is_asking = self.is_faulty = False  # for data; a fault waits behind calls

    def asks_updated(self):
        return self.is_asking

    def wants_calls(self, is_behind):
        return self.is_faulty and bool(is_behind)

    def __getattr__(self, name):
        def tell(call):
            with self.changed:
                self.told.append((name, call.name))
                self.changed.notify_all()
        return tell

    def wait_for(self, count):
        with self.changed:
            self.changed.wait_for(lambda: len(self.told) >= count, timeout=60)
            return list(self.told)


class Call:
    def __init__(self, name, comm=1):
        self.name, self.comm = name, comm


CARD = torch.device("cuda", 0)


class Calls(unittest.TestCase):
    def setUp(self):
        self.guest, self.is_capturing, self.events = Guest(), False, []
        self.patches = [mock.patch.object(library, "guest", self.guest),
                        mock.patch.object(torch.cuda, "Event", lambda **_: self.events[-1]),
                        mock.patch.object(torch.cuda, "current_stream", lambda _: None),
                        mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: self.is_capturing)]
        for patch in self.patches:
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(device.forget, 1)
        self.addCleanup(device.forget, 2)

    def finish(self, name, comm=1, error=None, stage=None):
        self.events.append(Event(error))
        device.finish(Call(name, comm), CARD, stage)
        return self.events[-1]

    def test_it_is_done_when_the_device_says_so(self):
        event = self.finish("sum")
        self.assertEqual(self.guest.wait_for(1), [("call_wait_begin", "sum")])
        event.come.set()
        self.assertEqual(self.guest.wait_for(3)[1:], [("call_wait_end", "sum"), ("call_done", "sum")])

    def test_one_after_the_other_and_each_communicator_by_itself(self):
        first, second, other = self.finish("first"), self.finish("second"), self.finish("other", 2)
        second.come.set()
        other.come.set()
        self.guest.wait_for(2)
        first.come.set()
        device.forget(1)
        device.forget(2)
        done = [name for told, name in self.guest.told if told == "call_done"]
        self.assertEqual(sorted(done), ["first", "other", "second"])
        self.assertLess(done.index("first"), done.index("second"))

    def test_an_error_of_the_device(self):
        event = self.finish("sum", error=RuntimeError("unspecified launch failure"))
        event.come.set()
        device.forget(1)
        self.assertEqual(self.guest.told[-1], ("call_failed", "sum"))
        self.assertNotIn(("call_done", "sum"), self.guest.told)

    def test_of_a_graph_nothing_is_known(self):
        self.is_capturing = True
        self.finish("sum")
        self.assertEqual(self.guest.told, [])

    def test_its_result_is_fetched_before_it_is_done(self):
        stage = mock.Mock()
        stage.fetch_target.side_effect = lambda: self.guest.told.append(("fetched", "sum"))
        self.finish("sum", stage=stage).come.set()
        device.forget(1)
        told = [name for name, _ in self.guest.told]
        self.assertEqual((told[0], told[-1]), ("fetched", "call_done"))
        stage.done.assert_not_called()

    def test_a_fault_behind_a_call_acts_on_the_program(self):
        """On its own thread, which has waited for the device; what the fault makes of the result is written back."""
        stage, stream, self.guest.is_faulty = mock.Mock(), mock.Mock(), True
        stage.done.side_effect = lambda: self.guest.told.append(("written back", "sum"))
        with mock.patch.object(torch.cuda, "current_stream", lambda _: stream):
            device.finish(Call("sum"), CARD, stage)
        stream.synchronize.assert_called_once_with()
        self.assertEqual([name for name, _ in self.guest.told],
                         ["call_wait_begin", "call_wait_end", "call_done", "written back"])
        stage.remember_target.assert_called_once_with()

    def test_a_fault_behind_a_call_that_fails(self):
        stage, stream, self.guest.is_faulty = mock.Mock(), mock.Mock(), True
        stream.synchronize.side_effect = RuntimeError("unspecified launch failure")
        with mock.patch.object(torch.cuda, "current_stream", lambda _: stream):
            device.finish(Call("sum"), CARD, stage)
        self.assertEqual([name for name, _ in self.guest.told], ["call_wait_begin", "call_failed", "call_wait_end"])
        stage.done.assert_not_called()

    def test_data_are_copied_if_somebody_asks(self):
        shape = mock.Mock(source=torch.arange(3.0), where=torch.device("cpu"))
        shape.target = shape.source
        self.assertIsNone(host.stage_of(shape))  # they lie in the host's memory
        with mock.patch.object(host, "is_far", lambda _: True):
            self.assertIsNone(host.stage_of(shape))  # nobody asks
            self.guest.is_asking = True
            stage = host.stage_of(shape)
            into, out = stage.addresses()
            self.assertEqual(into, out)  # as with the tensors themselves
            self.assertNotEqual(into, shape.source.data_ptr())
            shape.target = torch.zeros(3)
            self.assertNotEqual(*host.stage_of(shape).addresses())
            shape.source = torch.arange(6.0)[::2]
            self.assertIsNone(host.stage_of(shape).addresses()[0])  # not one run of memory

    def test_a_model_over_two_devices_is_waited_for_on_both(self):
        table, devices = optimizer.Table.__new__(optimizer.Table), [torch.device("cuda", i) for i in (0, 1)]
        table.copies = {(i, "data"): mock.Mock(**{"tensor.device": devices[i % 2]}) for i in range(4)}
        with mock.patch.object(host, "wait") as wait:
            table.wait()
        self.assertEqual(sorted(str(call.args[0]) for call in wait.call_args_list), ["cuda:0", "cuda:1"])

    def test_only_what_was_changed_is_written_back(self):
        tensor = torch.arange(3.0)
        with mock.patch.object(host, "is_far", lambda _: True):
            copy = host.Copy(tensor)
        copy.fetch()
        copy.remember()
        tensor[0] = 7  # the program's own doing
        copy.give_back()
        self.assertEqual(tensor.tolist(), [7, 1, 2])
        copy.remember()
        copy.memory[1] = float("nan")
        copy.give_back()
        self.assertEqual(str(tensor.tolist()), "[0.0, nan, 2.0]")
        copy.memory[2] = 5
        copy.give_back()  # nobody was to change it
        self.assertEqual(tensor[2], 2)

    def test_on_the_host_it_is_done(self):
        device.finish(Call("sum"), torch.device("cpu"))
        self.assertEqual(self.guest.told, [("call_done", "sum")])

    def test_a_call_without_a_work(self):
        """NCCL gives none for a call that the program's own stream does; the program waits for nothing then."""
        kernel, named = backend.Kernel.__new__(backend.Kernel), {"tensors": ["tensor"]}
        kernel.name, kernel.below, kernel.op = "allreduce_", 0, mock.Mock()
        kernel.op.redispatch.return_value = ["tensor"], "no work"
        kernel.op._schema.returns = ["Tensor[]", "Work"]
        entry = backend.Entry(Call("sum"), [], CARD)
        entry.times = 2
        self.events.append(Event())
        with mock.patch.object(backend, "Work", mock.Mock(unbox=lambda _: None)), \
                mock.patch.object(backend.faults, "change", lambda *_: mock.Mock(redop=None, named=named)):
            result = kernel.make(0, None, mock.Mock(), entry, named, (["tensor"],))
        self.assertEqual((result, kernel.op.redispatch.call_count), ((["tensor"], "no work"), 2))
        self.events[-1].come.set()
        device.forget(1)
        self.assertEqual(self.guest.told[-1], ("call_done", "sum"))

    def test_who_waits_on_the_host(self):
        on_gpu, on_host, nowhere = mock.Mock(), mock.Mock(), mock.Mock()
        on_gpu._get_backend.return_value.name.return_value = "nccl"
        on_host._get_backend.return_value.name.return_value = "gloo"  # it takes a GPU's data, too
        nowhere._get_backend.side_effect = RuntimeError("no backend for device type cuda")
        self.assertTrue(device.is_waited_on_host("barrier", on_gpu))
        self.assertFalse(device.is_waited_on_host("allreduce_", on_gpu))
        self.assertFalse(device.is_waited_on_host("barrier", on_host))
        self.assertFalse(device.is_waited_on_host("barrier", nowhere))
        with mock.patch.dict(os.environ, TORCH_NCCL_BLOCKING_WAIT="1"):
            self.assertTrue(device.is_waited_on_host("allreduce_", on_gpu))
            self.assertFalse(device.is_waited_on_host("allreduce_", on_host))


class Inner:
    """The backend's own work."""

    def __init__(self):
        self.is_over, self.error, self.waits = False, None, []

    def is_completed(self):
        return self.is_over

    def wait(self, *timeout):
        self.waits.append(timeout)
        if not self.is_over:
            raise RuntimeError("Operation timed out!")
        if self.error is not None:
            raise self.error
        return True


class Works(unittest.TestCase):
    """What the program meets when it waits for a work of ours."""

    def setUp(self):
        self.guest, self.inner, self.future = Guest(), Inner(), torch.futures.Future()
        for patch in (mock.patch.object(library, "guest", self.guest),
                      mock.patch.object(backend, "_wait", lambda work, *timeout: work.wait(*timeout))):
            patch.start()
            self.addCleanup(patch.stop)
        self.entry = backend.Entry(Call("sum"), ["tensor"])
        self.entry.inner = self.inner
        self.work = backend._defer(self.entry, self.future)

    def wait(self, *timeout):
        """As Work.wait does."""
        return (backend._pending.get(id(self.work)) or backend._over[self.work]).wait(*timeout)

    def come(self, error=None):
        self.inner.is_over, self.inner.error = True, error
        if error is None:
            self.future.set_result(["tensor"])
        else:
            self.future.set_exception(error)

    def test_an_error_that_came_before_the_wait_is_met_by_each(self):
        self.come(RuntimeError("the peer is gone"))
        for _ in range(2):
            self.assertRaisesRegex(RuntimeError, "the peer is gone", self.wait)
        self.assertEqual(self.guest.told, [("call_failed", "sum")])

    def test_a_wait_whose_time_is_up_is_no_failure(self):
        for _ in range(2):
            self.assertRaisesRegex(RuntimeError, "timed out", self.wait, 1)
        self.assertNotIn(("call_failed", "sum"), self.guest.told)
        self.come()
        self.assertTrue(self.wait(1))
        self.assertEqual(self.inner.waits, [(1,), (1,), (1,)])
        self.assertIn(("call_done", "sum"), self.guest.told)

    def test_nothing_is_kept_of_one_that_nobody_can_wait_for(self):
        self.come()
        self.assertIsNone(self.entry.holds)
        self.assertNotIn(id(self.work), backend._pending)
        count = len(backend._over)
        del self.work
        self.assertEqual(len(backend._over), count - 1)

    def test_works_that_nobody_waits_for_are_let_go_of(self):
        mine, held, before = [], [], set(backend._pending)
        patch = mock.patch.object(backend, "_look_at", backend._LOOK_AT)
        patch.start()
        self.addCleanup(patch.stop)
        for number in range(1000):
            work, entry = Inner(), backend.Entry(Call("send"), [])
            if number % 100 == 0:
                held.append(work)
            if number % 2:
                entry.inner = work
                backend._await(None, entry, work)
            else:
                backend._keep_until_waited(work, backend.UnshownEntry(None, work, [1]))
            mine.append(id(work))
            del work, entry
            self.assertLess(len(backend._pending), 4 * backend._LOOK_AT)
        for work in held:
            self.assertIs(backend._pending.pop(id(work)).inner, work)
        for key in set(backend._pending) - before:
            del backend._pending[key]


if __name__ == "__main__":
    unittest.main()
