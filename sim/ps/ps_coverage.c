/* ps_coverage.c — see ps_coverage.h. */
#include "sim/ps/ps_coverage.h"

#include "base/assert.h"

enum { ANY = SLOT_MESSAGE_STATUS_COUNT };

static const struct {
    const char *name;
    uint8_t kind, status;
} said[] = {
#define X(name, number) {"part " #name, number, ANY},
    SLOT_MESSAGE_KINDS(X)
#undef X
#define STATUS(kind, status) \
    { #kind " " #status, SLOT_MESSAGE_##kind, SLOT_MESSAGE_##status }
        STATUS(PUSHED, LATER), /* no credit, or the head does not serve */
    STATUS(PUSHED, WRONG),
    STATUS(PUSHED, RESEND),
    STATUS(PUSHED, GONE),
    STATUS(PUSHED, TAKEN),
    STATUS(PUSHED, MISSED),
    STATUS(PULLED, GONE),
    STATUS(LEVEL, LATER), /* no room in the chain */
    STATUS(GATE, LATER),
    STATUS(FROZEN, GONE),
    STATUS(ORDERED, GONE),
    STATUS(ORDERED, LATER),
    STATUS(TAKEN_PIECE, LATER), /* no room for a large message */
#undef STATUS
};
enum { SAID_COUNT = sizeof said / sizeof *said };

static const char *const logged[] = {"entry PUSH",  "entry ROUND", "entry FREEZE", "entry JOIN",
                                     "entry LEAVE", "entry DROP",  "entry VOID",   "entry REDO",
                                     "entry MARK",  "entry FRESH", "entry NORMS"};
_Static_assert(sizeof logged / sizeof *logged == REPLICA_LOG_KIND_COUNT, "each kind of entry has a name");

void ps_coverage_batch(ps_coverage *coverage, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    slot_message_head from;
    slot_message message;
    uint32_t count;
    if (slot_message_read_head(&reader, &from, &count) != MR_OK) return;
    for (uint32_t i = 0; i < count && slot_message_read(&reader, &message) == MR_OK; i++)
        if (message.kind < SLOT_MESSAGE_KIND_COUNT && message.status < SLOT_MESSAGE_STATUS_COUNT)
            coverage->parts[message.kind][message.status]++;
}

static uint64_t value_of(const ps_coverage *coverage, size_t index) {
    if (index >= SAID_COUNT) return coverage->entries[index - SAID_COUNT];
    const uint64_t *parts = coverage->parts[said[index].kind];
    if (said[index].status != ANY) return parts[said[index].status];
    uint64_t sum = 0;
    for (size_t i = 0; i < SLOT_MESSAGE_STATUS_COUNT; i++) sum += parts[i];
    return sum;
}

const char *ps_coverage_name(size_t index) {
    if (index < SAID_COUNT) return said[index].name;
    return index - SAID_COUNT < REPLICA_LOG_KIND_COUNT ? logged[index - SAID_COUNT] : NULL;
}

void ps_coverage_report(const ps_coverage *coverage, sim *sim) {
    for (size_t i = 0; ps_coverage_name(i) != NULL; i++)
        if (value_of(coverage, i) != 0) sim_count(sim, ps_coverage_name(i), value_of(coverage, i));
}
