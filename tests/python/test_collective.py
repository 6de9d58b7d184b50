"""util.collective: arrays of all members of a group, combined in place. The reference is NumPy with the same
numbers."""

import numpy as np
import pytest

import miniray
from miniray.util import collective as col

N = 3
OPERATIONS = {"SUM": np.sum, "PRODUCT": np.prod, "MIN": np.min, "MAX": np.max}


class Member:
    """An actor that runs a given operation, together with the others."""

    def init(self, rank, group="default", timeout_ms=60_000):
        col.init_collective_group(N, rank, "gloo", group, timeout_ms)
        return col.get_rank(group), col.get_collective_group_size(group), col.is_group_initialized(group)

    def leave(self, group="default"):
        col.destroy_collective_group(group)
        return col.get_rank(group), col.get_collective_group_size(group), col.is_group_initialized(group)

    def run(self, function, *args):
        return function(col.get_rank(), *args)


@pytest.fixture(scope="module")
def members(ray):
    made = [miniray.remote(Member).remote() for _ in range(N)]
    assert ray.get([member.init.remote(rank) for rank, member in enumerate(made)]) == [(i, N, True) for i in range(N)]
    yield made
    for member in made:
        ray.kill(member)


def together(members, function, *args):
    return miniray.get([member.run.remote(function, *args) for member in members], timeout=120)


def given(rank, shape, dtype):
    """The array of a rank: small numbers, so that sums are exact in every type."""
    return np.random.default_rng(rank).integers(1, 5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(1,), (7, 3), (40_001,), (300, 500)])
def test_allreduce_is_the_sum_of_all(members, shape, dtype):
    def reduce(rank):
        array = given(rank, shape, dtype)
        col.allreduce(array)
        return array
    wanted = np.sum([given(rank, shape, dtype) for rank in range(N)], axis=0).astype(dtype)
    for array in together(members, reduce):
        assert array.dtype == dtype
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("op", OPERATIONS)
def test_allreduce_and_reduce_do_more_than_sums(members, op):
    def reduce(rank):
        everywhere, somewhere = given(rank, (5,), "float64"), given(rank, (5,), "float64")
        col.allreduce(everywhere, op=col.ReduceOp[op])
        col.reduce(somewhere, dst_rank=1, op=col.ReduceOp[op])
        return everywhere, somewhere
    wanted = OPERATIONS[op]([given(rank, (5,), "float64") for rank in range(N)], axis=0)
    for rank, (everywhere, somewhere) in enumerate(together(members, reduce)):
        np.testing.assert_array_equal(everywhere, wanted)
        np.testing.assert_array_equal(somewhere, wanted if rank == 1 else given(rank, (5,), "float64"))


def test_everybody_gets_the_same_to_the_last_bit(members):
    def reduce(rank):
        array = np.random.default_rng(rank).normal(size=50_000)
        col.allreduce(array)
        return array.tobytes()
    assert len(set(together(members, reduce))) == 1


@pytest.mark.parametrize("size", [4, 20_000])
def test_broadcast_gives_everybody_what_one_has(members, size):
    def broadcast(rank):
        array = np.full(size, float(rank))
        col.broadcast(array, src_rank=2)
        return array
    assert all((array == 2).all() and len(array) == size for array in together(members, broadcast))


def test_allgather_and_reducescatter(members):
    def gather(rank):
        outs = [np.zeros((2, 2)) for _ in range(N)]
        col.allgather(outs, np.full((2, 2), float(rank)))
        mine = np.zeros(3)
        col.reducescatter(mine, [np.full(3, 10.0 * to + rank) for to in range(N)])
        return [out[0, 0] for out in outs], mine.tolist()
    assert together(members, gather) == [([0, 1, 2], [10.0 * N * rank + 3] * 3) for rank in range(N)]


def test_what_is_sent_comes_in_its_order(members):
    def pass_on(rank):
        got = np.zeros(2)
        if rank == 0:
            for number in range(3):
                col.send(np.full(2, float(number)), 1)
            return None
        if rank == 1:
            numbers = []
            for _ in range(3):
                col.recv(got, 0)
                numbers.append(got[0])
            return numbers
        return None
    assert together(members, pass_on) == [None, [0, 1, 2], None]


