/* scatter.c — see scatter.h. */
#include "kv/client/scatter.h"

#include <string.h>

/* Rows of usual sizes are copied by a few instructions. */
#define COPY_ROWS(size)                           \
    for (uint32_t i = 0; i < scatter->count; i++) \
    memcpy(scatter->to + (size_t)scatter->places[i] * (size), from + (size_t)i * (size), (size))

static mr_status take_rows(const scatter *scatter, const payload_section *answer) {
    const uint8_t *from = answer->values.data;
    size_t bytes = scatter->bytes;
    if (answer->op != PAYLOAD_ROWS || answer->count != scatter->count || answer->flags != 0 ||
        answer->values.size != bytes * scatter->count)
        return MR_CORRUPT;
    switch (bytes) {
    case 4: COPY_ROWS(4); break;
    case 16: COPY_ROWS(16); break;
    case 64: COPY_ROWS(64); break;
    case 256: COPY_ROWS(256); break;
    default: COPY_ROWS(bytes); break;
    }
    return MR_OK;
}

static mr_status take_vectors(const scatter *scatter, const payload_section *answer) {
    const uint8_t *from = answer->values.data;
    size_t left = answer->values.size;
    if (answer->op != PAYLOAD_VECTORS || answer->count != scatter->count || answer->flags != 0) return MR_CORRUPT;
    for (uint32_t i = 0; i < scatter->count; i++) {
        uint64_t first = scatter->offsets[scatter->places[i]], room = scatter->offsets[scatter->places[i] + 1] - first;
        size_t size = answer->lengths[i] * scatter->item, used = size < room ? size : room;
        if (size > left) return MR_CORRUPT;
        if (used != 0) memcpy(scatter->to + first, from, used);
        memset(scatter->to + first + used, 0, room - used);
        from += size;
        left -= size;
    }
    return MR_OK;
}

static mr_status look_at_block(const scatter *scatter, const payload_section *answer) {
    const payload_afar *afar = &answer->afar;
    const shm_import *import = scatter->map_view->see(scatter->map_view->context, afar->process);
    if (answer->count != scatter->count || answer->count * mr_dtype_size(answer->dtype) != scatter->bytes)
        return MR_CORRUPT;
    if (import == NULL || afar->word > UINT32_MAX) return MR_BUSY;
    bool same = shm_import_copy(import, (uint32_t)afar->word, afar->value, afar->offset, scatter->bytes,
                                scatter->streams, scatter->to);
    return same ? MR_OK : MR_BUSY;
}

static mr_status take_block(const scatter *scatter, const payload_section *answer) {
    if (answer->op == PAYLOAD_BLOCK && answer->flags == PAYLOAD_AFAR && scatter->map_view != NULL)
        return look_at_block(scatter, answer);
    if (answer->op != PAYLOAD_BLOCK || answer->flags != 0 || answer->values.size != scatter->bytes) return MR_CORRUPT;
    memcpy(scatter->to, answer->values.data, scatter->bytes);
    return MR_OK;
}

static mr_status take(const scatter *scatter, const payload_section *answer) {
    switch (scatter->kind) {
    case SCATTER_ROWS: return take_rows(scatter, answer);
    case SCATTER_VECTORS: return take_vectors(scatter, answer);
    case SCATTER_GATHER: return vector_gather_take(scatter->vectors, scatter->places, scatter->count, answer);
    case SCATTER_BLOCK: return take_block(scatter, answer);
    case SCATTER_RANGE: return gather_take(scatter->gather, scatter->piece, scatter->count, answer);
    case SCATTER_NOWHERE: return MR_OK;
    }
    return MR_CORRUPT;
}

mr_status scatter_take(const scatter *scatter, const payload_section *answer) {
    if (answer->op == PAYLOAD_SAME && scatter->version != NULL) return MR_OK;
    if (answer->op == PAYLOAD_NONE && answer->count == PAYLOAD_DROPPED) return MR_NOT_FOUND;
    if (answer->op == PAYLOAD_NONE && answer->count == PAYLOAD_TOO_LARGE)
        return scatter->kind == SCATTER_GATHER && scatter->count > 1 ? MR_BUSY : MR_TOO_LARGE;
    mr_status status = take(scatter, answer);
    if (status != MR_OK || scatter->version == NULL) return status;
    *scatter->version = answer->version;
    ++*scatter->changed;
    return MR_OK;
}

void scatter_abandon(scatter *scatter) {
    scatter->kind = SCATTER_NOWHERE;
    scatter->to = NULL;
    scatter->version = scatter->changed = NULL;
}
