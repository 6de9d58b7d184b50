"""Collective operations between actors, in place, on NumPy arrays and torch tensors of the CPU.

A group is an actor (_Hub) that its members find by name. Each operation is a round: every member sends its array and
gets the arrays of all when the last one has arrived. Large arrays are sent as objects, so that only members that need
an array read it, in place in shared memory.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
from typing import Any

import miniray
from miniray._core_api import did_you_mean
from miniray._core_api.tracebacks import public_module

_NAMESPACE = "miniray.util.collective"
_OBJECT_BYTES = 64 * 1024  # arrays of at least this size are objects in shared memory
_TIMEOUT_MS = 30_000


class Backend(str):
    """Ray's names of transports, which all mean the same transport here."""

    NCCL, GLOO = "NCCL", "GLOO"

    def __new__(cls, name):
        known = {"NCCL": cls.NCCL, "GLOO": cls.GLOO, "TORCH_GLOO": cls.GLOO}
        if not isinstance(name, str) or name.upper() not in known:
            raise did_you_mean.one_of("backend", name, known)
        return known[name.upper()]


class ReduceOp(enum.Enum):
    """The operations that combine arrays."""

    SUM, PRODUCT, MIN, MAX = range(4)


def _op(op):
    """The ReduceOp, or an error for anything else."""
    try:
        return ReduceOp(op)
    except ValueError:
        raise did_you_mean.one_of("op", op, [f"ReduceOp.{each.name}" for each in ReduceOp]) from None


# ---- The actor of a group.


class _Round:
    """One operation: the array of each rank, and each rank's description of the operation."""

    def __init__(self):
        self.brought, self.purposes, self.left = {}, {}, 0
        self.complete = asyncio.Event()


class _Hub:
    """A group of `size` ranks. Its rounds have numbers, which each rank counts. A rank that joins again, as a restarted
    actor does, resets the group."""

    def __init__(self, size):
        self.size, self.generation = size, 0
        self._begin_anew()

    def _begin_anew(self):
        self.generation += 1
        self.ranks, self.rounds = set(), {}
        self.sent = {}  # {(from, to): queue}

    async def join(self, size, rank):
        """Adds a rank; returns the generation of the group."""
        if rank in self.ranks or size != self.size:
            for one in self.rounds.values():
                one.complete.set()
            self.size = size
            self._begin_anew()
        self.ranks.add(rank)
        return self.generation

    async def leave(self, generation, rank):
        """Removes a rank; returns whether the group is empty."""
        if generation == self.generation:
            self.ranks.discard(rank)
        return not self.ranks

    async def meet(self, generation, number, rank, purpose, value, timeout):
        """The list of all ranks' arrays, when all have arrived; a str is an error."""
        if generation != self.generation:
            return _ANEW
        one = self.rounds.setdefault(number, _Round())
        one.brought[rank], one.purposes[rank] = value, purpose
        if len(one.brought) == self.size:
            one.complete.set()
        try:
            await asyncio.wait_for(one.complete.wait(), timeout)
        except asyncio.TimeoutError:
            missing = sorted(set(range(self.size)) - one.brought.keys())
            return f"{purpose} timed out after {timeout:g} s: {_listed('rank', missing)} of {self.size} did not call it"
        if generation != self.generation:
            return _ANEW
        one.left += 1
        if one.left == self.size:
            del self.rounds[number]
        if len(set(one.purposes.values())) > 1:
            told = ", ".join(f"rank {rank} {one.purposes[rank]}" for rank in sorted(one.purposes))
            return f"its ranks have called different operations: {told}"
        return [one.brought[each] for each in range(self.size)]

    async def send(self, generation, source, target, value):
        if generation != self.generation:
            return _ANEW
        self.sent.setdefault((source, target), asyncio.Queue()).put_nowait(value)
        return None

    async def receive(self, generation, source, target, timeout):
        """The message in a list; a str is an error."""
        if generation != self.generation:
            return _ANEW
        queue = self.sent.setdefault((source, target), asyncio.Queue())
        try:
            return [await asyncio.wait_for(queue.get(), timeout)]
        except asyncio.TimeoutError:
            return f"recv timed out after {timeout:g} s: rank {source} did not send"


