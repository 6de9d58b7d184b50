/* message_recorder.h — recorded messages of a server, a rank or the controller, for tests that drive one of them by
 * hand. */
#pragma once
#include "ps/cluster_map.h"
#include "ps/slot_message.h"

enum { MESSAGE_RECORDER_MAX = 64 };

typedef struct message_recorder {
    struct {
        char to[SLOT_MESSAGE_ADDRESS_MAX];
        slot_message message; /* its payload and terms are not valid any more */
    } list[MESSAGE_RECORDER_MAX];
    size_t count, batches;
} message_recorder;

void message_recorder_take(message_recorder *recorder, const char *address, span batch);
size_t message_recorder_count(const message_recorder *recorder, const char *to, slot_message_kind kind);
size_t message_recorder_named(const message_recorder *recorder, const char *to, slot_message_kind kind,
                              slot_message_status status, uint64_t name);

void part_begin(slot_packet *packet, const slot_message_head *head); /* drops earlier messages of the packet */

/* A packet of at most one slot message (NULL: none), as a sender encodes it; owned, freed by message_recorder_free. */
typedef struct message_recorder_batch {
    slot_packet packet;
    span bytes;
} message_recorder_batch;
message_recorder_batch message_recorder_say(const slot_message_head *from, const slot_message *message);
message_recorder_batch message_recorder_map(const slot_message_head *from, const cluster_map *map);
void message_recorder_free(message_recorder_batch *batch);
