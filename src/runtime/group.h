/* group.h — tasks and calls that are submitted as one: what mr_group is inside. With the context's lock held. */
#pragma once
#include "base/list.h"
#include "miniray/runtime.h"

struct mr_group {
    list place; /* in the context's list */
    mr_context *mr;
    list requests; /* held, in the order they were added */
};

void groups_drop(list *groups); /* the program left them */
