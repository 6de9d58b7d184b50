/* tally.c — see tally.h. */
#include "sim/ps/tally.h"

#include "base/assert.h"

enum { ANY = PART_STATUS_COUNT };

static const struct {
    const char *name;
    uint8_t kind, status;
} said[] = {
#define X(name) {"part " #name, PART_##name, ANY},
    PART_KINDS(X)
#undef X
#define STATUS(kind, status) \
    { #kind " " #status, PART_##kind, PART_##status }
        STATUS(PUSHED, LATER), /* no credit, or no head that serves */
    STATUS(PUSHED, WRONG),
    STATUS(PUSHED, RESEND),
    STATUS(PUSHED, GONE),
    STATUS(PUSHED, TAKEN),
    STATUS(PUSHED, MISSED),
    STATUS(PULLED, GONE),
    STATUS(PULLED, SAME),
    STATUS(LEVEL, LATER), /* no room down the chain */
    STATUS(GATE, LATER),
    STATUS(FROZEN, GONE),
    STATUS(ORDERED, GONE),
    STATUS(ORDERED, LATER),
#undef STATUS
};
enum { SAID_COUNT = sizeof said / sizeof *said };

static const char *const logged[] = {"entry PUSH",  "entry ROUND", "entry FREEZE", "entry JOIN",
                                     "entry LEAVE", "entry DROP",  "entry VOID",   "entry REDO",
                                     "entry MARK",  "entry FRESH", "entry NORMS"};
_Static_assert(sizeof logged / sizeof *logged == TAPE_KIND_COUNT, "each kind of entry has a name");

void ps_tally_batch(ps_tally *tally, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    part_head from;
    part part;
    uint32_t count;
    if (part_read_head(&reader, &from, &count) != MR_OK) return;
    for (uint32_t i = 0; i < count && part_read(&reader, &part) == MR_OK; i++)
        if (part.kind < PART_KIND_COUNT && part.status < PART_STATUS_COUNT) tally->parts[part.kind][part.status]++;
}

static uint64_t value_of(const ps_tally *tally, size_t index) {
    if (index >= SAID_COUNT) return tally->entries[index - SAID_COUNT];
    const uint64_t *parts = tally->parts[said[index].kind];
    if (said[index].status != ANY) return parts[said[index].status];
    uint64_t sum = 0;
    for (size_t i = 0; i < PART_STATUS_COUNT; i++) sum += parts[i];
    return sum;
}

const char *ps_tally_name(size_t index) {
    if (index < SAID_COUNT) return said[index].name;
    return index - SAID_COUNT < TAPE_KIND_COUNT ? logged[index - SAID_COUNT] : NULL;
}

void ps_tally_report(const ps_tally *tally, sim *sim) {
    for (size_t i = 0; ps_tally_name(i) != NULL; i++)
        if (value_of(tally, i) != 0) sim_count(sim, ps_tally_name(i), value_of(tally, i));
}
