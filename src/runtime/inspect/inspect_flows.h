/* inspect_flows.h — arrows of a timeline: from the slice of a call to the slice of the body that it ran.
 *
 * A record of a body names who asked and the number of its first call; that of a driver's calls names whom it asked and
 * the number of the first. Short calls share records, and the two sides share them differently: where no number is the
 * same, the newest calls to that process before the body began are its source. What a worker asks for is not written
 * down: its source is the body that ran there then. Pure data. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct inspect_slice {
    int64_t process, other, call; /* whose it is; who asked, or was asked; the number of the first call */
    int64_t begun_us, ended_us;
    int64_t pid, track;
    bool submits; /* calls, not a body */
} inspect_slice;

typedef struct inspect_slices { /* zeroed: none */
    inspect_slice *all;         /* owned */
    size_t count, room;
} inspect_slices;

MR_MUST mr_status inspect_slices_add(inspect_slices *slices, const inspect_slice *slice);
void inspect_slices_sort(inspect_slices *slices); /* after the last, before the first question */
void inspect_slices_fini(inspect_slices *slices);

/* Where the arrow to a body comes from; borrowed, NULL: nothing of it is there (any more). */
const inspect_slice *inspect_source_of(const inspect_slices *slices, const inspect_slice *body);
