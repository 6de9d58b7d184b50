/* failure.c — see failure.h.
 *
 * On the wire: for each link of the chain 1 u8, code u32, message, origin (each a u32 length and bytes); 2 u8 instead
 * of 1 for one with a detail, which follows the origin in the same form; at the end 0 u8. */
#include "runtime/refs/failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/elide.h"
#include "base/error.h"
#include "net/value.h"

static char *copy_text(span text) {
    size_t size = text.size > FAILURE_TEXT_MAX ? FAILURE_TEXT_MAX : text.size;
    char *copy = xmalloc(size + 1);
    elide((const char *)text.data, text.size, copy, size + 1);
    return copy;
}

static failure *create(mr_status code, span message, span origin, failure *cause) {
    return XNEW(failure, .refs = 1, .code = code, .message = copy_text(message), .origin = copy_text(origin),
                .cause = cause);
}

failure *failure_create(mr_status code, const char *message, const char *origin, failure *cause) {
    MR_ASSERT(code != MR_OK);
    return create(code, span_of(message, strlen(message)), span_of(origin, strlen(origin)), cause);
}

static bool may_attach(span detail) { return detail.size > 0 && detail.size <= FAILURE_DETAIL_MAX; }

void failure_attach(failure *failure, span detail) {
    MR_ASSERT(failure->detail == NULL);
    if (!may_attach(detail)) return;
    failure->detail = xcopy(detail.data, detail.size);
    failure->detail_size = detail.size;
}

span failure_detail(const failure *failure) {
    while (failure != NULL && failure->detail == NULL) failure = failure->cause;
    return failure == NULL ? (span){0} : span_of(failure->detail, failure->detail_size);
}

failure *failure_without_origin(const failure *failure) {
    struct failure *cause = failure->cause == NULL ? NULL : failure_ref(failure->cause);
    struct failure *copy = failure_create(failure->code, failure->message, "", cause);
    failure_attach(copy, span_of(failure->detail, failure->detail_size));
    return copy;
}

void failure_unref(failure *failure) {
    while (failure != NULL && --failure->refs == 0) {
        struct failure *cause = failure->cause;
        free(failure->message);
        free(failure->origin);
        free(failure->detail);
        free(failure);
        failure = cause;
    }
}

/* Next failure that is kept of a chain. A chain that is too long loses its middle: its first cause matters more. */
static const failure *next_kept(const failure *failure, int depth, int depth_max) {
    const struct failure *next = failure->cause;
    if (depth + 2 == depth_max)
        while (next != NULL && next->cause != NULL) next = next->cause;
    return next;
}

size_t failure_encoded_size(const failure *failure) {
    writer writer = writer_of(NULL, 0);
    failure_encode(failure, &writer);
    return writer_needs(&writer);
}

void failure_encode(const failure *failure, writer *writer) {
    int depth = 0;
    for (; failure != NULL; failure = next_kept(failure, depth, FAILURE_CHAIN_MAX), depth++) {
        writer_u8(writer, failure->detail != NULL ? 2 : 1);
        writer_u32(writer, (uint32_t)failure->code);
        writer_span32(writer, span_of(failure->message, strlen(failure->message)));
        writer_span32(writer, span_of(failure->origin, strlen(failure->origin)));
        if (failure->detail != NULL) writer_span32(writer, span_of(failure->detail, failure->detail_size));
    }
    writer_u8(writer, 0);
}

mr_status failure_decode(reader *reader, failure **out) {
    failure *first = NULL, **place = &first;
    uint8_t more = reader_u8(reader);
    for (int depth = 0; more == 1 || more == 2; depth++) {
        mr_status code = (mr_status)reader_u32(reader);
        span message = reader_span32(reader), origin = reader_span32(reader);
        span detail = more == 2 ? reader_span32(reader) : (span){0};
        if (reader->failed || code == MR_OK || depth == FAILURE_CHAIN_MAX || (more == 2 && !may_attach(detail))) {
            reader->failed = true;
            break;
        }
        *place = create(code, message, origin, NULL);
        failure_attach(*place, detail);
        place = &(*place)->cause;
        more = reader_u8(reader);
    }
    if (reader->failed || more != 0 || first == NULL) {
        reader->failed = true;
        failure_unref(first);
        return error_set(MR_CORRUPT, "malformed error from another process");
    }
    *out = first;
    return MR_OK;
}

static void error_write(const failure *failure, writer *writer) {
    _Static_assert((int)FAILURE_CHAIN_MAX <= (int)VALUE_ERRORS_MAX, "the chain fits");
    int depth = 0;
    for (; failure != NULL; failure = next_kept(failure, depth, FAILURE_CHAIN_MAX), depth++) {
        size_t message = strlen(failure->message), origin = strlen(failure->origin);
        writer_u32(writer, (uint32_t)failure->code);
        writer_u32(writer, (uint32_t)message);
        writer_u32(writer, (uint32_t)origin);
        writer_bytes(writer, failure->message, message);
        writer_bytes(writer, failure->origin, origin);
    }
}

mr_status failure_pack(const failure *failure, value_pack **out) {
    void *payload;
    writer writer = writer_of(NULL, 0);
    error_write(failure, &writer);
    size_t size = writer_needs(&writer);
    MR_TRY(alloc_try(size, &payload));
    writer = writer_of(payload, size);
    error_write(failure, &writer);
    MR_ASSERT(!writer.failed);
    mr_arg error = {.kind = MR_KIND_ERROR, .bytes = {payload, size}};
    mr_status status = value_pack_create(&(value_pack_item){.arg = &error}, 1, out);
    free(payload);
    return status;
}

/* As snprintf: returns the length of the whole text. Messages above `most` bytes lose their middle. */
static size_t write_text(const failure *failure, size_t most, char *out, size_t size) {
    char message[FAILURE_TEXT_MAX + 1];
    size_t used = 0;
    const char *between = "", *origin = "";
    for (int depth = 0; failure != NULL; depth++) {
        bool said = failure->origin[0] == '\0' || strcmp(failure->origin, origin) == 0;
        origin = failure->origin;
        size_t at = used < size ? used : size;
        elide(failure->message, strlen(failure->message), message, most + 1);
        int wrote = snprintf(out + at, size - at, "%s%s%s%s", between, said ? "" : origin, said ? "" : ": ", message);
        if (wrote < 0) break;
        used += (size_t)wrote;
        const struct failure *next = next_kept(failure, depth, FAILURE_TOLD_MAX);
        between = next == failure->cause ? ", because " : ", because of others, because ";
        failure = next;
    }
    return used;
}

void failure_text(const failure *failure, char *out, size_t size) {
    size_t length = write_text(failure, FAILURE_TEXT_MAX, out, size);
    /* a long message, as a traceback is, shall not hide the failures that it caused */
    for (size_t cut = 1; length >= size && cut <= 6; cut++)
        length = write_text(failure, size - cut * size / 8, out, size);
    if (length < size) return;
    char *whole = xmalloc(length + 1);
    write_text(failure, FAILURE_TEXT_MAX, whole, length + 1);
    elide(whole, length, out, size);
    free(whole);
}

mr_status failure_raise(const failure *failure) {
    char text[ERROR_TEXT_MAX];
    failure_text(failure, text, sizeof text);
    return error_set(failure->code, "%s", text);
}
