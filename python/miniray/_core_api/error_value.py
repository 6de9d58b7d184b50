"""A value that raises when it is read: what a reference has that failed although its call went on.

It is a pickle that calls raise_failure: `get` raises what failed, and a task that has the reference as an argument fails
with it, as with any other that failed.
"""


class Raised:
    def __init__(self, error, name):
        from miniray._core_api import errors as _errors
        _, self.detail = _errors.describe_failure(error, name)

    def __reduce__(self):
        from miniray._core_api import errors as _errors
        return _errors.raise_failure, (0, "", self.detail)
