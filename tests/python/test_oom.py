"""The errors of tasks and actors that the node ends when memory is nearly used up (tests/memory_monitor_test.c has the
choice of the worker and the retries)."""

LIMITED = {"MINIRAY_MEMORY_LIMIT": "600M"}


def test_a_task_and_an_actor_that_need_too_much_raise_out_of_memory(run_program):
    out = run_program("""
        import pickle, time
        import miniray
        from miniray.exceptions import ActorDiedError, OutOfMemoryError, RayError, WorkerCrashedError

        def take():
            taken = []
            for _ in range(120):
                taken.append(bytearray(b"x" * (10 << 20)))
                time.sleep(0.01)
            time.sleep(60)

        @miniray.remote
        def hog():
            take()

        @miniray.remote
        class Keeper:
            def grow(self):
                take()

        miniray.init(num_cpus=2, object_store_memory=64 << 20, log_to_driver=False)
        try:
            miniray.get(hog.remote())
        except OutOfMemoryError as error:
            print(isinstance(error, RayError), isinstance(error, WorkerCrashedError), "\\n" in str(error))
            print("of 600 MB (threshold 95 %)" in str(error), "MB by this worker (hog)" in str(error))
            print(type(pickle.loads(pickle.dumps(error))).__name__)
        keeper = Keeper.remote()
        try:
            miniray.get(keeper.grow.remote())
        except ActorDiedError as error:
            print(isinstance(error, OutOfMemoryError), "by this worker (actor Keeper)" in str(error))
    """, environment=LIMITED, timeout=120).stdout
    assert out.splitlines() == ["True False False", "True True", "OutOfMemoryError", "True True"]


def test_a_task_that_needs_the_value_of_such_a_task_fails_with_it(run_program):
    out = run_program("""
        import time
        import miniray
        from miniray.exceptions import OutOfMemoryError, RayTaskError

        @miniray.remote
        def take_all_of_the_memory():
            taken = []
            for _ in range(120):
                taken.append(bytearray(b"x" * (10 << 20)))
                time.sleep(0.01)
            time.sleep(60)

        @miniray.remote
        def use(value):
            return value

        miniray.init(num_cpus=2, object_store_memory=64 << 20, log_to_driver=False)
        try:
            miniray.get(use.remote(use.remote(take_all_of_the_memory.remote())))
        except OutOfMemoryError as error:
            print(isinstance(error, RayTaskError))
    """, environment=LIMITED, timeout=120).stdout
    assert out.splitlines() == ["True"]
