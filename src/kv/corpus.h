/* corpus.h — dataset specification: shards and their sizes, agreed once by the workers of a deployment.
 *
 * The first that says it decides, by a compare-and-swap of CORPUS_KEY at the coordinator; later workers must say the
 * same. Parts have numbers from 0 on, and so many items each; what an item is, workers know.
 *
 *   bytes  what (v: varint, base/varint.h)
 *   1      CORPUS_LAYOUT
 *   v v …  parts, and the items of each
 *
 * Threads     that of the coordinator's loop. */
#pragma once
#include "cluster/roster.h"
#include "kv/ballot.h"

#define CORPUS_KEY "data"
enum { CORPUS_LAYOUT = 1, CORPUS_PARTS_MAX = ROSTER_PARTS_MAX };
#define CORPUS_ITEMS_MAX (UINT64_C(1) << 56) /* of all parts together */

typedef struct corpus { /* zero-initialized there is none */
    uint64_t *sizes;    /* owned */
    uint32_t count;
} corpus;

MR_MUST mr_status corpus_init(corpus *corpus, const uint64_t *sizes,
                              uint32_t count); /* copies. MR_INVALID, MR_TOO_LARGE */
void corpus_fini(corpus *corpus);

size_t corpus_size(const corpus *corpus);
void corpus_encode(const corpus *corpus, writer *writer);
MR_MUST mr_status corpus_decode(span bytes, corpus *out); /* MR_CORRUPT; *out is then as it was */

/* Has it cut like this at the coordinator; borrowed until ballot_end. MR_EXISTS: it is cut otherwise, and the error
 * says how. */
ballot *corpus_decide(coordinator coordinator, corpus *corpus);
