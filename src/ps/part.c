/* part.c — see part.h. */
#include "ps/part.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"

enum { BATCH_MAX = PART_PAYLOAD_MAX + 256 * 1024, PART_SIZE = 65, ALIGNMENT = 8 };

/* What a part begins with, where it lies in a batch. It is written and read field by field: what was written in small
 * pieces is slow to copy in large ones. */
typedef struct __attribute__((packed, may_alias)) front {
    uint8_t kind, status, entry, priority;
    uint32_t slot, rank;
    uint64_t epoch, lsn, commit, name, prev;
    uint8_t terms; /* bytes of them, which follow */
} front;

_Static_assert(sizeof(front) == 53 && sizeof(front) + 1 + ALIGNMENT - 1 + 4 == PART_SIZE, "as part.h has it");

/* What a batch begins with, likewise; its sender's address follows. */
typedef struct __attribute__((packed, may_alias)) opening {
    uint32_t magic, parts;
    uint64_t generation, number, incarnation;
    uint32_t who;
} opening;

_Static_assert(sizeof(opening) == 36, "as part.h has it");

typedef struct part_piece { /* a payload, behind so many of the bytes */
    size_t behind;
    span payload;
    bale *bale; /* shared */
} part_piece;

const char *part_kind_name(uint8_t kind) {
    static const char *const names[] = {
#define X(name) #name,
        PART_KINDS(X)
#undef X
    };
    return kind < PART_KIND_COUNT ? names[kind] : "?";
}

static uint8_t *room(part_batch *batch, size_t size) {
    if (batch->bytes.limit == 0) buffer_init(&batch->bytes, BATCH_MAX);
    if (batch->bytes.capacity - batch->bytes.size < size) {
        mr_status status = buffer_reserve(&batch->bytes, size);
        MR_ASSERT(status == MR_OK);
    }
    return batch->bytes.data + batch->bytes.size;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t size) {
    if (size != 0) memcpy(at, bytes, size);
    return at + size;
}

void part_let_go(part_batch *batch) {
    for (size_t i = 0; i < batch->piece_count; i++) bale_unref(batch->pieces[i].bale);
    batch->piece_count = batch->pointed = 0;
}

