/* inspect_flows.c — see inspect_flows.h. */
#include "runtime/inspect/inspect_flows.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/binary_search.h"

enum {
    LOOK_BACK = 256, /* slices of the caller searched at most */
    LATE_US = 1000,  /* a call is recorded after it was sent, so its body may begin before */
};

mr_status inspect_slices_add(inspect_slices *slices, const inspect_slice *slice) {
    MR_TRY(alloc_try_grow(&slices->all, &slices->room, slices->count + 1, sizeof *slices->all));
    slices->all[slices->count++] = *slice;
    return MR_OK;
}

static int by_process_and_time(const void *a, const void *b) {
    const inspect_slice *left = a, *right = b;
    if (left->process != right->process) return left->process < right->process ? -1 : 1;
    return (left->begun_us > right->begun_us) - (left->begun_us < right->begun_us);
}

void inspect_slices_sort(inspect_slices *slices) {
    if (slices->count > 0) qsort(slices->all, slices->count, sizeof *slices->all, by_process_and_time);
}

void inspect_slices_fini(inspect_slices *slices) {
    free(slices->all);
    *slices = (inspect_slices){0};
}

static bool may_be_source(const inspect_slice *slice, const inspect_slice *body) {
    if (slice->submits) return slice->other == body->process;
    return slice->begun_us <= body->begun_us && slice->ended_us >= body->begun_us;
}

const inspect_slice *inspect_source_of(const inspect_slices *slices, const inspect_slice *body) {
    const inspect_slice key = {.process = body->other, .begun_us = body->begun_us + LATE_US}, *found = NULL;
    size_t at = binary_search_first(&key, slices->all, slices->count, sizeof key, by_process_and_time);
    for (int i = 0; i < LOOK_BACK && at-- > 0; i++) {
        const inspect_slice *slice = &slices->all[at];
        if (slice->process != body->other) break;
        if (!may_be_source(slice, body)) continue;
        if (slice->submits && slice->call == body->call) return slice;
        if (found == NULL && slice->begun_us <= body->begun_us) found = slice;
    }
    return found;
}
