/* broker_protocol_fuzz.c — packets between a broker and its clients, for broker_wire_decode.
 *
 * Random bytes rarely begin with a valid head of eight bytes, so each input is tried as it is, and again with a valid
 * version, kind and size. */
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "net/shm/broker_wire.h"
#include "net/shm/extent_allocator.h"

static bool ends(const char *text, size_t size) { return memchr(text, '\0', size) != NULL; }

/* Asserts the properties of a decoded message on which its users rely. */
static void check(const broker_wire *message) {
    cause why;
    switch (message->head.kind) {
    case BROKER_WIRE_HELLO: MR_ASSERT(ends(message->hello.name, sizeof message->hello.name)); break;
    case BROKER_WIRE_CONNECT: MR_ASSERT(ends(message->connect.name, sizeof message->connect.name)); break;
    case BROKER_WIRE_LINK:
        MR_ASSERT(ends(message->link.name, sizeof message->link.name) &&
                  message->link.process_block < PROCESS_BLOCKS_MAX);
        MR_ASSERT(message->link.send.size > 0 && message->link.receive.offset % EXTENT_UNIT == 0);
        break;
    case BROKER_WIRE_WELCOME: MR_ASSERT(message->head.subject < PROCESS_BLOCKS_MAX); break;
    case BROKER_WIRE_REFUSED:
    case BROKER_WIRE_GONE:
    case BROKER_WIRE_END:
        broker_wire_get_cause(message, &why);
        MR_ASSERT(why.status != MR_OK && ends(why.text, sizeof why.text) && why.pid >= 0);
        break;
    default: break;
    }
}

static void try(const uint8_t *data, size_t size) {
    int taken = 0;
    for (int from_broker = 0; from_broker < 2; from_broker++) {
        broker_wire message;
        mr_status status = broker_wire_decode(from_broker != 0, data, size, &message);
        if (status != MR_OK) {
            MR_ASSERT(status == MR_CORRUPT && mr_last_error()[0] != '\0');
            continue;
        }
        taken++;
        MR_ASSERT(message.head.size == size && memcmp(&message, data, size) == 0);
        check(&message);
    }
    MR_ASSERT(taken <= 1); /* each kind has one direction */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try(data, size);
    if (size <= sizeof(broker_wire_head)) return 0;
    broker_wire message;
    unsigned kind = 1 + data[1] % (BROKER_WIRE_BYE + BROKER_WIRE_END - BROKER_WIRE_WELCOME + 1);
    if (kind > BROKER_WIRE_BYE) kind += BROKER_WIRE_WELCOME - BROKER_WIRE_BYE - 1;
    message = broker_wire_of((broker_wire_kind)kind, data[4]);
    size_t rest = message.head.size - sizeof(broker_wire_head), given = size - sizeof(broker_wire_head);
    memcpy((uint8_t *)&message + sizeof(broker_wire_head), data + sizeof(broker_wire_head),
           rest < given ? rest : given);
    try((const uint8_t *)&message, message.head.size);
    return 0;
}
