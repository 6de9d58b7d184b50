/* payload.c — see payload.h. */
#include "kv/payload/payload.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

/* Parts of a section's body, in this order. */
enum { VERSION = 1, RANGE = 2, PLACE = 4, KEYS = 8, LENGTHS = 16, VALUES = 32, OTHER = 64 };

static const uint8_t shapes[PAYLOAD_OPS] = {
    [PAYLOAD_DEFINE] = OTHER,
    [PAYLOAD_DROP] = 0,
    [PAYLOAD_ADD_ROWS] = KEYS | VALUES,
    [PAYLOAD_SET_ROWS] = KEYS | VALUES,
    [PAYLOAD_ADD_VECTORS] = KEYS | LENGTHS | VALUES,
    [PAYLOAD_SET_VECTORS] = KEYS | LENGTHS | VALUES,
    [PAYLOAD_ADD_BLOCK] = PLACE | VALUES,
    [PAYLOAD_SET_BLOCK] = PLACE | VALUES,
    [PAYLOAD_ERASE] = KEYS,
    [PAYLOAD_ROUND] = 0,
    [PAYLOAD_GET_ROWS] = VERSION | KEYS,
    [PAYLOAD_GET_VECTORS] = VERSION | KEYS,
    [PAYLOAD_GET_RANGE] = VERSION | RANGE,
    [PAYLOAD_GET_BLOCK] = VERSION | PLACE,
    [PAYLOAD_GET_LOOK] = VERSION,
    [PAYLOAD_ROWS] = VERSION | VALUES,
    [PAYLOAD_RANGE] = VERSION | KEYS | VALUES,
    [PAYLOAD_VECTORS] = VERSION | LENGTHS | VALUES,
    [PAYLOAD_BLOCK] = VERSION | VALUES,
    [PAYLOAD_LOOK] = VERSION | OTHER,
    [PAYLOAD_SAME] = VERSION,
    [PAYLOAD_NONE] = VERSION,
    [PAYLOAD_SKIP] = 0,
    [PAYLOAD_RATE] = OTHER,
};

static size_t padded(size_t size) { return (size + PAYLOAD_ALIGN - 1) & -(size_t)PAYLOAD_ALIGN; }

/* Bytes of the keys of a section. */
static size_t keys_size(uint8_t flags, uint32_t count) {
    if ((flags & PAYLOAD_KNOWN) != 0) return 16;
    return (flags & PAYLOAD_RUN) != 0 ? 8 : (size_t)count * 8;
}

/* Bytes of a body before its values. */
static size_t front_size(uint8_t shape, uint8_t flags, uint32_t count) {
    return ((shape & VERSION) != 0 ? 8 : 0) + ((shape & RANGE) != 0 ? 16 : 0) +
           ((shape & PLACE) != 0 ? PAYLOAD_PLACE : 0) + ((shape & KEYS) != 0 ? keys_size(flags, count) : 0) +
           ((shape & LENGTHS) != 0 ? padded((size_t)count * 4) : 0);
}

/* Whether an operation allows this form of keys: all, a run, listed, or a hash. */
static bool can_fold(payload_op op, uint8_t flags) {
    switch (flags & (PAYLOAD_RUN | PAYLOAD_LISTED | PAYLOAD_KNOWN)) {
    case 0: return true;
    case PAYLOAD_RUN: return op == PAYLOAD_ADD_ROWS || op == PAYLOAD_SET_ROWS || op == PAYLOAD_GET_ROWS;
    case PAYLOAD_LISTED:
    case PAYLOAD_KNOWN: return op == PAYLOAD_GET_ROWS || op == PAYLOAD_GET_VECTORS;
    default: return false;
    }
}

/* ---- Reading. */

payload_reader payload_open(span bytes) {
    MR_ASSERT((uintptr_t)bytes.data % PAYLOAD_ALIGN == 0);
    return (payload_reader){.in = reader_of(bytes.data, bytes.size)};
}

/* Item size as a power of two; above 3: not a dtype of tables. */
static uint32_t item_shift(mr_dtype dtype) {
    return dtype == MR_F32 ? 2 : dtype == MR_I64 ? 3 : dtype == MR_F16 || dtype == MR_BF16 ? 1 : UINT32_MAX;
}

