/* roster_fuzz.c — rosters that the coordinator or a marshal may send, and what a member may say to a marshal. A roster
 * that is read is written back as the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/attendee.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    letter letter = {.stamp = {.id = 1, .incarnation = 1}, .value = span_of(data, size)};
    attendee_word word;
    if (attendee_read(&letter, &word) == MR_OK) MR_ASSERT(word.wish_count <= ATTENDEE_WISHES_MAX);
    roster roster = {0};
    if (roster_decode(span_of(data, size), &roster) != MR_OK) {
        MR_ASSERT(roster.number == 0 && roster.members == NULL);
        return 0;
    }
    MR_ASSERT(roster_size(&roster) == size);
    uint8_t *again = xmalloc(size);
    writer writer = writer_of(again, size);
    roster_encode(&roster, &writer);
    MR_ASSERT(!writer.failed && memcmp(again, data, size) == 0);
    roster_deal(&roster); /* whatever it says, it can be dealt out */
    free(again);
    roster_fini(&roster);
    return 0;
}
