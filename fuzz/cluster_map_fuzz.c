/* cluster_map_fuzz.c — cluster maps from the metadata store or another process. A map of this layout that decodes is
 * encoded to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/cluster_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cluster_map map = {0};
    if (cluster_map_follow(&map, span_of(data, size)) != MR_OK) {
        MR_ASSERT(map.number == 0 && map.slots == NULL);
        return 0;
    }
    if (data[0] == CLUSTER_MAP_LAYOUT) {
        MR_ASSERT(cluster_map_size(&map, 0) == size);
        uint8_t *again = xmalloc(size);
        writer writer = writer_of(again, size);
        cluster_map_encode(&map, 0, &writer);
        MR_ASSERT(!writer.failed && memcmp(again, data, size) == 0);
        free(again);
    }
    cluster_map_fini(&map);
    return 0;
}