/* Whether the number of plain values matches the rest of the section. */
static inline bool values_fit(const payload_section *s, payload_op op, uint32_t shift) {
    uint8_t shape = shapes[op];
    size_t items = s->values.size >> shift;
    if (items << shift != s->values.size) return false;
    if ((shape & LENGTHS) != 0) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < s->count; i++) sum += s->lengths[i];
        return sum == items;
    }
    if ((shape & KEYS) == 0 && op != PAYLOAD_ROWS) return items == s->count; /* items of a block */
    return s->count == 0 ? items == 0 : s->count == 1 || items % s->count == 0;
}

static bool place_fits(const payload_section *s) {
    return s->place.items > 0 && s->place.first <= s->place.items && s->count <= s->place.items - s->place.first;
}

static const uint8_t *cut(const uint8_t **at, bool there, size_t size) {
    const uint8_t *part = there ? *at : NULL;
    if (there) *at += size;
    return part;
}

static uint64_t cut_number(const uint8_t **at) {
    uint64_t number;
    memcpy(&number, *at, sizeof number);
    *at += sizeof number;
    return number;
}

/* Reads the keys, the first key of a run, or the hash. */
static inline bool read_keys(payload_section *s, uint8_t shape, uint8_t flags, const uint8_t **at) {
    if ((flags & PAYLOAD_KNOWN) != 0) {
        s->first = cut_number(at);
        s->last = cut_number(at);
        return s->count != 0;
    }
    if ((flags & PAYLOAD_RUN) == 0) {
        s->keys = (const void *)cut(at, (shape & KEYS) != 0, (size_t)s->count * 8);
        return true;
    }
    s->first = cut_number(at);
    s->last = s->first + (s->count - 1);
    return s->count != 0 && s->count <= PAYLOAD_RUN_MAX && s->last >= s->first;
}

/* Reads a reference to remote values: plain numbers of blocks. */
static bool read_afar(payload_section *s) {
    if (s->op == PAYLOAD_GET_BLOCK) return s->values.size == 0;
    if (s->op != PAYLOAD_ADD_BLOCK && s->op != PAYLOAD_SET_BLOCK && s->op != PAYLOAD_BLOCK) return false;
    if ((s->flags & PAYLOAD_CODED) != 0 || (s->dtype != MR_F32 && s->dtype != MR_I64)) return false;
    if (s->values.size != sizeof s->afar) return false;
    memcpy(&s->afar, s->values.data, sizeof s->afar);
    return s->afar.offset % mr_dtype_size(s->dtype) == 0;
}

static bool read_rate(payload_section *s) {
    if (s->values.size != sizeof s->rate) return false;
    memcpy(&s->rate, s->values.data, sizeof s->rate);
    s->rated = true;
    return isfinite(s->rate) && s->rate >= 0;
}

/* Splits a decompressed body into its parts. Op and flags are separate parameters, so that the code is specialized for
 * callers that pass constants. */
static inline __attribute__((always_inline)) bool read_known(payload_section *s, span body, payload_op op,
                                                             uint8_t flags) {
    uint8_t shape = shapes[op];
    size_t front = front_size(shape, flags, s->count);
    const uint8_t *at = body.data;
    if (body.size < front || !can_fold(op, flags)) return false;
    if ((shape & VERSION) != 0) s->version = cut_number(&at);
    if ((shape & RANGE) != 0) {
        s->first = cut_number(&at);
        s->last = cut_number(&at);
    }
    if ((shape & PLACE) != 0) {
        memcpy(&s->place, at, PAYLOAD_PLACE);
        at += PAYLOAD_PLACE;
    }
    if (!read_keys(s, shape, flags, &at)) return false;
    s->lengths = (const void *)cut(&at, (shape & LENGTHS) != 0, padded((size_t)s->count * 4));
    s->values = span_of(at, body.size - front);
    s->body = body;
    if ((shape & PLACE) != 0 && !place_fits(s)) return false;
    if ((flags & PAYLOAD_AFAR) != 0) return read_afar(s);
    if ((shape & (VALUES | OTHER)) == 0) return s->values.size == 0;
    if ((shape & OTHER) != 0) return op != PAYLOAD_RATE || read_rate(s);
    uint32_t shift = item_shift(s->dtype);
    return shift <= 3 && ((flags & PAYLOAD_CODED) != 0 || values_fit(s, op, shift));
}

