/* slot_message_fuzz.c — packets from another process. Messages that decode are encoded and decode to the same
 * messages. */
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/slot_message.h"

static bool same_bytes(span a, span b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool same(const slot_message *a, const slot_message *b) {
    return a->kind == b->kind && a->status == b->status && a->entry == b->entry && a->priority == b->priority &&
           a->slot == b->slot && a->rank == b->rank && a->epoch == b->epoch && a->lsn == b->lsn &&
           a->commit == b->commit && a->name == b->name && a->prev == b->prev && same_bytes(a->terms, b->terms) &&
           same_bytes(a->payload, b->payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    reader from = reader_of(data, size);
    slot_message_head head;
    uint32_t count, good = 0;
    if (size > 64 * 1024 || slot_message_read_head(&from, &head, &count) != MR_OK) return 0;
    reader first = from;
    slot_packet packet = {0};
    slot_message message, twin;
    uint8_t written[SLOT_MESSAGE_HEAD_MAX];
    slot_packet_begin_written(&packet, span_of(written, slot_message_write_head(&head, written)));
    for (; good < count && slot_message_read(&from, &message) == MR_OK; good++) slot_packet_add(&packet, &message);
    span bytes = slot_packet_end(&packet);
    reader again = reader_of(bytes.data, bytes.size);
    MR_ASSERT(slot_message_read_head(&again, &head, &count) == MR_OK && count == good);
    for (uint32_t i = 0; i < good; i++)
        MR_ASSERT(slot_message_read(&first, &message) == MR_OK && slot_message_read(&again, &twin) == MR_OK &&
                  same(&message, &twin));
    MR_ASSERT(reader_left(&again) == 0);
    slot_packet_fini(&packet);
    return 0;
}
