"""create_parameter_server with an optimizer: sessions, requests and syncs, against a twin in NumPy; deaths."""

import multiprocessing
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

import miniray
from miniray.ps import ParameterServer, create_parameter_server
from miniray.ps.errors import PsTimeoutError, StaleError

STEPS = 12


def model(rank=0):
    return {"layer.weight": np.arange(12, dtype=np.float32).reshape(3, 4) / 8 + rank, "layer.bias": np.full(3, rank, np.float32),
            "layer.count": np.array(7)}


def gradients(rank, step):
    """Exact in float32, as are their sums and means over two ranks."""
    weight = (np.arange(12, dtype=np.float32).reshape(3, 4) % 5 - 2) * (rank + 1) + step % 3
    return {"layer.weight": weight, "layer.bias": None if step % 4 == 3 else np.full(3, rank - step % 2, np.float32)}


def twin(steps, lr=0.25, ranks=2, rounds=True, without=()):
    """The weights after `steps` steps of all ranks by SGD; `without` has pairs (rank, step) that are left out."""
    weights = {name: array for name, array in model().items() if array.dtype == np.float32}
    for step in range(steps):
        taken = [gradients(rank, step) for rank in range(ranks) if (rank, step) not in without]
        for name in weights:
            given = [each[name] for each in taken if each[name] is not None]
            total = sum(given, np.zeros_like(weights[name]))
            weights[name] = weights[name] - np.float32(lr) * (total / np.float32(len(taken)) if rounds else total)
    return weights


def assert_same(found, wanted):
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def train(ps, rank, steps=STEPS, infinite=(), lr=None):
    with ps.session(rank) as session:
        for step in session.steps(steps):
            session.pull()
            given = gradients(rank, step)
            if (rank, step) in infinite:
                given["layer.weight"][1, 1] = np.nan
            session.push_gradients(given, lr=lr)
        return session.pull(), session.version(), session.skipped


def together(ps, ranks=2, **options):
    found = [None] * ranks

    def run(rank):
        found[rank] = train(ps, rank, **options)
    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


# ---- Sessions.


def test_ranks_make_steps_together(ray):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), num_workers=2) as ps:
        assert isinstance(ps, ParameterServer)
        assert_same(ray.get(ps.pull_weights.remote()), twin(0))
        for weights, version, skipped in together(ps):
            assert_same(weights, twin(STEPS))
            assert (version, skipped) == (STEPS, 0)
        assert_same(ray.get(ps.pull_weights.remote()), twin(STEPS))
        assert ray.get(ps.pull_weights.remote(if_newer=STEPS)) is None
        assert_same(ray.get(ps.pull_weights.remote(if_newer=STEPS - 1)), twin(STEPS))
        stats = ray.get(ps.get_stats.remote())
        assert (stats["version"], stats["num_syncs"], stats["strategy"], stats["initialized"]) == (STEPS, STEPS, "sgd", True)
        assert stats["bytes"] == 60 and stats["last_error"] is None and sorted(stats["servers"]) == [0, 1]


@miniray.remote(num_cpus=0)
def train_in_a_task(ps, rank):
    return train(ps, rank)


def test_sessions_in_tasks_and_other_ways_to_name_an_optimizer(ray):
    with create_parameter_server("adam", lr=0.01, betas=(0.8, 0.99), eps=1e-6, num_workers=2, model=model(),
                                 weight_decay=0.5) as ps:
        one, other = ray.get([train_in_a_task.remote(ps, rank) for rank in range(2)])
        assert_same(one[0], other[0])
        table = ps.deployment.connect(reader=True).table("model").options
        assert [round(table[name], 6) for name in ("lr", "beta1", "beta2", "epsilon", "decay")] == [0.01, 0.8, 0.99, 1e-6, 0.5]


def test_a_gradient_that_is_not_finite_leaves_its_rank_out(ray):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), num_workers=2) as ps:
        found = together(ps, infinite={(1, 5)})
        assert [skipped for _, _, skipped in found] == [0, 1]
        assert_same(found[0][0], twin(STEPS, without={(1, 5)}))


def test_the_learning_rate_of_the_lowest_rank_applies(ray):
    with create_parameter_server(optimizer="sgd", lr=8, model=model(), num_workers=2) as ps:
        assert_same(together(ps, lr=0.25)[1][0], twin(STEPS))


