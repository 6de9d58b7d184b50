"""torch tensors: plain values that keep their kind. Skipped without torch."""

import gc
import threading

import pytest

torch = pytest.importorskip("torch")


def travel(ray, value):
    return ray.get(ray.put(value))


@pytest.mark.parametrize("name", ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32",
                                  "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (200, 200)])
def test_tensors_of_every_kind(ray, name, shape):
    tensor = torch.ones(shape).to(getattr(torch, name))
    got = travel(ray, tensor)
    assert type(got) is torch.Tensor and got.dtype == tensor.dtype and got.shape == tensor.shape
    assert torch.equal(got, tensor)


def test_tensors_and_arrays_side_by_side(ray):
    import numpy as np
    got = travel(ray, {"t": torch.arange(5), "n": np.arange(5)})
    assert type(got["t"]) is torch.Tensor and type(got["n"]) is np.ndarray


def test_tensors_that_only_torch_can_send(ray):
    for tensor in (torch.ones(3, requires_grad=True), torch.ones(4, 4).t()[1:], torch.nn.Parameter(torch.ones(2)),
                   torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64).conj().imag):
        got = travel(ray, tensor)
        assert type(got) is type(tensor) and torch.equal(got, tensor) and got.requires_grad == tensor.requires_grad


def test_models_travel(ray):
    @ray.remote
    def apply(model, x):
        return model(x).detach()
    model, x = torch.nn.Linear(4, 2), torch.ones(3, 4)
    assert torch.allclose(ray.get(apply.remote(model, x)), model(x).detach())


def test_what_is_written_into_a_received_tensor_harms_nobody(ray):
    ref = ray.put(torch.ones(100_000))

    @ray.remote
    def total(tensor):
        return float(tensor.sum())
    mine = ray.get(ref)
    mine.zero_()
    assert ray.get(total.remote(ref)) == 100_000.0


@pytest.mark.parametrize("sizes", [[100_000], [1000] * 100])
def test_what_is_written_into_one_is_not_seen_in_another(ray, sizes):
    def are(tensors, number):
        return len(tensors) == len(sizes) and all(tensor.eq(number).all() for tensor in tensors)

    def fill(tensors, number):
        for tensor in tensors:
            tensor.fill_(number)
    ref = ray.put([torch.ones(size) for size in sizes])
    one, other = ray.get(ref), ray.get(ref)
    fill(one, 0)
    third = ray.get(ref)  # while the written one is alive
    assert are(other, 1) and are(third, 1)
    fill(other, 2)
    fill(third, 3)
    assert are(one, 0) and are(other, 2) and are(ray.get(ref), 1)
    del one[1:], other, third  # one of the tensors is enough to keep the value
    assert are(ray.get(ref), 1)
    del one
    assert are(ray.get(ref), 1)


def test_what_is_written_goes_with_the_tensor_though_others_of_the_value_stay(ray):
    import numpy as np
    ref = ray.put([np.arange(100_000), torch.ones(100_000)])
    numbers, tensor = ray.get(ref)
    tensor.zero_()
    del tensor
    again = ray.get(ref)
    assert again[1].eq(1).all() and (again[0] == numbers).all()


def test_an_argument_that_is_written_to_is_not_what_get_gives(ray):
    @ray.remote
    class Keeper:
        def take(self, tensor, refs):
            tensor.zero_()
            self.tensor = tensor
            return float(ray.get(refs[0]).sum()), float(self.tensor.sum())
    ref = ray.put(torch.ones(100_000))
    assert ray.get(Keeper.remote().take.remote(ref, [ref])) == (100_000.0, 0.0)


def test_the_first_tensor_lies_where_the_value_lies(ray):
    """The first tensor is in place; a second tensor of the value is a copy."""
    ref = ray.put(torch.ones(100_000))
    one, other = ray.get(ref), ray.get(ref)
    where = one.data_ptr()
    del one, other
    assert ray.get(ref).data_ptr() == where


def test_tensors_that_are_parts_of_a_large_value_are_ones_own(ray):
    """Each tensor has 60 KB, so together they are in shared memory."""
    ref = ray.put([torch.full((15000,), float(i)) for i in range(6)])
    one, other = ray.get(ref), ray.get(ref)
    one[2].fill_(7)
    assert other[2].eq(2).all() and ray.get(ref)[2].eq(2).all()
    kept = one[2]
    del one, other, ref
    again = [ray.put([torch.full((15000,), 9.0) for _ in range(6)]) for _ in range(5)]
    assert kept.eq(7).all() and len(again) == 5


def test_tensors_of_some_size_lie_where_a_large_value_lies(ray):
    ref = ray.put([torch.full((15_000,), float(i)) for i in range(100)])
    first, second = ray.get(ref), ray.get(ref)
    where = [tensor.data_ptr() for tensor in first]
    assert {b - a for a, b in zip(where, where[1:])} == {60_032}  # contiguous, each on a cache line
    assert not set(where) & {tensor.data_ptr() for tensor in second}
    del first
    gc.collect()
    third = ray.get(ref)
    assert where == [tensor.data_ptr() for tensor in third]
    assert all(tensor.eq(i).all() for i, tensor in enumerate(third))


def test_a_tensor_that_is_let_go_by_another_thread(ray):
    ref = ray.put([torch.full((15_000,), float(i)) for i in range(6)])
    held = [ray.get(ref)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert all(tensor.eq(i).all() for i, tensor in enumerate(ray.get(ref)))


def test_weights_of_an_actor(ray):
    @ray.remote
    class Worker:
        def __init__(self):
            self.model = torch.nn.Linear(10, 1)

        def get_weights(self):
            return [p.detach().cpu() for p in self.model.parameters()]

        def set_weights(self, weights):
            with torch.no_grad():
                for param, new in zip(self.model.parameters(), weights):
                    param.copy_(new)
    a, b = Worker.remote(), Worker.remote()
    ray.get(b.set_weights.remote(ray.get(a.get_weights.remote())))
    for left, right in zip(*ray.get([a.get_weights.remote(), b.get_weights.remote()])):
        assert torch.equal(left, right)
    ray.kill(a)
    ray.kill(b)
