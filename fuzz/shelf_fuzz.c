/* shelf_fuzz.c — payloads and states of a slot from anywhere: what is applied keeps copies alike, in a sum or alone;
 * what is read is written with as many bytes. The first byte chooses. */
#include <stdlib.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/shelf/shelf.h"
#include "tests/support/parcels.h"

static void define_all(void *shelf) {
    parcel_writer writer = {0};
    parcels_define(&writer, (definition_options){.id = 1, .dim = 2, .optimizer = "adam", .refuse_nan = true});
    parcels_define(&writer, (definition_options){.id = 2, .kind = DEFINITION_VECTORS});
    parcels_define(&writer, (definition_options){.id = 3, .kind = DEFINITION_DENSE, .block = 16, .dtype = MR_F16});
    parcels_define(&writer, (definition_options){.id = 5, .dim = 2, .clip_norm = 1, .refuse_nan = true});
    parcels_define(&writer, (definition_options){
                                .id = 6, .kind = DEFINITION_DENSE, .block = 16, .optimizer = "lamb", .clip_norm = 1});
    parcels_define(&writer, (definition_options){.id = 4, .dtype = MR_I64, .admit = 2, .rows_max = 4, .age_max = 3});
    shelf_ops.apply(shelf, parcel_written(&writer), 1);
    parcel_fini(&writer);
}

static bale *bytes_of(void *shelf) {
    bale *bale = bale_new(shelf_ops.size(shelf));
    shelf_ops.write(shelf, bale_room(bale));
    return bale;
}

static void apply(void *shelf, span payload) {
    bale_unref(shelf_ops.show(shelf, payload, false));
    void *copy = shelf_ops.create(NULL, 0, true);
    bale *state = bytes_of(shelf);
    MR_ASSERT(shelf_ops.read(copy, bale_bytes(state)));
    bale_unref(state);
    shelf_ops.apply(shelf, payload, 9);
    shelf_ops.apply(copy, payload, 9);
    bale_unref(shelf_ops.show(shelf, payload, true));
    bale *left = bytes_of(shelf), *right = bytes_of(copy);
    MR_ASSERT(bale_bytes(left).size == bale_bytes(right).size);
    MR_ASSERT(memcmp(bale_bytes(left).data, bale_bytes(right).data, bale_bytes(left).size) == 0);
    bale_unref(left);
    bale_unref(right);
    shelf_ops.destroy(copy);
}

/* With norms as they are, and with noise in their place. */
static void measure(void *shelf, span sum, span noise) {
    void *copy = shelf_ops.create(NULL, 0, true);
    bale *state = bytes_of(shelf), *part = shelf_ops.measure(shelf, sum, (span){0}, 9);
    MR_ASSERT(shelf_ops.read(copy, bale_bytes(state)));
    span norms = part == NULL ? (span){0} : bale_bytes(part);
    bale_unref(shelf_ops.measure(shelf, sum, norms, 9));
    bale_unref(shelf_ops.measure(shelf, sum, noise, 9));
    bale *again = bytes_of(shelf);
    MR_ASSERT(bale_bytes(again).size == bale_bytes(state).size);
    MR_ASSERT(memcmp(bale_bytes(again).data, bale_bytes(state).data, bale_bytes(state).size) == 0);
    shelf_ops.apply_normed(copy, sum, norms, 9);
    shelf_ops.apply_normed(copy, sum, noise, 10);
    bale_unref(part);
    bale_unref(again);
    bale_unref(state);
    shelf_ops.destroy(copy);
}

static void sum(void *shelf, span payload) {
    void *sum = shelf_ops.sum_begin(NULL, 0);
    shelf_ops.sum_add(sum, payload);
    shelf_ops.sum_add(sum, payload);
    bale *bale = bale_new(shelf_ops.sum_size(sum));
    shelf_ops.sum_write(sum, bale_room(bale));
    shelf_ops.sum_end(sum);
    MR_ASSERT(parcel_check(bale_bytes(bale)) == MR_OK);
    measure(shelf, bale_bytes(bale), payload);
    apply(shelf, bale_bytes(bale));
    bale_unref(bale);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    void *shelf = shelf_ops.create(NULL, 0, true);
    span payload = span_of(data + 1, size - 1);
    define_all(shelf);
    if (data[0] % 3 == 0) apply(shelf, payload);
    if (data[0] % 3 == 1) sum(shelf, payload);
    if (data[0] % 3 == 2 && shelf_ops.read(shelf, payload)) {
        bale *again = bytes_of(shelf);
        MR_ASSERT(bale_bytes(again).size == payload.size);
        bale_unref(again);
    }
    shelf_ops.destroy(shelf);
    return 0;
}