size_t part_write_head(const part_head *head, uint8_t out[PART_HEAD_MAX]) {
    const opening opening = {PART_MAGIC,   0 /* write_count */, head->generation,
                             head->number, head->incarnation,   head->who};
    writer writer = writer_of(out, PART_HEAD_MAX);
    writer_bytes(&writer, &opening, sizeof opening);
    writer_text8(&writer, head->address);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

void part_begin_written(part_batch *batch, span head) {
    MR_ASSERT(head.size >= sizeof(opening) && head.size <= PART_HEAD_MAX);
    buffer_clear(&batch->bytes);
    part_let_go(batch);
    batch->count = 0;
    batch->charts = false;
    (void)put(room(batch, head.size), head.data, head.size);
    batch->bytes.size = head.size;
}

/* Zeros before the payload, the first of which says how many follow. */
static uint8_t *align(uint8_t *to, size_t at, size_t payload) {
    size_t zeros = payload < PART_POINTED ? 0 : (ALIGNMENT - (at + 1 + sizeof(uint32_t)) % ALIGNMENT) % ALIGNMENT;
    *to = (uint8_t)zeros;
    return put(to + 1, (const uint8_t[ALIGNMENT]){0}, zeros);
}

static void point(part_batch *batch, span payload, bale *bale) {
    xgrow(&batch->pieces, &batch->piece_room, batch->piece_count + 1, sizeof *batch->pieces);
    batch->pieces[batch->piece_count++] = (part_piece){batch->bytes.size, payload, bale_ref(bale)};
    batch->pointed += payload.size;
}

static bool can_point(const part_batch *batch, span bytes, const bale *bale) {
    return batch->points && bale != NULL && bytes.size >= PART_POINTED;
}

static void add_tail(part_batch *batch, const bale_piece *tail) {
    if (tail->bytes.size == 0) return;
    if (can_point(batch, tail->bytes, tail->bale)) {
        point(batch, tail->bytes, tail->bale);
        return;
    }
    (void)put(room(batch, tail->bytes.size), tail->bytes.data, tail->bytes.size);
    batch->bytes.size += tail->bytes.size;
}

void part_add(part_batch *batch, const part *part) {
    MR_ASSERT(batch->count < PART_COUNT_MAX);
    size_t size = part_payload_size(part);
    MR_ASSERT(part->terms.size <= PART_TERMS_MAX && size <= PART_PAYLOAD_MAX);
    MR_ASSERT(part->kind < PART_KIND_COUNT && part->status < PART_STATUS_COUNT);
    bool points = can_point(batch, part->payload, part->bale);
    uint32_t number = (uint32_t)size;
    uint8_t *start = room(batch, PART_SIZE + part->terms.size + (points ? 0 : part->payload.size)), *at;
    *(front *)(void *)start =
        (front){part->kind,  part->status, part->entry,  part->priority, part->slot, part->rank,
                part->epoch, part->lsn,    part->commit, part->name,     part->prev, (uint8_t)part->terms.size};
    at = put(start + sizeof(front), part->terms.data, part->terms.size);
    at = align(at, part_size(batch) + (size_t)(at - start), size);
    at = put(at, &number, sizeof number);
    if (!points) at = put(at, part->payload.data, part->payload.size);
    batch->bytes.size += (size_t)(at - start);
    if (points) point(batch, part->payload, part->bale);
    add_tail(batch, &part->tail);
    batch->charts = batch->charts || part->kind == PART_CHART;
    batch->count++;
}

size_t part_size(const part_batch *batch) { return batch->bytes.size + batch->pointed; }

static void write_count(part_batch *batch) {
    MR_ASSERT(batch->bytes.size >= sizeof(opening) && batch->count <= PART_COUNT_MAX);
    writer writer = writer_of(batch->bytes.data + 4, 4);
    writer_u32(&writer, batch->count | (batch->charts ? PART_CHARTED : 0));
}

span part_end(part_batch *batch) {
    MR_ASSERT(batch->piece_count == 0);
    write_count(batch);
    return span_of(batch->bytes.data, batch->bytes.size);
}

size_t part_pieces(part_batch *batch, const bale_piece **pieces) {
    size_t count = 0, from = 0;
    const uint8_t *bytes = batch->bytes.data;
    write_count(batch);
    xgrow(&batch->said, &batch->said_room, 2 * batch->piece_count + 1, sizeof *batch->said);
    for (size_t i = 0; i < batch->piece_count; i++) {
        const part_piece *piece = &batch->pieces[i];
        batch->said[count++] = (bale_piece){span_of(bytes + from, piece->behind - from), NULL};
        batch->said[count++] = (bale_piece){piece->payload, piece->bale};
        from = piece->behind;
    }
    if (from < batch->bytes.size)
        batch->said[count++] = (bale_piece){span_of(bytes + from, batch->bytes.size - from), NULL};
    *pieces = batch->said;
    return count;
}

bale *part_copy(part_batch *batch) {
    const bale_piece *pieces;
    size_t count = part_pieces(batch, &pieces);
    bale *bale = bale_new(part_size(batch));
    uint8_t *at = bale_room(bale);
    for (size_t i = 0; i < count; at += pieces[i++].bytes.size) memcpy(at, pieces[i].bytes.data, pieces[i].bytes.size);
    return bale;
}

void part_batch_fini(part_batch *batch) {
    part_let_go(batch);
    free(batch->pieces);
    free(batch->said);
    buffer_fini(&batch->bytes);
}

static mr_status no_batch(size_t left) { return error_set(MR_CORRUPT, "malformed slot packet (%zu bytes left)", left); }

static mr_status no_such_batch(const opening *opening, size_t left) {
    uint32_t found = opening == NULL ? 0 : format_of(opening->magic, PART_MAGIC, sizeof opening->magic);
    if (found == 0) return no_batch(left);
    return format_reject("a slot packet", found, format_of(PART_MAGIC, PART_MAGIC, sizeof opening->magic),
                         FORMAT_USE_SAME);
}

mr_status part_read_head(reader *reader, part_head *head, uint32_t *count) {
    MR_TRY(part_peek(reader, head, count));
    size_t length = reader_u8(reader);
    const uint8_t *address = length < PART_ADDRESS_MAX ? reader_bytes(reader, length) : NULL;
    if (address == NULL) return no_batch(reader_left(reader));
    memcpy(head->address, address, length);
    head->address[length] = '\0';
    return MR_OK;
}

mr_status part_peek(reader *reader, part_head *head, uint32_t *count) {
    const opening *opening = (const void *)reader_bytes(reader, sizeof(struct opening));
    if (opening == NULL || opening->magic != PART_MAGIC) return no_such_batch(opening, reader_left(reader));
    *count = opening->parts & ~PART_CHARTED;
    head->charts = (opening->parts & PART_CHARTED) != 0;
    head->generation = opening->generation;
    head->number = opening->number;
    head->incarnation = opening->incarnation;
    head->who = opening->who;
    head->address[0] = '\0';
    return *count > PART_COUNT_MAX ? no_batch(reader_left(reader)) : MR_OK;
}

static mr_status corrupt(size_t left) { return error_set(MR_CORRUPT, "malformed slot message (%zu bytes left)", left); }

mr_status part_read(reader *reader, part *part) {
    const front *front = (const void *)reader_bytes(reader, sizeof(struct front));
    if (front == NULL) return corrupt(reader_left(reader));
    const uint8_t *terms = reader_bytes(reader, front->terms);
    size_t zeros = reader_u8(reader);
    (void)reader_bytes(reader, zeros);
    size_t size = reader_u32(reader);
    const uint8_t *payload = reader_bytes(reader, size);
    if (payload == NULL || zeros >= ALIGNMENT || front->kind >= PART_KIND_COUNT || front->status >= PART_STATUS_COUNT)
        return corrupt(reader_left(reader));
    *part = (struct part){.kind = front->kind,
                          .status = front->status,
                          .entry = front->entry,
                          .priority = front->priority,
                          .slot = front->slot,
                          .rank = front->rank,
                          .epoch = front->epoch,
                          .lsn = front->lsn,
                          .commit = front->commit,
                          .name = front->name,
                          .prev = front->prev,
                          .terms = span_of(terms, front->terms),
                          .payload = span_of(payload, size)};
    return MR_OK;
}
