/* consumer_group_fuzz.c — consumer groups from the metadata store or a group leader, and messages of a member to a
 * group leader. A consumer group that decodes is encoded to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/group_consumer.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    control_message message = {.stamp = {.id = 1, .incarnation = 1}, .value = span_of(data, size)};
    group_consumer_word word;
    if (group_consumer_read(&message, &word) == MR_OK) MR_ASSERT(word.wish_count <= GROUP_CONSUMER_WISHES_MAX);
    consumer_group group = {0};
    if (consumer_group_decode(span_of(data, size), &group) != MR_OK) {
        MR_ASSERT(group.number == 0 && group.members == NULL);
        return 0;
    }
    MR_ASSERT(consumer_group_size(&group) == size);
    uint8_t *again = xmalloc(size);
    writer writer = writer_of(again, size);
    consumer_group_encode(&group, &writer);
    MR_ASSERT(!writer.failed && memcmp(again, data, size) == 0);
    consumer_group_deal(&group); /* any decoded group must have an assignment of its shards */
    free(again);
    consumer_group_fini(&group);
    return 0;
}
