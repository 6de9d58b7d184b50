"""Calls of an actor by itself.

A process has no link to itself, so they go by way of another one: an actor of ours that calls it, in the order in which
it was asked to, and hands on what it answers. There is one for each actor that calls itself, from the first time on.
"""

import miniray

_MANY = 100_000  # calls that may be under way at once

_relay = None


class Relay:
    async def call(self, handle, name, args, kwargs):
        return await getattr(handle, name).options(num_returns=1).remote(*args, **kwargs)


def call_self(handle, name, num_returns, args, kwargs):
    """What handle.name.remote(*args, **kwargs) does in the actor's own process."""
    global _relay
    if _relay is None:
        _relay = miniray.remote(Relay).options(num_cpus=0, max_concurrency=_MANY).remote()
    return _relay.call.options(num_returns=num_returns).remote(handle, name, args, kwargs)