_ANEW = "a rank joined again, which has reset the group: call init_collective_group() again in every rank"


def _listed(noun, numbers):
    """rank 1; ranks 1, 2"""
    return f"{noun}{'s' * (len(numbers) != 1)} {', '.join(map(str, numbers))}"


class _Group:
    """The membership of this process in a group."""

    def __init__(self, name, size, rank, backend, timeout_ms):
        self.name, self.size, self.rank, self.backend = name, size, rank, backend
        self.timeout = timeout_ms / 1000
        self.numbers = itertools.count()
        cls = miniray.remote(num_cpus=0, max_concurrency=100_000)(_Hub)
        self.hub = cls.options(name=name, namespace=_NAMESPACE, get_if_exists=True).remote(size)
        self.generation = miniray.get(self.hub.join.remote(size, rank))

    def meet(self, purpose, array=None):
        """The arrays of all ranks."""
        number = next(self.numbers)
        return self._opened(miniray.get(self.hub.meet.remote(self.generation, number, self.rank, purpose,
                                                             _packed(array), self.timeout)))

    def send(self, array, target):
        self._opened(miniray.get(self.hub.send.remote(self.generation, self.rank, target, _packed(array))) or [])

    def receive(self, source):
        return self._opened(miniray.get(self.hub.receive.remote(self.generation, source, self.rank, self.timeout)))[0]

    def leave(self):
        if miniray.get(self.hub.leave.remote(self.generation, self.rank)):
            miniray.kill(self.hub)

    def _opened(self, values):
        if isinstance(values, str):
            raise RuntimeError(f"collective group {self.name!r}: {values}")
        return [miniray.get(value) if isinstance(value, miniray.ObjectRef) else value for value in values]


def _packed(array):
    return array if array is None or array.nbytes < _OBJECT_BYTES else miniray.put(array)


_groups = {}  # {name: membership of this process}


def _group(name):
    if name not in _groups:
        raise RuntimeError(f"this process is not in the collective group {name!r}: call init_collective_group() in each "
                           f"member first{did_you_mean.hint(name, _groups)}")
    return _groups[name]


# ---- Groups.


def nccl_available() -> bool:
    """False, since there is no transport between GPUs. Copy tensors to the CPU, or use torch.distributed."""
    return False


def gloo_available() -> bool:
    """True: CPU tensors are supported."""
    return True


def is_backend_available(backend) -> bool:
    """Whether the name is a known backend; all of them use the same transport."""
    try:
        return bool(Backend(backend))
    except ValueError:
        return False


def register_collective_backend(name, group_class) -> None:
    """Raises NotImplementedError: backends cannot be added."""
    raise NotImplementedError("miniray.util.collective has one backend, shared memory; no others can be registered")


def is_group_initialized(group_name) -> bool:
    """Whether this process is a member of the group."""
    return group_name in _groups


def init_collective_group(world_size, rank, backend=Backend.NCCL, group_name="default", gloo_timeout=_TIMEOUT_MS) -> None:
    """Makes this process `rank` of a group of `world_size`. An operation in which members are missing for
    `gloo_timeout` milliseconds fails with an error that names them."""
    backend = Backend(backend)
    if not isinstance(group_name, str) or not group_name:
        raise ValueError(f"group_name must be a str that is not empty, not {group_name!r}")
    if group_name in _groups:
        raise RuntimeError(f"this process is in the collective group {group_name!r} already: call destroy_collective_group() first")
    if not isinstance(world_size, int) or world_size <= 0:
        raise ValueError(f"world_size is {world_size!r}: it must be at least 1")
    if not isinstance(rank, int) or not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank!r}: with world_size {world_size} it must be from 0 to {world_size - 1}")
    _groups[group_name] = _Group(group_name, world_size, rank, backend, gloo_timeout)


