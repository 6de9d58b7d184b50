/* note.c — see note.h. */
#include "kv/office/note.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

_Static_assert(NOTE_HEAD_MAX + MR_PS_BODY_MAX <= LETTER_VALUE_MAX, "a note fits into a letter");

#define BEFORE_ADDRESS(X) X(u8, kind) X(u8, from_role) X(u8, to_role) X(u32, to)
#define AFTER_ADDRESS(X)  X(u64, to_incarnation) X(u64, number) X(u64, oldest) X(u32, app) X(u32, head) X(u32, status)

uint8_t *note_write(const note *note, letter *letter) {
    size_t size = NOTE_HEAD_MAX + note->body.size;
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
#define X(type, field) writer_##type(&writer, note->field);
    BEFORE_ADDRESS(X)
    writer_text8(&writer, note->address);
    AFTER_ADDRESS(X)
#undef X
    writer_bytes(&writer, note->body.data, note->body.size);
    MR_ASSERT(!writer.failed);
    letter->stamp = (stamp){note->chart, note->from, note->from_incarnation};
    letter->value = span_of(bytes, writer_size(&writer));
    return bytes;
}

static bool is_role(uint8_t role) { return role == MR_PS_SCHEDULER || role == MR_PS_SERVERS || role == MR_PS_WORKERS; }

mr_status note_read(const letter *letter, note *out) {
    reader reader = reader_of(letter->value.data, letter->value.size);
    note read = {0};
#define X(type, field) read.field = reader_##type(&reader);
    BEFORE_ADDRESS(X)
    bool good = reader_text8(&reader, read.address, sizeof read.address);
    AFTER_ADDRESS(X)
#undef X
    read.body.size = reader_left(&reader);
    read.body.data = reader_bytes(&reader, read.body.size);
    read.chart = letter->stamp.view;
    read.from = (uint32_t)letter->stamp.id;
    read.from_incarnation = letter->stamp.incarnation;
    good = good && !reader.failed && (read.kind == NOTE_REQUEST || read.kind == NOTE_RESPONSE) &&
           is_role(read.from_role) && is_role(read.to_role) && letter->stamp.id <= UINT32_MAX &&
           read.from_incarnation != 0 && read.number != 0 && read.oldest != 0 && read.oldest <= read.number &&
           strcmp(mr_status_name(read.status), "UNKNOWN") != 0 && read.body.size <= MR_PS_BODY_MAX &&
           (read.kind == NOTE_RESPONSE || read.status == MR_OK);
    if (!good) return error_set(MR_CORRUPT, "malformed app message of %zu bytes", letter->value.size);
    *out = read;
    return MR_OK;
}
