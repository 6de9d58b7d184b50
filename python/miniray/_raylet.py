"""Names that programs import from Ray's module of this name."""

from miniray._core import ObjectRef
from miniray._actors.generators import DynamicObjectRefGenerator, ObjectRefGenerator
from miniray._core_api.ids import ActorID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID

StreamingObjectRefGenerator = ObjectRefGenerator

__all__ = ["ActorID", "DynamicObjectRefGenerator", "JobID", "NodeID", "ObjectRef", "ObjectRefGenerator",
           "PlacementGroupID", "StreamingObjectRefGenerator", "TaskID", "WorkerID"]
