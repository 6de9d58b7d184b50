/* miniray/placement.h — placement groups: bundles of resources that the node reserves together, all or none.
 *
 *     mr_placement_group group;
 *     const char *bundles[] = {"cpu=1,gpu=1", "cpu=1,gpu=1"};
 *     mr_placement_group_create(mr, &MR_OPTIONS(mr_placement_group_options, .bundles = bundles, .count = 2), &group);
 *     mr_placement_group_wait(mr, group, MR_FOREVER);
 *     mr_task_submit(mr, "train", &MR_OPTIONS(mr_task_options, .placement_group = group, .bundle = 1), …);
 *     mr_placement_group_remove(mr, group);
 *
 * Only tasks and actors that name the group (mr_task_options.placement_group, mr_actor_options.placement_group) use
 * its resources; they may be submitted before the resources are reserved. On one machine all bundles are together,
 * whatever the strategy; but MR_STRICT_SPREAD asks for a machine for each bundle, so with several bundles it waits,
 * with a warning, as does a group that asks for more than exists. A group ends when it is removed, or with the
 * program that created it. A detached group stays with its node if it was reserved when the program ended. */
#pragma once
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_placement_strategy {
    MR_PACK,          /* on few machines */
    MR_SPREAD,        /* on many machines */
    MR_STRICT_PACK,   /* on one machine */
    MR_STRICT_SPREAD, /* each bundle on another machine */
} mr_placement_strategy;

typedef struct mr_placement_group_options {
    size_t size;
    const char *const *bundles;     /* required: "cpu=1,gpu=0.5" each, none of them empty */
    size_t count;                   /* required: 1 to MR_BUNDLES_MAX */
    const char *name;               /* shown by `miniray list groups` [none] */
    mr_placement_strategy strategy; /* [MR_PACK] */
    int detached;                   /* 1: the group outlives its program [0] */
} mr_placement_group_options;

enum { MR_BUNDLES_MAX = 1024 };

/* Does not wait. MR_INVALID. */
MR_API MR_MUST mr_status mr_placement_group_create(mr_context *mr, const mr_placement_group_options *options,
                                                   mr_placement_group *out);
/* Waits until the resources are reserved; in any process. MR_TIMEOUT. MR_NOT_FOUND: no such group, or it was
 * removed. */
MR_API MR_MUST mr_status mr_placement_group_wait(mr_context *mr, mr_placement_group group, int64_t timeout_us);
/* Ends everything that runs in the group: its tasks fail without a retry, its actors die, with this as the cause. Does
 * not wait. A group that does not exist is no error. */
MR_API void mr_placement_group_remove(mr_context *mr, mr_placement_group group);

#ifdef __cplusplus
}
#endif