static __attribute__((noinline)) bool read_any(payload_section *s, span body) {
    return read_known(s, body, s->op, s->flags);
}

/* Plain rows are the most frequent sections. */
static bool read_body(payload_section *s, span body) {
    if (s->flags != 0) return read_any(s, body);
    switch (s->op) {
    case PAYLOAD_ADD_ROWS: return read_known(s, body, PAYLOAD_ADD_ROWS, 0);
    case PAYLOAD_GET_ROWS: return read_known(s, body, PAYLOAD_GET_ROWS, 0);
    case PAYLOAD_ROWS: return read_known(s, body, PAYLOAD_ROWS, 0);
    default: return read_any(s, body);
    }
}

typedef struct head { /* as encoded */
    uint32_t table;
    uint8_t op, flags, dtype, zero;
    uint32_t count, size;
} head;

_Static_assert(sizeof(head) == PAYLOAD_HEAD, "a head has no gaps");

/* Notes the rate of a RATE section, and gives it to the section behind. */
static void hand_rate(payload_reader *reader, payload_section *s) {
    bool takes = reader->rated && payload_is_add(s->op) && s->table == reader->rate_table;
    if (takes) s->rate = reader->rate;
    s->rated |= takes;
    reader->rated = s->op == PAYLOAD_RATE && s->rated;
    reader->rate_table = s->table;
    reader->rate = s->rate;
}

/* Writes the section in its destination: small writes followed by a large copy would be slow. */
bool payload_next(payload_reader *reader, payload_section *out) {
    head head;
    if (reader_left(&reader->in) == 0) return false;
    const uint8_t *at = reader_bytes(&reader->in, sizeof head);
    if (at == NULL) goto fail;
    memcpy(&head, at, sizeof head);
    const uint8_t *body = reader_bytes(&reader->in, padded(head.size));
    if (body == NULL || head.op == 0 || head.op >= PAYLOAD_OPS || head.flags > PAYLOAD_FLAGS || head.zero != 0)
        goto fail;
    *out = (payload_section){.table = head.table,
                             .op = (payload_op)head.op,
                             .flags = head.flags,
                             .dtype = (mr_dtype)head.dtype,
                             .count = head.count,
                             .body = {body, head.size}};
    if ((head.flags & PAYLOAD_PRESSED) == 0 && !read_body(out, out->body)) goto fail;
    if (reader->rated || head.op == PAYLOAD_RATE) hand_rate(reader, out);
    return true;

fail:
    reader->failed = true;
    reader->in.at = reader->in.end;
    return false;
}

bool payload_unfold(const payload_section *pressed, span body, payload_section *out) {
    MR_ASSERT((uintptr_t)body.data % PAYLOAD_ALIGN == 0);
    payload_section s = *pressed;
    s.flags &= (uint8_t)~PAYLOAD_PRESSED;
    if (!read_body(&s, body)) return false;
    *out = s;
    return true;
}

bool payload_ascends(const payload_section *section) {
    const uint64_t *keys = section->keys;
    bool ascends = true;
    for (uint32_t i = 1; keys != NULL && i < section->count; i++) ascends &= keys[i - 1] < keys[i];
    return ascends;
}

mr_status payload_check_last(span bytes, size_t *count, payload_section *last) {
    payload_reader reader = payload_open(bytes);
    for (*count = 0; payload_next(&reader, last); ++*count)
        if (!payload_ascends(last)) return error_set(MR_CORRUPT, "keys of section %zu do not ascend", *count);
    if (reader.failed) return error_set(MR_CORRUPT, "malformed payload: section %zu", *count);
    return MR_OK;
}

mr_status payload_check(span bytes) {
    payload_section last;
    size_t count;
    return payload_check_last(bytes, &count, &last);
}

