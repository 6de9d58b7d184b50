/* control_message_fuzz.c — control messages from another process. A message that decodes is encoded to the same
 * bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/control_message.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    control_message message;
    mr_status status = control_message_decode(span_of(data, size), &message);
    if (status != MR_OK) {
        MR_ASSERT(status == MR_CORRUPT && mr_last_error()[0] != '\0');
        return 0;
    }
    MR_ASSERT(message.key.size <= CONTROL_MESSAGE_KEY_MAX && message.value.size <= CONTROL_MESSAGE_VALUE_MAX);
    MR_ASSERT(control_message_size(&message) == size);
    uint8_t *again = xmalloc(size);
    writer writer = writer_of(again, size);
    control_message_encode(&message, &writer);
    MR_ASSERT(!writer.failed && memcmp(again, data, size) == 0);
    free(again);
    return 0;
}
