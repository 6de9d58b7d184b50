/* value_pack_fuzz.c — value packs as arbitrary bytes: the values of a pack that passes the check are opened and read to
 * the last byte, and values that open are packed again in place and read the same. */
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "runtime/refs/value_pack.h"
#include "tests/support/exact_value.h"

enum { AGAIN_MAX = 64 };

static bool open_value(const value_pack *pack, uint32_t index, uint64_t *digest) {
    value_doc doc;
    mr_value root, scalar;
    value_pack_entry entry = value_pack_value(pack, index);
    if (entry.kind == VALUE_PACK_STORED || value_pack_entry_open(&entry, &doc, &root) != MR_OK) return false;
    if (entry.kind == VALUE_PACK_PLAIN && value_read_scalar(entry.bytes, &scalar))
        MR_ASSERT(value_digest(&scalar) == value_digest(&root));
    *digest = value_digest(&root);
    value_close(&doc);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    value_pack *got, *again;
    MR_ASSERT(value_pack_room(size, &got) == MR_OK);
    if (size > 0) memcpy(got->bytes, data, size);
    mr_status status = value_pack_check(got, &(value_pack_view){0});
    MR_ASSERT(status == MR_OK || (status == MR_CORRUPT && got->count == 0));
    value_pack_item items[AGAIN_MAX];
    uint64_t digests[AGAIN_MAX], digest;
    uint32_t count = 0;
    for (uint32_t i = 0; i < got->count && count < AGAIN_MAX; i++) {
        if (!open_value(got, i, &digest)) continue;
        items[count] = (value_pack_item){.entry = value_pack_value(got, i)};
        digests[count++] = digest;
    }
    MR_ASSERT(value_pack_create(items, count, &again) == MR_OK);
    MR_ASSERT(value_pack_check(again, &(value_pack_view){0}) == MR_OK && again->count == count);
    for (uint32_t i = 0; i < count; i++) MR_ASSERT(open_value(again, i, &digest) && digest == digests[i]);
    value_pack_unref(again);
    value_pack_unref(got);
    return 0;
}