mr_status payload_align(span bytes, payload_scratch *scratch, span *out) {
    scratch->copy = NULL;
    *out = bytes.size == 0 ? (span){0} : bytes;
    if ((uintptr_t)out->data % PAYLOAD_ALIGN == 0) return MR_OK;
    if (bytes.size > sizeof scratch->small) MR_TRY(alloc_try_aligned(PAYLOAD_ALIGN, bytes.size, &scratch->copy));
    *out = span_of(scratch->copy == NULL ? scratch->small : scratch->copy, bytes.size);
    memcpy(scratch->copy == NULL ? scratch->small : scratch->copy, bytes.data, bytes.size);
    return MR_OK;
}

void payload_clear(payload_scratch *scratch) { free(scratch->copy); }

/* ---- Writing. */

static uint8_t *room_of(const payload_writer *writer) { return shared_bytes_room(writer->bytes); }

size_t payload_section_size(payload_op op, uint32_t count, size_t value_bytes) {
    return PAYLOAD_HEAD + padded(front_size(shapes[op], 0, count) + value_bytes);
}

mr_status payload_reserve(payload_writer *writer, size_t more) {
    if (more > PAYLOAD_BYTES_MAX - writer->size)
        return error_set(MR_TOO_LARGE, "a request cannot take %zu bytes more: it has %zu, and the limit is %d", more,
                         writer->size, PAYLOAD_BYTES_MAX);
    size_t need = writer->size + more, room = writer->room * 2;
    if (need <= writer->room) return MR_OK;
    if (room < need) room = need; /* so the first allocation has the requested size */
    if (room > PAYLOAD_BYTES_MAX) room = PAYLOAD_BYTES_MAX;
    MR_TRY(shared_bytes_resize(&writer->bytes, room));
    writer->room = room;
    return MR_OK;
}

static void write_head(uint8_t *at, payload_head from, size_t body) {
    const head head = {from.table, (uint8_t)from.op, from.flags, (uint8_t)from.dtype, 0, from.count, (uint32_t)body};
    memcpy(at, &head, sizeof head);
}

static void *part(uint8_t **at, bool there, size_t size) {
    void *part = there ? *at : NULL;
    if (there) *at += size;
    return part;
}

static inline void *zeros(uint8_t **at, bool there, size_t size) {
    if (there) memset(*at, 0, size);
    return part(at, there, size);
}

/* Specialized for constants, as read_known. */
static inline __attribute__((always_inline)) void lay_out_known(uint8_t *at, payload_head head, payload_op op,
                                                                uint8_t flags, size_t value_bytes, payload_room *out) {
    MR_ASSERT(op > 0 && op < PAYLOAD_OPS && (flags & PAYLOAD_PRESSED) == 0);
    MR_ASSERT(can_fold(op, flags) && ((flags & PAYLOAD_RUN) == 0 || head.count <= PAYLOAD_RUN_MAX));
    uint8_t shape = shapes[op];
    size_t body = front_size(shape, flags, head.count) + value_bytes;
    MR_ASSERT(value_bytes == 0 || (shape & (VALUES | OTHER)) != 0);
    write_head(at, head, body);
    if (body != 0) memset(at + PAYLOAD_HEAD + padded(body) - PAYLOAD_ALIGN, 0, PAYLOAD_ALIGN);
    at += PAYLOAD_HEAD;
    out->version = zeros(&at, (shape & VERSION) != 0, 8);
    out->range = zeros(&at, (shape & RANGE) != 0, 16);
    out->place = zeros(&at, (shape & PLACE) != 0, PAYLOAD_PLACE);
    out->keys = part(&at, (shape & KEYS) != 0, keys_size(flags, head.count));
    out->lengths = part(&at, (shape & LENGTHS) != 0, padded((size_t)head.count * 4));
    if (out->lengths != NULL && head.count % 2 != 0) out->lengths[head.count] = 0;
    out->values = part(&at, (shape & (VALUES | OTHER)) != 0, value_bytes);
}

