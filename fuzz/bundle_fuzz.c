/* bundle_fuzz.c — the values of one call, as they arrive: what passes the check is opened and read to the last byte,
 * and what opens is packed again from where it lies and reads the same. */
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "runtime/refs/bundle.h"
#include "tests/support/packed.h"

enum { AGAIN_MAX = 64 };

static bool open_value(const bundle *bundle, uint32_t index, uint64_t *digest) {
    value_doc doc;
    mr_value root, scalar;
    bundle_entry entry = bundle_value(bundle, index);
    if (entry.kind == BUNDLE_STORED || bundle_entry_open(&entry, &doc, &root) != MR_OK) return false;
    if (entry.kind == BUNDLE_PLAIN && value_read_scalar(entry.bytes, &scalar))
        MR_ASSERT(value_digest(&scalar) == value_digest(&root));
    *digest = value_digest(&root);
    value_close(&doc);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bundle *got, *again;
    MR_ASSERT(bundle_room(size, &got) == MR_OK);
    if (size > 0) memcpy(got->bytes, data, size);
    mr_status status = bundle_check(got);
    MR_ASSERT(status == MR_OK || (status == MR_CORRUPT && got->count == 0));
    bundle_item items[AGAIN_MAX];
    uint64_t digests[AGAIN_MAX], digest;
    uint32_t count = 0;
    for (uint32_t i = 0; i < got->count && count < AGAIN_MAX; i++) {
        if (!open_value(got, i, &digest)) continue;
        items[count] = (bundle_item){.entry = bundle_value(got, i)};
        digests[count++] = digest;
    }
    MR_ASSERT(bundle_create(items, count, &again) == MR_OK);
    MR_ASSERT(bundle_check(again) == MR_OK && again->count == count);
    for (uint32_t i = 0; i < count; i++) MR_ASSERT(open_value(again, i, &digest) && digest == digests[i]);
    bundle_unref(again);
    bundle_unref(got);
    return 0;
}
