/* miniray/placement.h — placement groups: bundles of resources that are set aside together, all or none.
 *
 *     mr_placement_group group;
 *     const char *bundles[] = {"cpu=1,gpu=1", "cpu=1,gpu=1"};
 *     mr_placement_group_create(mr, &(mr_placement_group_options){.bundles = bundles, .count = 2}, &group);
 *     mr_placement_group_wait(mr, group, MR_FOREVER);
 *     mr_task_submit(mr, "train", &(mr_task_options){.num_gpus = 1, .placement_group = group, .bundle = 1}, …);
 *     mr_placement_group_remove(mr, group);
 *
 * Nobody but tasks and actors that name the group (mr_task_options.placement_group) gets of what is set aside; those
 * may wait for it before it is there. On one machine all bundles are together, whatever the strategy; but
 * MR_STRICT_SPREAD asks for a machine for each, so with several it waits, with a warning, as does a group that asks
 * for more than there is. A group ends when it is removed, or with the program that made it, unless it is detached:
 * then it stays with its node, if it was set aside by then. */
#pragma once
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_placement_strategy {
    MR_PACK,          /* on few machines */
    MR_SPREAD,        /* on many */
    MR_STRICT_PACK,   /* on one */
    MR_STRICT_SPREAD, /* each on another */
} mr_placement_strategy;

typedef struct mr_placement_group_options {
    const char *const *bundles; /* "cpu=1,gpu=0.5" each: at least one, none of them empty */
    size_t count;
    mr_placement_strategy strategy;
    const char *name; /* for those who look (miniray/inspect.h, "groups"); NULL: none */
    int detached;     /* it outlives its program */
} mr_placement_group_options;

enum { MR_BUNDLES_MAX = 1024 };

/* Returns at once. MR_INVALID. */
MR_API MR_MUST mr_status mr_placement_group_create(mr_context *mr, const mr_placement_group_options *options,
                                                   mr_placement_group *out);
/* Until it is set aside; in any process. MR_TIMEOUT; MR_NOT_FOUND: it was removed, or never was. */
MR_API MR_MUST mr_status mr_placement_group_wait(mr_context *mr, mr_placement_group group, int64_t timeout_us);
/* What runs in it is ended: its tasks fail, tried again or not, and its actors die, with this as the cause. Returns at
 * once; one that is not there any more is no error. */
MR_API void mr_placement_group_remove(mr_context *mr, mr_placement_group group);

#ifdef __cplusplus
}
#endif