static __attribute__((noinline)) void lay_out_any(uint8_t *at, payload_head head, size_t value_bytes,
                                                  payload_room *out) {
    lay_out_known(at, head, head.op, head.flags, value_bytes, out);
}

void payload_lay_out(void *at, payload_head head, size_t value_bytes, payload_room *out) {
    if (head.flags != 0)
        lay_out_any(at, head, value_bytes, out);
    else if (head.op == PAYLOAD_ADD_ROWS)
        lay_out_known(at, head, PAYLOAD_ADD_ROWS, 0, value_bytes, out);
    else if (head.op == PAYLOAD_GET_ROWS)
        lay_out_known(at, head, PAYLOAD_GET_ROWS, 0, value_bytes, out);
    else if (head.op == PAYLOAD_ROWS)
        lay_out_known(at, head, PAYLOAD_ROWS, 0, value_bytes, out);
    else
        lay_out_any(at, head, value_bytes, out);
}

mr_status payload_add(payload_writer *writer, payload_head head, size_t value_bytes, payload_room *out) {
    if (writer->rows != 0) payload_seal(writer);
    if (value_bytes > PAYLOAD_BYTES_MAX)
        return error_set(MR_TOO_LARGE, "%zu bytes of values: a request has at most %d", value_bytes, PAYLOAD_BYTES_MAX);
    size_t front = front_size(shapes[head.op], head.flags, head.count);
    size_t whole = PAYLOAD_HEAD + padded(front + value_bytes);
    if (writer->room - writer->size < whole) MR_TRY(payload_reserve(writer, whole));
    payload_lay_out(room_of(writer) + writer->size, head, value_bytes, out);
    writer->last = writer->size;
    writer->size += whole;
    return MR_OK;
}

mr_status payload_add_rate(payload_writer *writer, uint32_t table, float rate) {
    payload_room room;
    MR_TRY(payload_add(writer, (payload_head){.table = table, .op = PAYLOAD_RATE}, sizeof rate, &room));
    memcpy(room.values, &rate, sizeof rate);
    return MR_OK;
}

/* Size of the last body, from its head. */
static size_t last_size(const payload_writer *writer) {
    uint32_t size;
    memcpy(&size, room_of(writer) + writer->last + 12, sizeof size);
    return size;
}

mr_status payload_add_front(payload_writer *writer, payload_head head, size_t value_bytes, payload_room *out) {
    MR_ASSERT(value_bytes % PAYLOAD_ALIGN == 0);
    MR_TRY(payload_add(writer, head, 0, out));
    uint32_t size = (uint32_t)(last_size(writer) + value_bytes);
    memcpy(room_of(writer) + writer->last + 12, &size, sizeof size);
    out->values = NULL;
    return MR_OK;
}

mr_status payload_copy(payload_writer *writer, const payload_section *section) {
    payload_seal(writer);
    size_t whole = PAYLOAD_HEAD + padded(section->body.size);
    MR_TRY(payload_reserve(writer, whole));
    memcpy(room_of(writer) + writer->size, section->body.data - PAYLOAD_HEAD, whole);
    writer->last = writer->size;
    writer->size += whole;
    return MR_OK;
}

void payload_forget_version(payload_writer *writer) {
    memset(room_of(writer) + writer->last + PAYLOAD_HEAD, 0, sizeof(uint64_t));
}

static void end_last(payload_writer *writer, size_t size) {
    uint8_t *head = room_of(writer) + writer->last;
    uint32_t number = (uint32_t)size;
    memcpy(head + 12, &number, sizeof number);
    memset(head + PAYLOAD_HEAD + size, 0, padded(size) - size);
    writer->size = writer->last + PAYLOAD_HEAD + padded(size);
}

/* ---- Row by row: values follow the room for one key, and move once, when the number of keys is known. */

static size_t rows_size(const payload_writer *writer, uint32_t rows) {
    return writer->last + PAYLOAD_HEAD + padded((size_t)rows * (8 + writer->row));
}

