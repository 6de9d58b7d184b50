/* hub_fuzz.c — packets between a hub and its guests, as wire_decode sees them.
 *
 * Random bytes seldom have the right first eight, so they are tried as they are and once more with version, kind and
 * size as they should have been. */
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "net/shm/extents.h"
#include "net/shm/hub_wire.h"

static bool ends(const char *text, size_t size) { return memchr(text, '\0', size) != NULL; }

/* What whoever uses a decoded message relies on. */
static void check(const wire *message) {
    cause why;
    switch (message->head.kind) {
    case WIRE_HELLO: MR_ASSERT(ends(message->hello.name, sizeof message->hello.name)); break;
    case WIRE_CONNECT: MR_ASSERT(ends(message->connect.name, sizeof message->connect.name)); break;
    case WIRE_LINK:
        MR_ASSERT(ends(message->link.name, sizeof message->link.name) && message->link.station < STATIONS_MAX);
        MR_ASSERT(message->link.send.size > 0 && message->link.receive.offset % EXTENT_UNIT == 0);
        break;
    case WIRE_WELCOME: MR_ASSERT(message->head.subject < STATIONS_MAX); break;
    case WIRE_REFUSED:
    case WIRE_GONE:
    case WIRE_END:
        wire_get_cause(message, &why);
        MR_ASSERT(why.status != MR_OK && ends(why.text, sizeof why.text) && why.pid >= 0);
        break;
    default: break;
    }
}

static void try(const uint8_t *data, size_t size) {
    int taken = 0;
    for (int from_hub = 0; from_hub < 2; from_hub++) {
        wire message;
        mr_status status = wire_decode(from_hub != 0, data, size, &message);
        if (status != MR_OK) {
            MR_ASSERT(status == MR_CORRUPT && mr_last_error()[0] != '\0');
            continue;
        }
        taken++;
        MR_ASSERT(wire_size(&message) == size && memcmp(&message, data, size) == 0);
        check(&message);
    }
    MR_ASSERT(taken <= 1); /* a kind goes one way only */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try(data, size);
    if (size <= sizeof(wire_head)) return 0;
    wire message;
    unsigned kind = 1 + data[1] % (WIRE_BYE + WIRE_END - WIRE_WELCOME + 1);
    if (kind > WIRE_BYE) kind += WIRE_WELCOME - WIRE_BYE - 1;
    wire_begin(&message, (wire_kind)kind, data[4]);
    size_t rest = wire_size(&message) - sizeof(wire_head), given = size - sizeof(wire_head);
    memcpy((uint8_t *)&message + sizeof(wire_head), data + sizeof(wire_head), rest < given ? rest : given);
    try((const uint8_t *)&message, wire_size(&message));
    return 0;
}
