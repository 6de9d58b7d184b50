"""What Ray has here for its own use, and what programs call all the same."""


def free(object_refs, local_only=False):
    """Nothing: an object is freed with its last reference, and not before."""
