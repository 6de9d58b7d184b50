"""Actors that are created with references inside of their arguments, or of their class.

A creation goes through the node, which cannot keep what a reference names. So the arguments are put as an object, and an
actor of ours keeps its reference: the new actor gets the handle of that one, which lives as long as it does, and fetches
its arguments from there whenever it is started.
"""

import miniray
from miniray import _core, _pickle

_REFUSED = "a future inside of one would not live long enough"  # cargo.c's words


class Keeper:
    def __init__(self):
        import asyncio
        self.refs, self.kept = None, asyncio.Event()

    async def keep(self, refs):
        self.refs = refs
        self.kept.set()

    async def get(self):
        await self.kept.wait()  # who creates and who is created are two, and the second may be quicker
        return self.refs


def is_needed(error):
    """Whether a creation was refused for this."""
    return _REFUSED in str(error)


def is_needed_for(args, kwargs):
    """The same beforehand, for arguments that are still to come: such a creation would be refused when they are there."""
    given = [*args, *kwargs.values()]
    if not any(isinstance(each, _core.ObjectRef) for each in given):
        return False
    others = [each for each in given if not isinstance(each, (_core.ObjectRef, _core.ActorHandle))]
    return any(isinstance(each, _core.ObjectRef) for each in _pickle.dumps(others)[2])


def entrust(made_of, args, kwargs):
    """The handle of a keeper of what makes the instance; begin() takes it."""
    keeper = miniray.remote(Keeper).options(num_cpus=0).remote()
    keeper.keep.remote([miniray.put((made_of, args, kwargs))])
    return keeper


def begin(keeper):
    """In the actor's process: makes the instance."""
    made_of, args, kwargs = _core.get(_core.get(keeper.get.remote())[0])
    return made_of(*map(_value, args), **{name: _value(each) for name, each in kwargs.items()})


def _value(given):
    return _core.get(given) if isinstance(given, _core.ObjectRef) else given