def create_collective_group(actors, world_size, ranks, backend=Backend.NCCL, group_name="default",
                            gloo_timeout=_TIMEOUT_MS) -> None:
    """Makes a group of actors from outside of them: actors[i] becomes ranks[i]."""
    if len(ranks) != len(actors):
        raise RuntimeError(f"the number of ranks is {len(ranks)}, and that of actors is {len(actors)}: pass one rank for each")
    if set(ranks) != set(range(len(ranks))):
        raise RuntimeError(f"ranks are {list(ranks)}: each number from 0 to {len(ranks) - 1} must occur once")
    if world_size != len(actors):
        raise RuntimeError(f"world_size is {world_size}, and the number of actors is {len(actors)}: they must be equal")
    miniray.get([actor.__ray_call__.remote(_join, world_size, rank, backend, group_name, gloo_timeout)
                 for actor, rank in zip(actors, ranks)])


def _join(actor, *about):
    init_collective_group(*about)


def destroy_collective_group(group_name="default") -> None:
    """Leaves the group; the last member ends it."""
    group = _groups.pop(group_name, None)
    if group is not None:
        group.leave()


def get_rank(group_name="default") -> int:
    """The rank of this process; -1 if it is not a member."""
    return _groups[group_name].rank if group_name in _groups else -1


def get_collective_group_size(group_name="default") -> int:
    """The number of members; -1 if this process is not one."""
    return _groups[group_name].size if group_name in _groups else -1


def get_group_handle(group_name="default") -> Any:
    """The membership of this process; an error if it has none."""
    return _group(group_name)


# ---- Arrays.


def _view(tensor, *, write):
    """The tensor as a NumPy array in the same memory."""
    import numpy
    if isinstance(tensor, numpy.ndarray):
        array = tensor
    elif hasattr(tensor, "detach"):
        if tensor.device.type != "cpu":
            raise ValueError(f"The tensor is on {tensor.device}: collective operations take tensors of the CPU; use "
                             "tensor.cpu(), or torch.distributed for GPUs")
        array = tensor.detach().numpy()
    else:
        raise ValueError(f"a tensor must be a NumPy array or a torch tensor, not {type(tensor).__name__}")
    if write and not array.flags.writeable:
        raise ValueError(f"the {array.dtype} array is read-only, as results of get() are: pass a copy() of it")
    return array


def _views(tensors, group, *, write):
    if not isinstance(tensors, list):
        raise RuntimeError(f"the tensors must be a list, one for each of {group.size} ranks, not {type(tensors).__name__}")
    if len(tensors) != group.size:
        raise RuntimeError(f"the number of tensors is {len(tensors)}, and that of ranks is {group.size}: pass one for each")
    return [_view(tensor, write=write) for tensor in tensors]


def _named(operation, array, *others):
    about = ", ".join(map(str, (*others, array.dtype, list(array.shape))))
    return f"{operation}({about})"


def _combined(arrays, op):
    """The arrays combined in the order of the ranks, so that all ranks get the same bits."""
    import numpy
    combine = {ReduceOp.SUM: numpy.add, ReduceOp.PRODUCT: numpy.multiply, ReduceOp.MIN: numpy.minimum,
               ReduceOp.MAX: numpy.maximum}[_op(op)]
    first, *rest = arrays
    out = numpy.array(first)
    for each in rest:
        combine(out, each, out=out)
    return out


def _check_rank(group, rank, what, *, itself=True):
    if not isinstance(rank, int) or not 0 <= rank < group.size:
        raise ValueError(f"the {what} rank is {rank!r}: in a group of {group.size} it must be from 0 to {group.size - 1}")
    if not itself and rank == group.rank:
        raise RuntimeError(f"the {what} rank {rank} is this process itself: name another rank")


# ---- Operations.


