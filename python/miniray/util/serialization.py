"""How a class of the user's own is sent."""


def register_serializer(cls, *, serializer, deserializer):
    """From now on this process sends an instance of `cls` as what serializer(instance) gives; whoever receives it has
    what deserializer makes of that. Subclasses are not meant."""
    import cloudpickle

    def reduce(instance):
        return deserializer, (serializer(instance),)

    cloudpickle.CloudPickler.dispatch_table[cls] = reduce


def deregister_serializer(cls):
    """Undoes register_serializer; nothing happens if there was none."""
    import cloudpickle
    cloudpickle.CloudPickler.dispatch_table.pop(cls, None)