def test_without_rounds_each_push_counts(ray):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), consistency="async", num_servers=1) as ps:
        with ps.session(3) as session:
            for step in session.steps(4):
                session.push_gradients(gradients(0, step))
            assert session.version() == 4
        with ps.session(0) as session:
            for step in session.steps(4):
                session.push_gradients(gradients(1, step))
            assert_same(session.pull(), twin(4, rounds=False))
        assert ray.get(ps.get_stats.remote())["version"] == 8


def test_the_ranks_give_the_model(ray):
    """Without model= the weights of rank 0 are the first ones, in its form; the other rank gives another form."""
    lists = [[array for array in model(rank).values() if array.dtype == np.float32] for rank in range(2)]
    with create_parameter_server(optimizer="sgd", lr=0.25, num_workers=2, num_servers=1) as ps:
        assert ray.get(ps.pull_weights.remote()) is None
        assert ray.get(ps.get_stats.remote())["initialized"] is False
        found = [None, None]

        def run(rank):
            with ps.session(rank) as session:
                session.push_weights(lists[rank])
                for step in session.steps(3):
                    session.push_gradients(list(gradients(rank, step).values()))
                out = [np.zeros_like(array) for array in lists[rank]]
                found[rank] = session.pull(out=out)
        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        wanted = list(twin(3).values())
        for weights in (*found, ray.get(ps.pull_weights.remote())):
            assert len(weights) == 2
            for array, other in zip(weights, wanted):
                np.testing.assert_array_equal(array, other)


def test_a_rank_with_fewer_steps_leaves(ray):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), num_workers=2) as ps:
        thread = threading.Thread(target=train, args=(ps, 1, 4))
        thread.start()
        weights, version, _ = train(ps, 0, 8)
        thread.join(60)
        assert version == 8


@miniray.remote(num_cpus=0)
def train_and_die(ps, rank, dies):
    with ps.session(rank) as session:
        for step in session.steps(STEPS):
            session.pull()
            if step == dies:
                os.kill(os.getpid(), signal.SIGKILL)
            session.push_gradients(gradients(rank, step))
        return session.pull()


def test_a_killed_rank_changes_no_bit(ray):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), num_workers=2) as ps:
        stays = train_in_a_task.remote(ps, 0)
        for dies in (0, 5, 6):
            with pytest.raises(miniray.exceptions.WorkerCrashedError):
                ray.get(train_and_die.options(max_retries=0).remote(ps, 1, dies))
        assert_same(ray.get(train_and_die.remote(ps, 1, None)), twin(STEPS))
        assert_same(ray.get(stays)[0], twin(STEPS))


def train_in_a_process(ps, rank, found):
    weights = train(ps, rank)[0]
    with pytest.raises(RuntimeError, match="need the runtime of the program that created it"):
        ps.pull_weights.remote()
    found.put(weights)


def test_sessions_in_processes_without_a_runtime(ray):
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), num_workers=2) as ps:
        processes = [context.Process(target=train_in_a_process, args=(ps, rank, found)) for rank in range(2)]
        for process in processes:
            process.start()
        for _ in processes:
            assert_same(found.get(timeout=60), twin(STEPS))
        for process in processes:
            process.join(60)


# ---- Requests.


def test_push_gradients_counts_once_for_a_step(ray):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), consistency="async") as ps:
        push = ps.push_gradients
        assert ray.get(push.remote(gradients(0, 0), 0, step=0)) == 1
        assert ray.get(push.remote(gradients(0, 0), 0, step=0)) == 1
        assert ray.get(push.remote(gradients(1, 0), 1)) == 2
        assert ray.get(push.remote(gradients(0, 1), 0)) == 3
        assert ray.get(push.remote(ray.put(gradients(1, 1)), 1, 1)) == 4
        assert_same(ray.get(ps.pull_weights.remote()), twin(2, rounds=False))
        with pytest.raises(ValueError, match="step 9 of worker 0 is too high; its next step is 2"):
            ray.get(push.remote(gradients(0, 2), 0, step=9))
        with pytest.raises(ValueError, match="worker_id is 64: it must be a rank, from 0 to 63"):
            push.remote(gradients(0, 2), 64)
        with ps.session(5) as session:
            session.begin()
            with pytest.raises(ValueError, match="worker_id 5 is used by a session"):
                ray.get(push.remote(gradients(0, 0), 5))
        with ps.session(0) as session:
            session.begin()
            with pytest.raises(ValueError, match="worker_id 0 is used by a session of another process now"):
                ray.get(push.remote(gradients(0, 2), 0))


