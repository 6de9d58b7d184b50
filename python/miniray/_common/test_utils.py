"""miniray._private.test_utils under its newer name."""

from miniray._private.test_utils import (Semaphore, SignalActor, async_wait_for_condition, client_test_enabled,
                                         dicts_equal, kill_actor_and_wait_for_failure, run_string_as_driver,
                                         run_string_as_driver_nonblocking, wait_for_condition, wait_for_pid_to_exit)

__all__ = ["Semaphore", "SignalActor", "async_wait_for_condition", "client_test_enabled", "dicts_equal",
           "kill_actor_and_wait_for_failure", "run_string_as_driver", "run_string_as_driver_nonblocking",
           "wait_for_condition", "wait_for_pid_to_exit"]