mr_status payload_add_rows(payload_writer *writer, payload_head head, size_t row, uint64_t key, void **values) {
    payload_room room;
    MR_ASSERT((head.op == PAYLOAD_ADD_ROWS || head.op == PAYLOAD_SET_ROWS) && head.count == 1 && head.flags == 0);
    if (writer->keys == NULL) MR_TRY(alloc_try(PAYLOAD_ROWS_MAX * sizeof *writer->keys, &writer->keys));
    MR_TRY(payload_add(writer, head, row, &room));
    room.keys[0] = writer->keys[0] = key;
    writer->rows = 1;
    writer->row = (uint32_t)row;
    *values = room.values;
    return MR_OK;
}

mr_status payload_add_row(payload_writer *writer, uint64_t key, void **values) {
    uint32_t rows = writer->rows;
    MR_ASSERT(rows != 0 && rows < PAYLOAD_ROWS_MAX);
    size_t size = rows_size(writer, rows + 1);
    if (size > writer->room) MR_TRY(payload_reserve(writer, size - writer->size));
    *values = room_of(writer) + writer->last + PAYLOAD_HEAD + 8 + (size_t)rows * writer->row;
    writer->keys[rows] = key;
    writer->rows = rows + 1;
    writer->size = size;
    return MR_OK;
}

void payload_seal(payload_writer *writer) {
    uint32_t rows = writer->rows;
    writer->rows = 0;
    if (rows <= 1) return;
    uint8_t *head = room_of(writer) + writer->last, *body = head + PAYLOAD_HEAD;
    size_t keys = (size_t)rows * 8;
    memmove(body + keys, body + 8, (size_t)rows * writer->row);
    memcpy(body, writer->keys, keys);
    memcpy(head + 8, &rows, sizeof rows);
    end_last(writer, keys + (size_t)rows * writer->row);
}

void payload_trim(payload_writer *writer, size_t unused) {
    MR_ASSERT(writer->bytes != NULL && writer->rows == 0 && unused <= last_size(writer));
    end_last(writer, last_size(writer) - unused);
}

mr_status payload_press(payload_writer *writer, compressor *compressor) {
    MR_ASSERT(writer->bytes != NULL && writer->rows == 0);
    size_t size = last_size(writer);
    void *message;
    MR_TRY(alloc_try(compressor_bound(size), &message));
    uint8_t *head = room_of(writer) + writer->last;
    size_t pressed = compressor_pack(compressor, span_of(head + PAYLOAD_HEAD, size), message);
    if (pressed < size) {
        memcpy(head + PAYLOAD_HEAD, message, pressed);
        head[5] |= PAYLOAD_PRESSED;
        end_last(writer, pressed);
    }
    free(message);
    return MR_OK;
}

void payload_cut(payload_writer *writer, size_t size) {
    MR_ASSERT(size <= writer->size && size % PAYLOAD_ALIGN == 0);
    writer->size = writer->last = size;
    writer->rows = 0;
}

span payload_written(const payload_writer *writer) {
    MR_ASSERT(writer->rows == 0);
    return writer->bytes == NULL ? span_of(NULL, 0) : span_of(room_of(writer), writer->size);
}

shared_bytes *payload_lend(payload_writer *writer) {
    payload_seal(writer);
    if (writer->bytes == NULL || writer->size > PAYLOAD_BORROWED) return payload_take(writer);
    shared_bytes_cut(writer->bytes, writer->size);
    return shared_bytes_ref(writer->bytes);
}

shared_bytes *payload_take(payload_writer *writer) {
    payload_seal(writer);
    shared_bytes *bytes = writer->bytes;
    if (bytes == NULL) return shared_bytes_new(0);
    mr_status status = shared_bytes_resize(&bytes, writer->size);
    MR_ASSERT(status == MR_OK); /* shrinking never fails */
    free(writer->keys);
    *writer = (payload_writer){0};
    return bytes;
}

void payload_empty(payload_writer *writer) {
    if (writer->bytes == NULL || writer->bytes->refs != 1 || writer->room > PAYLOAD_KEPT)
        payload_fini(writer);
    else
        writer->size = writer->last = writer->rows = 0;
}

void payload_fini(payload_writer *writer) {
    shared_bytes_unref(writer->bytes);
    free(writer->keys);
    *writer = (payload_writer){0};
}