def test_pushes_of_a_round_wait_for_each_other(ray):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), num_workers=2) as ps:
        zero = [ps.push_gradients.remote(gradients(0, step), 0) for step in range(3)]
        assert ray.wait(zero, timeout=0.3)[0] == []
        one = [ps.push_gradients.remote(gradients(1, step), 1, step) for step in range(3)]
        assert ray.get(zero) == [1, 2, 3] and ray.get(one) == [1, 2, 3]
        assert_same(ray.get(ps.pull_weights.remote()), twin(3))


# ---- Syncs.


@miniray.remote(num_cpus=0)
class Worker:
    def __init__(self, rank):
        self.rank, self.step, self.weights, self.breaks = rank, 0, None, False

    def get_gradients(self):
        if self.breaks:
            raise RuntimeError("no gradients")
        self.step += 1
        return gradients(self.rank, self.step - 1)

    def set_weights(self, weights):
        self.weights = weights

    def get(self):
        return self.weights

    def set_breaks(self, breaks):
        self.breaks = breaks


@miniray.remote(num_cpus=0)
class Idle:
    pass


@pytest.mark.parametrize("consistency", ["sync", "async"])
def test_a_sync_makes_one_step(ray, consistency):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), num_workers=2, consistency=consistency) as ps:
        workers = [Worker.options(num_cpus=0).remote(rank) for rank in range(2)]
        last = [ps.sync_from_workers.remote(workers) for _ in range(STEPS)][-1]
        seen = [worker.get.remote() for worker in workers]  # calls behind a sync see its weights
        for weights in ray.get(seen):
            assert_same(weights, twin(STEPS))
        assert ray.get(last) == STEPS
        ray.get(workers[1].set_breaks.remote(True))
        with pytest.raises(RuntimeError, match="no gradients"):
            ray.get(ps.sync_from_workers.remote(workers))
        assert "no gradients" in ray.get(ps.get_stats.remote())["last_error"]
        assert_same(ray.get(ps.pull_weights.remote()), twin(STEPS))
        with pytest.raises(AttributeError, match="worker 0.*has no method get_gradients"):
            ps.sync_from_workers.remote([Idle.options(num_cpus=0).remote()])
        miniray.kill(workers[1])
        assert ray.get(ps.sync_from_workers.remote(workers, on_dead="skip")) == STEPS + 1
        for worker in workers[:1]:
            miniray.kill(worker)


def test_the_actor_of_the_requests_dies_and_each_sync_counts_once(ray):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), num_workers=2) as ps:
        workers = [Worker.options(num_cpus=0).remote(rank) for rank in range(2)]
        syncs = []
        for number in range(STEPS):
            syncs.append(ps.sync_from_workers.remote(workers))
            if number % 4 == 1:
                time.sleep(0.02 * number)
                miniray.kill(ps, no_restart=False)
        assert ray.get(syncs)[-1] == STEPS
        assert_same(ray.get(ps.pull_weights.remote()), twin(STEPS))
        for worker in workers:
            miniray.kill(worker)


def test_servers_die(ray):
    with create_parameter_server(optimizer="sgd", lr=0.25, model=model(), num_workers=2, num_servers=2) as ps:
        found = []
        threads = [threading.Thread(target=lambda rank=rank: found.append(train(ps, rank, 60))) for rank in range(2)]
        for thread in threads:
            thread.start()
        for number in (0, 1):
            os.kill(ps.deployment.pids()[number], signal.SIGKILL)
            deadline = time.monotonic() + 30
            while number not in ps.deployment.cluster_map()["servers"] and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.5)
        for thread in threads:
            thread.join(60)
        for weights, version, _ in found:
            assert_same(weights, twin(60))


def test_checkpoints_continue(ray, tmp_path):
    given = dict(optimizer="momentum", lr=0.25, model=model(), num_workers=1, checkpoint_dir=str(tmp_path / "run"))
    with create_parameter_server(**given) as ps:
        train(ps, 0, 5)
        ps.deployment.checkpoint()
    with create_parameter_server(**given) as ps:
        after = train(ps, 0, STEPS)
        assert after[1] == STEPS
    with create_parameter_server(**{**given, "checkpoint_dir": None}) as ps:
        assert_same(after[0], train(ps, 0, STEPS)[0])


# ---- Ends and errors.


