"""What type checkers know about tasks, actors and references. Checked by tools/check-types, never run."""

from collections.abc import Iterator

import miniray
from miniray import ActorClass, ActorHandle, ObjectRef, ObjectRefGenerator
from typing_extensions import assert_type


# ---- Tasks.

@miniray.remote
def repeat(text: str, times: int = 2, *, upper: bool = False) -> str:
    return text * times


@miniray.remote(num_cpus=2, max_retries=0)
def length(text: str) -> int:
    return len(text)


@miniray.remote(num_returns=2)
def halves(text: str) -> tuple[str, str]:
    return text[:1], text[1:]


@miniray.remote
def parts(text: str) -> Iterator[str]:
    yield from text


assert_type(repeat.remote("a"), ObjectRef[str])
assert_type(repeat.remote("a", 3, upper=True), ObjectRef[str])
assert_type(repeat.options(num_cpus=0.5, name="r").remote("a"), ObjectRef[str])
assert_type(length.remote("a"), ObjectRef[int])
assert_type(miniray.get(length.remote("a")), int)
assert_type(miniray.get([length.remote("a"), length.remote("b")], timeout=1), list[int])
assert_type(miniray.put(1.5), ObjectRef[float])
first, second = halves.remote("ab")
assert_type(parts.remote("ab"), ObjectRefGenerator[str])
assert_type([miniray.get(ref) for ref in parts.remote("ab")], list[str])
ready, pending = miniray.wait([length.remote("a")], num_returns=1, timeout=0.5)
assert_type(ready, list[ObjectRef[int]])

# References stand for arguments.
assert_type(repeat.remote(repeat.remote("a")), ObjectRef[str])
assert_type(repeat.remote(repeat.remote("a"), times=3), ObjectRef[str])
assert_type(repeat.remote("a", length.remote("abc")), ObjectRef[str])
assert_type(repeat.remote(text=repeat.remote("a")), ObjectRef[str])

# Mistakes: with --strict an ignored line without an error is an error.
repeat.remote(1)  # type: ignore[call-overload]
repeat.remote("a", upper=1)  # type: ignore[call-overload]
repeat.remote("a", time=3)  # type: ignore[call-overload]
repeat.options(num_cpu=1)  # type: ignore[call-overload]
length.remote(b"a")  # type: ignore[call-overload]
repeat("a")  # type: ignore[operator]
wrong: ObjectRef[int] = repeat.remote("a")  # type: ignore[assignment]


# ---- Actors.

@miniray.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, step: int = 1) -> int:
        self.value += step
        return self.value


@miniray.remote(num_cpus=1, max_restarts=2)
class Named:
    def __init__(self, name: str) -> None:
        self.name = name


counter = Counter.remote(10)
named = Named.options(name="n", lifetime="detached").remote("a")
assert_type(counter, ActorHandle[Counter])
assert_type(miniray.get(counter.add.remote(5)), int)
assert_type(counter.add.remote(miniray.put(5)), ObjectRef[int])
miniray.get([counter.add.options(name="c").remote() for _ in range(2)])
miniray.kill(counter, no_restart=True)
Counter.remote("a")  # type: ignore[arg-type]
counter.add.remote("a")  # type: ignore[arg-type]
counter.addd.remote()  # type: ignore[attr-defined]
Named.remote()  # type: ignore[call-arg]
Named.options(names="n")  # type: ignore[call-arg]


class Plain:
    def __init__(self, size: int) -> None:
        self.size = size


Remote: ActorClass[Plain] = miniray.remote(Plain)
plain: ActorHandle[Plain] = Remote.remote(1)
assert_type(miniray.remote(Plain).remote(1), ActorHandle[Plain])


async def awaits() -> None:
    assert_type(await length.remote("a"), int)
