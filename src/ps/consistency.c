/* consistency.c — see consistency.h. */
#include "ps/consistency.h"

#include "base/assert.h"

uint64_t consistency_slowest(const uint64_t *names, size_t rank_count) {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < rank_count; i++) {
        uint64_t ended = name_ended(names[i]);
        if (ended < least) least = ended;
    }
    return least;
}

static consistency_verdict judge_version(uint64_t version, uint64_t wanted) {
    if (wanted == version) return CONSISTENCY_NOW;
    if (wanted > version) return CONSISTENCY_WAIT;
    return wanted + 1 == version ? CONSISTENCY_KEPT : CONSISTENCY_NEVER;
}

consistency_verdict consistency_judge(consistency consistency, const consistency_state *state,
                                      const consistency_pull *pull) {
    if (consistency.kind == CONSISTENCY_BSP) return judge_version(state->version, pull->step);
    MR_ASSERT(pull->rank < state->rank_count);
    if (state->names[pull->rank] < pull->name || state->lsn < pull->lsn) return CONSISTENCY_WAIT;
    if (consistency.kind == CONSISTENCY_ASP) return CONSISTENCY_NOW;
    uint64_t needed = pull->step > consistency.bound ? pull->step - consistency.bound : 0;
    return state->slowest >= needed ? CONSISTENCY_NOW : CONSISTENCY_WAIT;
}