def test_the_servers_end(ray):
    ps = create_parameter_server(optimizer="sgd", lr=1, model=model(), num_workers=1)
    pids = list(ps.deployment.pids().values())
    assert len(pids) == 3
    assert repr(pickle.loads(pickle.dumps(ps))) == repr(ps)
    session = ps.session(0)
    with pytest.raises(TypeError, match="a session cannot be passed to another process"):
        pickle.dumps(session)
    session.close()
    miniray.kill(ps)
    deadline = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().split()[2] for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    ps.stop()


@miniray.remote(num_cpus=0)
def stop_here(ps):
    ps.stop()


@pytest.mark.parametrize("wrong, kind, text", [
    (dict(optimizer="adma", lr=1), ValueError, "unknown optimizer 'adma'.*did you mean adam"),
    (dict(optimizer="adam"), ValueError, "lr is missing: optimizer='adam' needs a learning rate"),
    (dict(optimizer="adam", lr=1), ValueError, "num_workers is missing"),
    (dict(optimizer="adam", lr=1, num_workers=1, consistency="snyc"), ValueError, "consistency"),
    (dict(optimizer="adam", lr=1, num_workers=1, chekpoint_dir="x"), TypeError, "did you mean checkpoint_dir"),
    (dict(optimizer="adam", lr=1, num_workers=1, betas=3), ValueError, "betas are 3"),
    (dict(optimizer="adam", lr=1, num_workers=1, compression="topk"), ValueError, "does not converge with adam"),
    (dict(optimizer="sgd", lr=1, num_workers=1, nesterov=True), ValueError, "nesterov needs momentum"),
    (dict(strategy="average", optimizer="sgd", lr=1), ValueError, "pass one of them"),
    (dict(num_workers=3), ValueError, "num_workers needs an optimizer"),
    (dict(strategy="average", compression="int8"), ValueError, "compression needs an optimizer"),
    (dict(optimizer="sgd", lr=1, num_workers=1, model=[np.arange(3)]), TypeError, "tensor '0' of the model is int64"),
    (dict(optimizer="sgd", lr=1, num_workers=1, model=3), TypeError, "a model must be a torch module"),
    (dict(optimizer="sgd", lr=1, num_workers=1, model={"n": np.arange(3)}), ValueError, "no floating-point array"),
    (dict(optimizer="sgd", lr=1, num_workers=1, model=model(), buffers=["layer.wieght"]), ValueError, "did you mean layer.weight"),
])
def test_wrong_options_are_refused(ray, wrong, kind, text):
    with pytest.raises(kind, match=text):
        create_parameter_server(**wrong)


def test_wrong_calls_are_refused(ray):
    assert type(create_parameter_server("momentum")).__name__ == "ParameterServer"  # the strategy
    with create_parameter_server(optimizer="sgd", lr=1, num_workers=1) as ps:
        with pytest.raises(ValueError, match=f"which is process {os.getpid()}"):
            ray.get(stop_here.remote(ps))
        with pytest.raises(ValueError, match="changes its weights by gradients"):
            ps.push_weights.remote(model())
        with ps.session(0) as session:
            with pytest.raises(RuntimeError, match=r"rank 0 does not know the model: call session.push_weights\(model\)"):
                session.begin()
            session.push_weights(model())
            assert next(session.steps()) == 0
            with pytest.raises(RuntimeError, match="for the first weights"):
                session.push_weights(model())
            with pytest.raises(ValueError, match=r"gradient of tensor 'layer.bias' has the shape \[4\]; the tensor's is \[3\]"):
                session.push_gradients({"layer.bias": np.zeros(4, np.float32)})
            with pytest.raises(ValueError, match="did you mean layer.bias"):
                session.push_gradients({"layer.bais": np.zeros(3, np.float32)})
            with pytest.raises(ValueError, match="there are 1 tensors; the model has 2"):
                session.pull(out=[np.zeros((3, 4), np.float32)])
            with pytest.raises(ValueError, match="out: there is no tensor 'layer.weight'"):
                session.pull(out={"layer.bias": np.zeros(3, np.float32)})
            session.push_gradients({"layer.bias": np.ones(3)})  # float64 is converted
            with pytest.raises(StaleError, match="no step"):
                session.push_gradients({"layer.bias": np.ones(3)})
        with pytest.raises(RuntimeError, match="closed"):
            session.begin()
    with create_parameter_server(optimizer="sgd", lr=1, num_workers=2) as ps:
        session = ps.session(1, timeout=1.5)
        session.push_weights(model())
        with pytest.raises(PsTimeoutError, match="rank 0"):
            session.begin()
        session.close()
