/* inspect_flows.h — arrows of a timeline: from the slice of a call to the slice of the body that it ran.
 *
 * A record of a body names its caller and the number of its first call; a record of a driver's calls names the callee
 * and the number of the first. Short calls share records, and the two sides share them differently: where no number
 * matches, the newest calls to that process before the body began are its source. Calls by a worker are not recorded:
 * their source is the body that ran there at that time. Pure data. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct inspect_slice {
    int64_t process, other, call; /* process of the slice; caller or callee; number of the first call */
    int64_t begun_us, ended_us;
    int64_t pid, track;
    bool submits; /* calls sent by a driver, not a body */
} inspect_slice;

typedef struct inspect_slices { /* zeroed: none */
    inspect_slice *all;         /* owned */
    size_t count, room;
} inspect_slices;

MR_MUST mr_status inspect_slices_add(inspect_slices *slices, const inspect_slice *slice);
void inspect_slices_sort(inspect_slices *slices); /* call after the last slice was added, before the first query */
void inspect_slices_fini(inspect_slices *slices);

/* Source of the arrow to a body; borrowed, NULL: not recorded (any more). */
const inspect_slice *inspect_source_of(const inspect_slices *slices, const inspect_slice *body);
