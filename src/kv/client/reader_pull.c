/* reader_pull.c — see reader_pull.h. */
#include "kv/client/reader_pull.h"

#include "base/assert.h"
#include "base/mutation.h"
#include "ps/consistency.h"

static void begin(reader_pull *pull, uint64_t version) {
    pull->asked = version;
    pull->least = UINT64_MAX;
    pull->most = 0;
    pull->gone = pull->cut = false;
}

void reader_pull_init(reader_pull *pull, ticket *ticket) {
    *pull = (struct reader_pull){.ticket = ticket};
    list_init(&pull->link);
    list_init(&pull->batches);
    begin(pull, CONSISTENCY_NEWEST);
}

void reader_pull_answered(reader_pull *pull, uint64_t version) {
    if (version < pull->least) pull->least = version;
    if (version > pull->most) pull->most = version;
}

void reader_pull_gone(reader_pull *pull, uint64_t version) {
    if (version > pull->most) pull->most = version;
    pull->gone = true;
}

bool reader_pull_fails(const reader_pull *pull) {
    bool differ = pull->least < pull->most && pull->least != UINT64_MAX;
    return pull->gone || (differ && !MUTATED("mixed-read"));
}

uint64_t reader_pull_repeat(reader_pull *pull) {
    MR_ASSERT(reader_pull_fails(pull) && !pull->abandoned);
    bool newest = pull->asked == CONSISTENCY_NEWEST && pull->most != 0;
    begin(pull, newest ? pull->most - 1 : CONSISTENCY_NEWEST);
    pull->repeats++;
    return pull->asked;
}
