/* vector_gather.h — pull of vectors of unknown lengths: the answers of several slots, put together in the order of the
 * keys.
 *
 * The keys of a request lie in many slots, and answers come in any order and in any parts. The values of each part are
 * kept until all keys are answered; then their lengths are known, and one block of memory is made for the caller.
 *
 * Ownership   a gather owns the keys, the places of its parts and the kept values; the destination of the result is
 *             the caller's, borrowed until vector_gather_destroy. Pure. */
#pragma once
#include "kv/payload/payload.h"
#include "miniray/ps.h"

typedef struct vector_gather vector_gather;

/* Creates a gather for these keys, which are copied. Answers have the dtype `wire`, the result has `dtype`. Without
 * keys, *result is set at once. MR_NOMEM. */
MR_MUST mr_status vector_gather_create(const uint64_t *keys, size_t count, mr_dtype wire, mr_dtype dtype,
                                       mr_ps_vectors **result, vector_gather **out);
void vector_gather_renew(vector_gather *gather); /* drops all answers, and the result */
void vector_gather_destroy(void *gather);

uint32_t *vector_gather_places(vector_gather *gather); /* room for the places of all keys, for the parts */
/* Writes the keys of these places. */
void vector_gather_keys(const vector_gather *gather, const uint32_t *places, uint32_t count, uint64_t *keys);

/* Takes the answer for the keys of `count` places. The last answer sets the caller's result. MR_CORRUPT: malformed
 * answer; MR_NOMEM. */
mr_status vector_gather_take(vector_gather *gather, const uint32_t *places, uint32_t count,
                             const payload_section *answer);
