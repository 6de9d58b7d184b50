"""What type checkers know about tables, parameter servers and trainers. Checked by tools/check-types, never run."""

from collections.abc import Iterator
from typing import Any

import miniray
from miniray import ObjectRef
from miniray.ps import (Connection, DenseTable, Deployment, SparseTable, SyncStrategy, Ticket, VectorTable, connect,
                        create_parameter_server, start)
from miniray.train import DataParallelTrainer, EarlyStopping
from miniray.util import ActorPool, placement_group, remove_placement_group
from typing_extensions import assert_type

with start(num_servers=2, num_workers=1, consistency="bsp") as deployment:
    assert_type(deployment, Deployment)
    with deployment.connect(rank=0) as connection:
        assert_type(connection, Connection)
        words = connection.table("words", dim=16, optimizer="adagrad", lr=0.1)
        model = connection.table("model", arrays={"w": (3, 4)}, optimizer="sgd", lr=0.1)
        paths = connection.table("paths", "vectors")
        assert_type(words, SparseTable)
        assert_type(model, DenseTable)
        assert_type(paths, VectorTable)
        assert_type(connection.steps(10), Iterator[int])
        for step in connection.steps(10):
            words.push([1, 2], words.pull([1, 2]), wait=False)
            model.push({"w": model.pull(["w"])["w"]})
        ticket = words.push([1], [[0.0] * 16], wait=False)
        assert_type(ticket, Ticket | None)
        words.push([1])  # type: ignore[call-arg]
        words.pull([1], wait="no")  # type: ignore[arg-type]
        model.push([1.0])  # type: ignore[arg-type]
        assert_type(connection.tables(), list[str])

connect("tcp:127.0.0.1:9000", rank="0")  # type: ignore[arg-type]


class First(SyncStrategy):
    def aggregate(self, weight_lists: list[Any]) -> Any:
        return weight_lists[0]


@miniray.remote
class Learner:
    def __init__(self, worker_id: int, lr: float = 0.1) -> None:
        self.lr = lr

    def train_epoch(self, epoch: int) -> dict[str, float]:
        return {"loss": 0.0}


server = create_parameter_server("average")
workers = [Learner.remote(i) for i in range(2)]
assert_type(server.sync_from_workers.remote(workers, on_dead="skip"), ObjectRef[int])
assert_type(miniray.get(server.get_stats.remote()), dict[str, Any])
create_parameter_server(First)
server.sync_from_workers.remote(workers, on_dead="no")  # type: ignore[arg-type]

with DataParallelTrainer(num_workers=2, worker_class=Learner, callbacks=[EarlyStopping("loss")]) as trainer:
    assert_type(trainer, DataParallelTrainer)
    trainer.train(epochs=2)

pool = ActorPool(workers)
group = placement_group([{"CPU": 1}])
assert_type(group.wait(1.0), bool)
remove_placement_group(group)
