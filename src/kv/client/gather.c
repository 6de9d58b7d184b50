/* gather.c — see gather.h. */
#include "kv/client/gather.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "net/dtype_convert.h"

typedef struct answer {  /* rows of one answer */
    struct answer *next; /* owned */
    size_t count;
    uint64_t keys[]; /* the keys, then the values */
} answer;

typedef struct piece {
    answer *first, *last; /* `first`: owned; NULL: no rows yet */
    size_t count;         /* rows of all answers */
} piece;

struct gather {
    uint64_t last_key;
    uint64_t *keys;
    uint8_t *values;
    size_t room;
    size_t row; /* bytes of a row in an answer */
    gather_rows rows;
    size_t *count;
    uint32_t piece_count, left;
    piece pieces[];
};

mr_status gather_create(uint32_t pieces, gather_rows rows, uint64_t last, uint64_t *keys, void *values, size_t room,
                        size_t *count, gather **out) {
    gather *gather;
    MR_TRY(alloc_try(sizeof *gather + pieces * sizeof(piece), &gather));
    *gather = (struct gather){.last_key = last,
                              .keys = keys,
                              .values = values,
                              .room = room,
                              .row = rows.dim * mr_dtype_size(rows.wire),
                              .rows = rows,
                              .count = count,
                              .piece_count = pieces,
                              .left = pieces};
    *out = gather;
    return MR_OK;
}

void gather_renew(gather *gather) {
    for (uint32_t i = 0; i < gather->piece_count; i++) {
        for (answer *next, *at = gather->pieces[i].first; at != NULL; at = next) {
            next = at->next;
            free(at);
        }
        gather->pieces[i] = (piece){0};
    }
    gather->left = gather->piece_count;
}

void gather_destroy(void *memory) {
    gather_renew(memory);
    free(memory);
}

static mr_status keep(const gather *gather, piece *piece, const payload_section *section) {
    size_t key_bytes = section->count * sizeof(uint64_t), bytes = section->count * gather->row;
    answer *kept;
    if (section->count == 0) return MR_OK;
    MR_TRY(alloc_try(sizeof *kept + key_bytes + bytes, &kept));
    kept->next = NULL;
    kept->count = section->count;
    memcpy(kept->keys, section->keys, key_bytes);
    memcpy(kept->keys + kept->count, section->values.data, bytes);
    if (piece->first == NULL)
        piece->first = kept;
    else
        piece->last->next = kept;
    piece->last = kept;
    piece->count += kept->count;
    return MR_OK;
}

static mr_status put_together(gather *gather) {
    const gather_rows *rows = &gather->rows;
    size_t at = 0, row = rows->dim * mr_dtype_size(rows->dtype);
    *gather->count = 0;
    for (uint32_t i = 0; i < gather->piece_count; i++) *gather->count += gather->pieces[i].count;
    if (*gather->count > gather->room) return MR_TOO_LARGE;
    for (uint32_t i = 0; i < gather->piece_count; i++)
        for (const answer *kept = gather->pieces[i].first; kept != NULL; at += kept->count, kept = kept->next) {
            memcpy(gather->keys + at, kept->keys, kept->count * sizeof *kept->keys);
            dtype_convert(rows->wire, kept->keys + kept->count, rows->dtype, kept->count * rows->dim,
                          gather->values + at * row);
        }
    return MR_OK;
}

static uint64_t last_key(const piece *piece) { return piece->last->keys[piece->last->count - 1]; }

mr_status gather_take(gather *gather, uint32_t number, uint32_t most, const payload_section *section) {
    MR_ASSERT(number < gather->piece_count && gather->left != 0);
    piece *piece = &gather->pieces[number];
    if (section->op != PAYLOAD_RANGE || section->flags != 0 || section->dtype != gather->rows.wire ||
        section->count > most || section->values.size != section->count * gather->row)
        return MR_CORRUPT;
    if (section->count != 0 && piece->count != 0 && section->keys[0] <= last_key(piece)) return MR_CORRUPT;
    MR_TRY(keep(gather, piece, section));
    bool more = section->count == most && piece->count <= gather->room && last_key(piece) < gather->last_key;
    if (more) return MR_BUSY;
    return --gather->left == 0 ? put_together(gather) : MR_OK;
}

size_t gather_rest(const gather *gather, uint32_t number, uint64_t *first, uint64_t *last) {
    const piece *piece = &gather->pieces[number];
    MR_ASSERT(piece->count != 0 && piece->count <= gather->room && last_key(piece) < gather->last_key);
    *first = last_key(piece) + 1;
    *last = gather->last_key;
    return gather->room - piece->count + 1;
}
