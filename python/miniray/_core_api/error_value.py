"""A value that raises when it is read: the result of a reference whose call continued after a failure.

Its pickle calls raise_failure: `get` raises the failure, and a task that has the reference as an argument fails with
it, as with any other failed reference.
"""


class Raised:
    """Pickled, raises this error of the task of this name when it is read."""

    def __init__(self, error, name):
        from miniray._core_api import errors as _errors
        _, self.detail = _errors.describe_failure(error, name)

    def __reduce__(self):
        from miniray._core_api import errors as _errors
        return _errors.raise_failure, (0, "", self.detail)
