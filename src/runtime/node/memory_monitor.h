/* memory_monitor.h — ends workers before the kernel's OOM killer ends processes at random (Ray: memory monitor).
 *
 * While tasks or actors run, the monitor compares the used memory with the limit: of the machine, of each memory cgroup
 * around the node (net/shm/memory_headroom.h), and of the option memory_limit, which counts the workers of this node
 * and its shared memory. Above the threshold (memory_usage_threshold) it ends the worker that oom_policy.h chooses, and
 * ends no other until that one is gone. It looks every memory_check_us near the threshold, less often far below it
 * (oom_policy_interval_us), at once when the kernel reports that processes wait for memory (PSI), and not at all while
 * nothing runs that could be ended. */
#pragma once
#include "base/config.h"
#include "net/event_loop.h"
#include "net/shm/broker.h"
#include "runtime/node/node_manager.h"

typedef struct memory_monitor memory_monitor;

/* All arguments are borrowed until memory_monitor_close. */
memory_monitor *memory_monitor_open(event_loop *loop, node_core *core, broker *broker, const config *config);
void memory_monitor_close(memory_monitor *monitor); /* NULL is a no-op */
void memory_monitor_stir(memory_monitor *monitor);  /* call before the loop waits: something may have begun to run */
