/* chart_fuzz.c — charts that the coordinator or another process may send. What is read is written back as the same
 * bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/chart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    chart chart = {0};
    if (chart_follow(&chart, span_of(data, size)) != MR_OK) {
        MR_ASSERT(chart.number == 0 && chart.slots == NULL);
        return 0;
    }
    MR_ASSERT(chart_size(&chart, 0) == size);
    uint8_t *again = xmalloc(size);
    writer writer = writer_of(again, size);
    chart_encode(&chart, 0, &writer);
    MR_ASSERT(!writer.failed && memcmp(again, data, size) == 0);
    free(again);
    chart_fini(&chart);
    return 0;
}
