/* cgroup.h — the control groups of this process, versions 1 and 2.
 *
 *   a line of /proc/self/cgroup   version   folders, from the process's own group up to the mount
 *   ---------------------------   -------   ----------------------------------------------------
 *   4:cpu,memory:/a/b             1         /sys/fs/cgroup/memory/a/b, …/memory/a, …/memory
 *   0::/a/b                       2         /sys/fs/cgroup/unified/a/b, …; /sys/fs/cgroup/a/b, …
 *
 * In a container the path may belong to the host and be invisible: files of such folders cannot be read, and the mount
 * is the container's own group. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* `version`: 1 or 2. False ends the walk. */
typedef bool cgroup_visit_fn(void *context, const char *folder, int version);

/* Visits the folders of the groups that limit `controller` ("memory", "pids"). In version 2 every group is visited: one
 * without the controller lacks its files. */
void cgroup_walk(const char *controller, cgroup_visit_fn *visit, void *context);
/* The same with other directories than /proc and /sys/fs/cgroup. */
void cgroup_walk_in(const char *proc, const char *mount, const char *controller, cgroup_visit_fn *visit, void *context);

/* The number in a file of a group. False: it is unreadable, or no number, as "max", which means no limit. */
bool cgroup_number(const char *folder, const char *file, uint64_t *out);