def test_a_barrier_waits_for_the_last(members, tmp_path):
    path = tmp_path / "here"

    def wait(rank):
        if rank == 2:
            path.write_text("last")
        col.barrier()
        return path.exists()
    first = [member.run.remote(wait) for member in members[:2]]
    assert not miniray.wait(first, timeout=0.2)[0]
    assert miniray.get([*first, members[2].run.remote(wait)]) == [True] * N


def test_those_who_do_different_things_are_told(members):
    def differ(rank):
        with pytest.raises(RuntimeError, match=r"rank 0 barrier, rank 1 allreduce\(SUM, float64, \[2\]\), rank 2 barrier"):
            col.allreduce(np.zeros(2)) if rank == 1 else col.barrier()
        return True
    assert together(members, differ) == [True] * N


def test_those_who_do_not_come_are_named(members):
    miniray.get([member.init.remote(rank, "late", 200) for rank, member in enumerate(members)])

    def wait(rank):
        with pytest.raises(RuntimeError, match=r"'late': barrier timed out after 0.2 s: ranks 1, 2 of 3 did not call it"):
            col.barrier("late")
        return True
    assert miniray.get(members[0].run.remote(wait))
    assert miniray.get([member.leave.remote("late") for member in members]) == [(-1, -1, False)] * N


def test_a_member_that_begins_again_begins_the_group_again(members):
    def leave_quietly(rank):
        del col._groups["again"]  # as in a restarted process

    def barrier(rank):
        col.barrier("again")
        return True

    def cannot(rank):
        with pytest.raises(RuntimeError, match="has reset the group"):
            col.barrier("again")
        col.destroy_collective_group("again")
        return True
    col.create_collective_group(members, N, [0, 1, 2], group_name="again")
    assert together(members, barrier) == [True] * N
    miniray.get(members[0].run.remote(leave_quietly))
    miniray.get(members[0].init.remote(0, "again"))
    assert miniray.get([member.run.remote(cannot) for member in members[1:]]) == [True, True]
    miniray.get([member.init.remote(rank, "again") for rank, member in enumerate(members) if rank > 0])
    assert together(members, barrier) == [True] * N
    miniray.get([member.leave.remote("again") for member in members])


def test_wrong_uses_are_told(ray):
    for arguments, text in [((0, 0), "world_size"), ((2, 2), "rank is 2"), ((2, -1), "rank is -1"),
                            ((1, 0, "mpi"), "backend"), ((1, 0, "gloo", ""), "group_name")]:
        with pytest.raises(ValueError, match=text):
            col.init_collective_group(*arguments)
    with pytest.raises(RuntimeError, match="group 'default'"):
        col.barrier()
    col.init_collective_group(1, 0, group_name="alone")
    with pytest.raises(RuntimeError, match="already: call destroy_collective_group"):
        col.init_collective_group(1, 0, group_name="alone")
    with pytest.raises(ValueError, match="a NumPy array or a torch tensor"):
        col.allreduce([1, 2], "alone")
    with pytest.raises(ValueError, match="read-only"):
        col.allreduce(ray.get(ray.put(np.zeros(100_000))), "alone")
    with pytest.raises(RuntimeError, match="is this process itself"):
        col.send(np.zeros(1), 0, "alone")
    with pytest.raises(ValueError, match="source rank is 1"):
        col.broadcast(np.zeros(1), 1, "alone")
    with pytest.raises(RuntimeError, match="one for each"):
        col.allgather([], np.zeros(1), "alone")
    with pytest.raises(NotImplementedError, match=r"use allreduce\(\)"):
        col.allreduce_multigpu([np.zeros(1)], "alone")
    col.destroy_collective_group("alone")
    with pytest.raises(RuntimeError, match="from 0 to 1 must occur once"):
        col.create_collective_group([None, None], 2, [0, 2])


def test_torch_tensors_are_changed_in_place(ray):
    torch = pytest.importorskip("torch")
    col.init_collective_group(1, 0, group_name="torch")
    tensor = torch.ones(3)
    col.allreduce(tensor, "torch")
    assert tensor.tolist() == [1, 1, 1]
    col.destroy_collective_group("torch")
