/* message_recorder.c — see message_recorder.h. */
#include "tests/support/message_recorder.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

void message_recorder_take(message_recorder *recorder, const char *address, span batch) {
    reader reader = reader_of(batch.data, batch.size);
    slot_message_head head;
    uint32_t count;
    mr_status status = slot_message_read_head(&reader, &head, &count);
    MR_ASSERT(status == MR_OK);
    recorder->batches++;
    for (uint32_t i = 0; i < count; i++) {
        MR_ASSERT(recorder->count < MESSAGE_RECORDER_MAX);
        strcpy(recorder->list[recorder->count].to, address);
        status = slot_message_read(&reader, &recorder->list[recorder->count++].message);
        MR_ASSERT(status == MR_OK);
    }
}

size_t message_recorder_count(const message_recorder *recorder, const char *to, slot_message_kind kind) {
    size_t count = 0;
    for (size_t i = 0; i < recorder->count; i++)
        count += strcmp(recorder->list[i].to, to) == 0 && recorder->list[i].message.kind == kind;
    return count;
}

size_t message_recorder_named(const message_recorder *recorder, const char *to, slot_message_kind kind,
                              slot_message_status status, uint64_t name) {
    size_t count = 0;
    for (size_t i = 0; i < recorder->count; i++) {
        const slot_message *message = &recorder->list[i].message;
        bool there = strcmp(recorder->list[i].to, to) == 0 && message->kind == kind;
        count += there && message->status == status && message->name == name;
    }
    return count;
}

void part_begin(slot_packet *packet, const slot_message_head *head) {
    uint8_t bytes[SLOT_MESSAGE_HEAD_MAX];
    slot_packet_begin_written(packet, span_of(bytes, slot_message_write_head(head, bytes)));
}

message_recorder_batch message_recorder_say(const slot_message_head *from, const slot_message *message) {
    message_recorder_batch said = {0};
    part_begin(&said.packet, from);
    if (message != NULL) slot_packet_add(&said.packet, message);
    said.bytes = slot_packet_end(&said.packet);
    return said;
}

message_recorder_batch message_recorder_map(const slot_message_head *from, const cluster_map *map) {
    size_t size = cluster_map_size(map, 0);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    cluster_map_encode(map, 0, &writer);
    message_recorder_batch said =
        message_recorder_say(from, &(slot_message){.kind = SLOT_MESSAGE_MAP, .payload = span_of(bytes, size)});
    free(bytes);
    return said;
}

void message_recorder_free(message_recorder_batch *batch) { slot_packet_fini(&batch->packet); }
