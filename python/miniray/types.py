"""Types for annotations: `ObjectRef[int]`."""

from miniray._core import ObjectRef
from miniray._actors.generators import ObjectRefGenerator

__all__ = ["ObjectRef", "ObjectRefGenerator"]
