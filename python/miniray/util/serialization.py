"""Serializers for classes of the user."""

from __future__ import annotations

from miniray._core_api.tracebacks import public_module


def register_serializer(cls, *, serializer, deserializer) -> None:
    """Makes this process send an instance of `cls` as serializer(instance), from which the receiver's deserializer
    makes the object. Subclasses are not affected."""
    import cloudpickle

    def reduce(instance):
        return deserializer, (serializer(instance),)

    cloudpickle.CloudPickler.dispatch_table[cls] = reduce


def deregister_serializer(cls) -> None:
    """Undoes register_serializer, if it was called."""
    import cloudpickle
    cloudpickle.CloudPickler.dispatch_table.pop(cls, None)


public_module(globals())
