/* scatter.c — see scatter.h. */
#include "kv/client/scatter.h"

#include <string.h>

#include "net/dtype_convert.h"

/* Rows of usual sizes are copied by a few instructions. */
#define COPY_ROWS(size)                           \
    for (uint32_t i = 0; i < scatter->count; i++) \
    memcpy(scatter->to + (size_t)scatter->places[i] * (size), from + (size_t)i * (size), (size))

static void convert_rows(const scatter *scatter, const uint8_t *from) {
    size_t items = scatter->bytes / mr_dtype_size(scatter->dtype), wire_row = items * mr_dtype_size(scatter->wire);
    for (uint32_t i = 0; i < scatter->count; i++)
        dtype_convert(scatter->wire, from + i * wire_row, scatter->dtype, items,
                      scatter->to + scatter->places[i] * scatter->bytes);
}

static mr_status take_rows(const scatter *scatter, const payload_section *answer) {
    const uint8_t *from = answer->values.data;
    size_t bytes = scatter->bytes, items = bytes / mr_dtype_size(scatter->dtype);
    if (answer->op != PAYLOAD_ROWS || answer->count != scatter->count || answer->flags != 0 ||
        answer->dtype != scatter->wire || answer->values.size != items * mr_dtype_size(scatter->wire) * scatter->count)
        return MR_CORRUPT;
    if (scatter->wire != scatter->dtype) {
        convert_rows(scatter, from);
        return MR_OK;
    }
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
    size_t left = answer->values.size, wire_item = mr_dtype_size(scatter->wire), item = mr_dtype_size(scatter->dtype);
    if (answer->op != PAYLOAD_VECTORS || answer->count != scatter->count || answer->flags != 0 ||
        answer->dtype != scatter->wire)
        return MR_CORRUPT;
    for (uint32_t i = 0; i < scatter->count; i++) {
        uint64_t first = scatter->offsets[scatter->places[i]], room = scatter->offsets[scatter->places[i] + 1] - first;
        size_t size = answer->lengths[i] * wire_item, items = room / item;
        if (size > left) return MR_CORRUPT;
        if (items > answer->lengths[i]) items = answer->lengths[i];
        dtype_convert(scatter->wire, from, scatter->dtype, items, scatter->to + first);
        if (items * item < room) memset(scatter->to + first + items * item, 0, room - items * item);
        from += size;
        left -= size;
    }
    return MR_OK;
}

/* Copies the block of a server, in parts that are converted in the cache of the CPU. False: it has changed. */
static bool copy_rounded(const scatter *scatter, const shm_import *import, const payload_afar *afar) {
    enum { PART = 4096 };
    float part[PART];
    size_t item = mr_dtype_size(scatter->dtype);
    for (size_t at = 0; at < scatter->count; at += PART) {
        size_t count = scatter->count - at < PART ? scatter->count - at : PART;
        if (!shm_import_copy(import, (uint32_t)afar->word, afar->value, afar->offset + at * sizeof *part,
                             count * sizeof *part, false, part))
            return false;
        dtype_convert_rounded(MR_F32, part, scatter->precision, scatter->dtype, count, scatter->to + at * item);
    }
    return true;
}

static mr_status look_at_block(const scatter *scatter, const payload_section *answer) {
    const payload_afar *afar = &answer->afar;
    const shm_import *import = scatter->map_view->see(scatter->map_view->context, afar->process);
    if (answer->count != scatter->count || answer->dtype != dtype_convert_stored(scatter->dtype)) return MR_CORRUPT;
    if (import == NULL || afar->word > UINT32_MAX) return MR_BUSY;
    bool plain = answer->dtype == scatter->dtype && answer->dtype == scatter->precision;
    bool same = plain ? shm_import_copy(import, (uint32_t)afar->word, afar->value, afar->offset, scatter->bytes,
                                        scatter->streams, scatter->to)
                      : copy_rounded(scatter, import, afar);
    return same ? MR_OK : MR_BUSY;
}

static mr_status take_block(const scatter *scatter, const payload_section *answer) {
    if (answer->op == PAYLOAD_BLOCK && answer->flags == PAYLOAD_AFAR && scatter->map_view != NULL)
        return look_at_block(scatter, answer);
    if (answer->op != PAYLOAD_BLOCK || answer->flags != 0 || answer->dtype != scatter->wire ||
        answer->count != scatter->count || answer->values.size != scatter->count * mr_dtype_size(scatter->wire))
        return MR_CORRUPT;
    dtype_convert(scatter->wire, answer->values.data, scatter->dtype, scatter->count, scatter->to);
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

void scatter_renew(const scatter *scatter) {
    if (scatter->kind == SCATTER_RANGE) gather_renew(scatter->gather);
    if (scatter->kind == SCATTER_GATHER) vector_gather_renew(scatter->vectors);
    if (scatter->changed != NULL) *scatter->changed = 0;
}

void scatter_abandon(scatter *scatter) {
    if (scatter->version != NULL) *scatter->version = 0; /* some of the memory may have other values now */
    scatter->kind = SCATTER_NOWHERE;
    scatter->to = NULL;
    scatter->version = scatter->changed = NULL;
}
