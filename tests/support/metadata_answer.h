/* metadata_answer.h — records the answer of a metadata store for a test. */
#pragma once
#include "cluster/metadata_store.h"

typedef struct metadata_answer { /* zero-initialized: no answer yet */
    int count;                   /* number of answers */
    mr_status status;
    uint64_t version;
    char value[50]; /* the value as text */
} metadata_answer;

/* a metadata_store_done_fn; argument: a metadata_answer */
void metadata_answer_done(void *argument, const metadata_store_answer *answer);
