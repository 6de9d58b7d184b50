"""Functions of Ray's internal module that programs call."""


def free(object_refs, local_only=False):
    """Does nothing, since an object is freed with its last reference."""