def allreduce(tensor, group_name="default", op=ReduceOp.SUM) -> None:
    """Replaces the tensor of every rank by the combination of all."""
    group, array = _group(group_name), _view(tensor, write=True)
    everybody = group.meet(_named("allreduce", array, _op(op).name), array)
    if group.size <= 2 or array.nbytes < _OBJECT_BYTES:
        array[...] = _combined(everybody, op)
        return
    # Each rank combines one part, and then the ranks exchange the parts: a rank reads at most twice its own size.
    import numpy
    parts = [numpy.array_split(each.reshape(-1), group.size)[group.rank] for each in everybody]
    done = group.meet(_named("the second half of allreduce", array), _combined(parts, op))
    array[...] = numpy.concatenate(done).reshape(array.shape)


def reduce(tensor, dst_rank=0, group_name="default", op=ReduceOp.SUM) -> None:
    """Replaces the tensor of `dst_rank` by the combination of all."""
    group = _group(group_name)
    _check_rank(group, dst_rank, "destination")
    array = _view(tensor, write=group.rank == dst_rank)
    everybody = group.meet(_named("reduce", array, _op(op).name, f"to {dst_rank}"), array)
    if group.rank == dst_rank:
        array[...] = _combined(everybody, op)


def broadcast(tensor, src_rank=0, group_name="default") -> None:
    """Replaces the tensor of every rank by that of `src_rank`."""
    group = _group(group_name)
    _check_rank(group, src_rank, "source")
    ours = group.rank == src_rank
    array = _view(tensor, write=not ours)
    everybody = group.meet(_named("broadcast", array, f"from {src_rank}"), array if ours else None)
    if not ours:
        array[...] = everybody[src_rank]


def allgather(tensor_list, tensor, group_name="default") -> None:
    """Fills the list with the tensors of all ranks, in their order."""
    group, array = _group(group_name), _view(tensor, write=False)
    outs = _views(tensor_list, group, write=True)
    for out, each in zip(outs, group.meet(_named("allgather", array), array)):
        out[...] = each


def reducescatter(tensor, tensor_list, group_name="default", op=ReduceOp.SUM) -> None:
    """Replaces `tensor` by the combination of `tensor_list[rank]` of all ranks; `rank` is that of this process."""
    import numpy
    group, out = _group(group_name), _view(tensor, write=True)
    arrays = numpy.stack(_views(tensor_list, group, write=False))
    everybody = group.meet(_named("reducescatter", arrays, _op(op).name), arrays)
    out[...] = _combined([each[group.rank] for each in everybody], op)


def barrier(group_name="default") -> None:
    """Waits until all ranks have called this function."""
    _group(group_name).meet("barrier")


def send(tensor, dst_rank, group_name="default") -> None:
    """Sends a tensor to another rank; returns when it is on its way."""
    group = _group(group_name)
    _check_rank(group, dst_rank, "destination", itself=False)
    group.send(_view(tensor, write=False), dst_rank)


def recv(tensor, src_rank, group_name="default") -> None:
    """Waits for the next tensor from another rank, and copies it into `tensor`."""
    group, array = _group(group_name), _view(tensor, write=True)
    _check_rank(group, src_rank, "source", itself=False)
    array[...] = group.receive(src_rank)


def _of_gpus(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}() is for several GPUs of one process, which miniray.util.collective does not "
                                  f"drive: use {name.removesuffix('_multigpu')}() on tensors of the CPU, or "
                                  "torch.distributed")
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Not there: it raises NotImplementedError."
    return refuse


allreduce_multigpu = _of_gpus("allreduce_multigpu")
reduce_multigpu = _of_gpus("reduce_multigpu")
broadcast_multigpu = _of_gpus("broadcast_multigpu")
allgather_multigpu = _of_gpus("allgather_multigpu")
reducescatter_multigpu = _of_gpus("reducescatter_multigpu")
send_multigpu = _of_gpus("send_multigpu")
recv_multigpu = _of_gpus("recv_multigpu")


public_module(globals())
