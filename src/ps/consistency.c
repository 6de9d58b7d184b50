/* consistency.c — see consistency.h. */
#include "ps/consistency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mutation.h"

bool consistency_parse(const char *text, consistency *out) {
    *out = (consistency){CONSISTENCY_ASP, 0};
    if (strcmp(text, "asp") == 0) return true;
    out->kind = CONSISTENCY_BSP;
    if (strcmp(text, "bsp") == 0) return true;
    out->kind = CONSISTENCY_SSP;
    if (strncmp(text, "ssp:", 4) != 0 || text[4] < '0' || text[4] > '9') return false;
    char *end;
    unsigned long bound = strtoul(text + 4, &end, 10); /* strtoul saturates, and the bound check rejects ULONG_MAX */
    out->bound = (uint32_t)bound;
    return *end == '\0' && bound <= CONSISTENCY_BOUND_MAX;
}

void consistency_write(consistency consistency, char out[CONSISTENCY_TEXT]) {
    static const char *const names[] = {"asp", "ssp", "bsp"};
    if (consistency.kind == CONSISTENCY_SSP)
        snprintf(out, CONSISTENCY_TEXT, "ssp:%u", consistency.bound);
    else
        snprintf(out, CONSISTENCY_TEXT, "%s", names[consistency.kind]);
}

uint64_t consistency_slowest(const uint64_t *names, size_t rank_count) {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < rank_count; i++) {
        if (seq_is_left(names[i]) && !MUTATED("stays-counted")) continue;
        uint64_t ended = seq_ended(names[i]);
        if (ended < least) least = ended;
    }
    return least;
}

static consistency_verdict judge_version(uint64_t version, uint64_t wanted) {
    if (wanted == version || wanted == CONSISTENCY_NEWEST) return CONSISTENCY_NOW;
    if (wanted > version) return CONSISTENCY_WAIT;
    return wanted + 1 == version ? CONSISTENCY_KEPT : CONSISTENCY_NEVER;
}

consistency_verdict consistency_judge(bool rounds, consistency_state *state, const consistency_pull *pull) {
    if (rounds) return judge_version(state->version, pull->step);
    MR_ASSERT(state->names != NULL);
    bool pushes = pull->rank < state->rank_count;
    if ((pushes && state->names[pull->rank] < pull->name) || state->lsn < pull->lsn) return CONSISTENCY_WAIT;
    if (pull->step == 0) return CONSISTENCY_NOW;
    if (!state->counted) state->slowest = consistency_slowest(state->names, state->rank_count);
    state->counted = true;
    return state->slowest >= pull->step ? CONSISTENCY_NOW : CONSISTENCY_WAIT;
}
