/* membership_view_fuzz.c — membership views as arbitrary bytes. A view that decodes is encoded to the same bytes, its
 * members are found by id, and its leader has the lowest incarnation. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/membership_view.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    membership_view view = {0};
    mr_status status = membership_view_decode(span_of(data, size), &view);
    if (status != MR_OK) {
        MR_ASSERT(status == MR_CORRUPT && view.members == NULL && mr_last_error()[0] != '\0');
        return 0;
    }
    MR_ASSERT(size <= MEMBERSHIP_VIEW_BYTES_MAX && view.count <= MEMBERSHIP_VIEW_MEMBERS_MAX && view.number != 0);
    MR_ASSERT(membership_view_size(&view) == size);
    uint8_t *again = xmalloc(size);
    writer writer = writer_of(again, size);
    membership_view_encode(&view, &writer);
    MR_ASSERT(!writer.failed && memcmp(again, data, size) == 0);
    for (size_t i = 0; i < view.count; i++) {
        const membership_view_member *member = &view.members[i];
        MR_ASSERT(membership_view_find(&view, member->id) == member && membership_view_address_valid(member->address));
        MR_ASSERT(membership_view_leader(&view)->incarnation <= member->incarnation);
    }
    free(again);
    membership_view_fini(&view);
    return 0;
}
