/* gather.c — see gather.h. */
#include "kv/client/gather.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct piece {
    uint64_t *keys; /* owned: the keys, then the values */
    size_t count;
} piece;

struct gather {
    uint64_t *keys;
    uint8_t *values;
    size_t room, row;
    size_t *count;
    uint32_t piece_count, left;
    piece pieces[];
};

mr_status gather_create(uint32_t pieces, size_t row, uint64_t *keys, void *values, size_t room, size_t *count,
                        gather **out) {
    gather *gather;
    MR_TRY(alloc_try(sizeof *gather + pieces * sizeof(piece), &gather));
    *gather = (struct gather){.keys = keys,
                              .values = values,
                              .room = room,
                              .row = row,
                              .count = count,
                              .piece_count = pieces,
                              .left = pieces};
    *out = gather;
    return MR_OK;
}

void gather_destroy(void *memory) {
    gather *gather = memory;
    for (uint32_t i = 0; i < gather->piece_count; i++) free(gather->pieces[i].keys);
    free(gather);
}

static mr_status keep(gather *gather, piece *piece, const payload_section *answer) {
    size_t key_bytes = answer->count * sizeof *piece->keys, bytes = answer->count * gather->row;
    MR_TRY(alloc_try(key_bytes + bytes + 1, &piece->keys));
    piece->count = answer->count;
    if (answer->count == 0) return MR_OK;
    memcpy(piece->keys, answer->keys, key_bytes);
    memcpy(piece->keys + piece->count, answer->values.data, bytes);
    return MR_OK;
}

static mr_status put_together(gather *gather) {
    size_t at = 0;
    *gather->count = 0;
    for (uint32_t i = 0; i < gather->piece_count; i++) *gather->count += gather->pieces[i].count;
    if (*gather->count > gather->room) return MR_TOO_LARGE;
    for (uint32_t i = 0; i < gather->piece_count; at += gather->pieces[i++].count) {
        const piece *piece = &gather->pieces[i];
        if (piece->count == 0) continue;
        memcpy(gather->keys + at, piece->keys, piece->count * sizeof *piece->keys);
        memcpy(gather->values + at * gather->row, piece->keys + piece->count, piece->count * gather->row);
    }
    return MR_OK;
}

mr_status gather_take(gather *gather, uint32_t number, const payload_section *answer) {
    MR_ASSERT(number < gather->piece_count && gather->left != 0);
    if (answer->op != PAYLOAD_RANGE || answer->flags != 0 || answer->values.size != answer->count * gather->row)
        return MR_CORRUPT;
    MR_TRY(keep(gather, &gather->pieces[number], answer));
    return --gather->left == 0 ? put_together(gather) : MR_OK;
}
