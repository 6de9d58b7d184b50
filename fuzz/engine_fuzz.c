/* engine_fuzz.c — arbitrary bytes as payloads and as states of a slot: a payload that is applied, alone or as a sum,
 * leaves two replicas equal; a state that is read is written with as many bytes. The first byte selects the test. */
#include <stdlib.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/engine/engine.h"
#include "tests/support/payload_builder.h"

static void define_all(void *engine) {
    payload_writer writer = {0};
    payload_define(&writer, (definition_options){.id = 1, .dim = 2, .optimizer = "adam", .refuse_nan = true});
    payload_define(&writer, (definition_options){.id = 2, .kind = TABLE_SCHEMA_VECTORS});
    payload_define(&writer, (definition_options){.id = 3, .kind = TABLE_SCHEMA_DENSE, .block = 16, .dtype = MR_F16});
    payload_define(&writer, (definition_options){.id = 5, .dim = 2, .clip_norm = 1, .refuse_nan = true});
    payload_define(&writer, (definition_options){
                                .id = 6, .kind = TABLE_SCHEMA_DENSE, .block = 16, .optimizer = "lamb", .clip_norm = 1});
    payload_define(&writer, (definition_options){.id = 4, .dtype = MR_I64, .admit = 2, .rows_max = 4, .age_max = 3});
    engine_ops.apply(engine, payload_written(&writer), 1);
    payload_fini(&writer);
}

static shared_bytes *bytes_of(void *engine) {
    shared_bytes *bytes = shared_bytes_new(engine_ops.size(engine));
    engine_ops.write(engine, shared_bytes_room(bytes));
    return bytes;
}

static void apply(void *engine, span payload) {
    shared_bytes_unref(engine_ops.show(engine, payload, false));
    void *copy = engine_ops.create(NULL, 0, true);
    shared_bytes *state = bytes_of(engine);
    MR_ASSERT(engine_ops.read(copy, shared_bytes_bytes(state)));
    shared_bytes_unref(state);
    engine_ops.apply(engine, payload, 9);
    engine_ops.apply(copy, payload, 9);
    shared_bytes_unref(engine_ops.show(engine, payload, true));
    shared_bytes *left = bytes_of(engine), *right = bytes_of(copy);
    MR_ASSERT(shared_bytes_bytes(left).size == shared_bytes_bytes(right).size);
    MR_ASSERT(memcmp(shared_bytes_bytes(left).data, shared_bytes_bytes(right).data, shared_bytes_bytes(left).size) ==
              0);
    shared_bytes_unref(left);
    shared_bytes_unref(right);
    engine_ops.destroy(copy);
}

/* Measures and applies the sum with its own norms and with noise as norms. A measurement must not change the state. */
static void measure(void *engine, span sum, span noise) {
    void *copy = engine_ops.create(NULL, 0, true);
    shared_bytes *state = bytes_of(engine), *part = engine_ops.measure(engine, sum, (span){0}, 9);
    MR_ASSERT(engine_ops.read(copy, shared_bytes_bytes(state)));
    span norms = part == NULL ? (span){0} : shared_bytes_bytes(part);
    shared_bytes_unref(engine_ops.measure(engine, sum, norms, 9));
    shared_bytes_unref(engine_ops.measure(engine, sum, noise, 9));
    shared_bytes *again = bytes_of(engine);
    MR_ASSERT(shared_bytes_bytes(again).size == shared_bytes_bytes(state).size);
    MR_ASSERT(memcmp(shared_bytes_bytes(again).data, shared_bytes_bytes(state).data, shared_bytes_bytes(state).size) ==
              0);
    engine_ops.apply_normed(copy, sum, norms, 9);
    engine_ops.apply_normed(copy, sum, noise, 10);
    shared_bytes_unref(part);
    shared_bytes_unref(again);
    shared_bytes_unref(state);
    engine_ops.destroy(copy);
}

static void sum(void *engine, span payload) {
    void *sum = engine_ops.sum_begin(engine);
    engine_ops.sum_add(sum, payload);
    engine_ops.sum_add(sum, payload);
    shared_bytes *bytes = shared_bytes_new(engine_ops.sum_size(sum));
    engine_ops.sum_write(sum, shared_bytes_room(bytes));
    engine_ops.sum_end(sum);
    MR_ASSERT(payload_check(shared_bytes_bytes(bytes)) == MR_OK);
    measure(engine, shared_bytes_bytes(bytes), payload);
    apply(engine, shared_bytes_bytes(bytes));
    shared_bytes_unref(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    void *engine = engine_ops.create(NULL, 0, true);
    span payload = span_of(data + 1, size - 1);
    define_all(engine);
    if (data[0] % 3 == 0) apply(engine, payload);
    if (data[0] % 3 == 1) sum(engine, payload);
    if (data[0] % 3 == 2 && engine_ops.read(engine, payload)) {
        shared_bytes *again = bytes_of(engine);
        MR_ASSERT(shared_bytes_bytes(again).size == payload.size);
        shared_bytes_unref(again);
    }
    engine_ops.destroy(engine);
    return 0;
}
