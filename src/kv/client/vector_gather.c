/* vector_gather.c — see vector_gather.h. */
#include "kv/client/vector_gather.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "net/dtype_convert.h"

typedef struct part {
    struct part *next;
    max_align_t values[];
} part;

struct vector_gather {
    mr_ps_vectors **result;
    size_t count;
    mr_dtype wire, dtype;
    size_t left;            /* keys without an answer */
    part *parts;            /* owned: kept values */
    uint64_t *keys;         /* by place; in the memory of this struct, as the next three */
    const uint8_t **values; /* by place, in the parts */
    uint32_t *lengths;      /* by place */
    uint32_t *places;
};

_Static_assert(sizeof(struct vector_gather) % sizeof(uint64_t) == 0, "the keys are aligned");

/* One allocation: the struct, the values, then the lengths. */
static mr_status put_together(const vector_gather *gather) {
    size_t total = 0, at = 0, head = sizeof(mr_ps_vectors), item = mr_dtype_size(gather->dtype);
    for (size_t i = 0; i < gather->count; i++) total += gather->lengths[i];
    mr_ps_vectors *result;
    MR_TRY(alloc_try(head + total * item + gather->count * sizeof(uint32_t) + sizeof(uint32_t), &result));
    uint8_t *values = (uint8_t *)result + head;
    for (size_t i = 0; i < gather->count; i++) {
        dtype_convert(gather->wire, gather->values[i], gather->dtype, gather->lengths[i], values + at);
        at += gather->lengths[i] * item;
    }
    at = (at + sizeof(uint32_t) - 1) / sizeof(uint32_t) * sizeof(uint32_t);
    if (gather->count != 0) memcpy(values + at, gather->lengths, gather->count * sizeof(uint32_t));
    *result = (mr_ps_vectors){.count = gather->count,
                              .value_count = total,
                              .lengths = (const uint32_t *)(const void *)(values + at),
                              .values = values};
    *gather->result = result;
    return MR_OK;
}

mr_status vector_gather_create(const uint64_t *keys, size_t count, mr_dtype wire, mr_dtype dtype,
                               mr_ps_vectors **result, vector_gather **out) {
    vector_gather *gather;
    size_t per_key = sizeof *keys + sizeof *gather->values + sizeof *gather->lengths + sizeof *gather->places;
    MR_TRY(alloc_try(sizeof *gather + count * per_key, &gather));
    *gather = (struct vector_gather){.result = result, .count = count, .wire = wire, .dtype = dtype, .left = count};
    gather->keys = (uint64_t *)(gather + 1);
    gather->values = (const uint8_t **)(gather->keys + count);
    gather->lengths = (uint32_t *)(gather->values + count);
    gather->places = gather->lengths + count;
    if (count != 0) memcpy(gather->keys, keys, count * sizeof *keys);
    mr_status status = count == 0 ? put_together(gather) : MR_OK;
    if (status == MR_OK)
        *out = gather;
    else
        vector_gather_destroy(gather);
    return status;
}

static void free_parts(vector_gather *gather) {
    for (part *part = gather->parts, *next; part != NULL; part = next) {
        next = part->next;
        free(part);
    }
    gather->parts = NULL;
}

void vector_gather_renew(vector_gather *gather) {
    bool whole = gather->left == 0 && gather->count != 0;
    free_parts(gather);
    gather->left = gather->count;
    if (!whole) return;
    free(*gather->result);
    *gather->result = NULL;
}

void vector_gather_destroy(void *memory) {
    free_parts(memory);
    free(memory);
}

uint32_t *vector_gather_places(vector_gather *gather) { return gather->places; }

void vector_gather_keys(const vector_gather *gather, const uint32_t *places, uint32_t count, uint64_t *keys) {
    for (uint32_t i = 0; i < count; i++) keys[i] = gather->keys[places[i]];
}

static bool is_whole(const vector_gather *gather, const payload_section *answer, uint32_t count) {
    size_t items = 0;
    if (answer->op != PAYLOAD_VECTORS || answer->count != count || answer->flags != 0 || answer->dtype != gather->wire)
        return false;
    for (uint32_t i = 0; i < count; i++) items += answer->lengths[i];
    return answer->values.size == items * mr_dtype_size(gather->wire);
}

mr_status vector_gather_take(vector_gather *gather, const uint32_t *places, uint32_t count,
                             const payload_section *answer) {
    part *part;
    MR_ASSERT(count <= gather->left);
    if (!is_whole(gather, answer, count)) return MR_CORRUPT;
    MR_TRY(alloc_try(sizeof *part + answer->values.size, &part));
    part->next = gather->parts;
    gather->parts = part;
    if (answer->values.size != 0) memcpy(part->values, answer->values.data, answer->values.size);
    const uint8_t *at = (const uint8_t *)part->values;
    for (uint32_t i = 0; i < count; i++) {
        gather->values[places[i]] = at;
        gather->lengths[places[i]] = answer->lengths[i];
        at += answer->lengths[i] * mr_dtype_size(gather->wire);
    }
    gather->left -= count;
    return gather->left == 0 ? put_together(gather) : MR_OK;
}
