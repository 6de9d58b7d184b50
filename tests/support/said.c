/* said.c — see said.h. */
#include "tests/support/said.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

void said_take(said *said, const char *address, span batch) {
    reader reader = reader_of(batch.data, batch.size);
    part_head head;
    uint32_t count;
    mr_status status = part_read_head(&reader, &head, &count);
    MR_ASSERT(status == MR_OK);
    said->batches++;
    for (uint32_t i = 0; i < count; i++) {
        MR_ASSERT(said->count < SAID_MAX);
        strcpy(said->list[said->count].to, address);
        status = part_read(&reader, &said->list[said->count++].part);
        MR_ASSERT(status == MR_OK);
    }
}

size_t said_count(const said *said, const char *to, part_kind kind) {
    size_t count = 0;
    for (size_t i = 0; i < said->count; i++)
        count += strcmp(said->list[i].to, to) == 0 && said->list[i].part.kind == kind;
    return count;
}

size_t said_named(const said *said, const char *to, part_kind kind, part_status status, uint64_t name) {
    size_t count = 0;
    for (size_t i = 0; i < said->count; i++) {
        const part *part = &said->list[i].part;
        bool there = strcmp(said->list[i].to, to) == 0 && part->kind == kind;
        count += there && part->status == status && part->name == name;
    }
    return count;
}

void part_begin(part_batch *batch, const part_head *head) {
    uint8_t bytes[PART_HEAD_MAX];
    part_begin_written(batch, span_of(bytes, part_write_head(head, bytes)));
}

said_batch said_say(const part_head *from, const part *part) {
    said_batch said = {0};
    part_begin(&said.batch, from);
    if (part != NULL) part_add(&said.batch, part);
    said.bytes = part_end(&said.batch);
    return said;
}

said_batch said_chart(const part_head *from, const chart *chart) {
    size_t size = chart_size(chart, 0);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    chart_encode(chart, 0, &writer);
    said_batch said = said_say(from, &(part){.kind = PART_CHART, .payload = span_of(bytes, size)});
    free(bytes);
    return said;
}

void said_free(said_batch *batch) { part_batch_fini(&batch->batch); }
