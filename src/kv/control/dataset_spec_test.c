/* dataset_spec_test.c — encoding of dataset specifications, and the decision of the first worker in the metadata
 * store. */
#include "kv/control/dataset_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

/* A metadata store of one value; `serve` answers a request. */
typedef struct control {
    uint8_t value[64], wanted[64];
    size_t size, wanted_size;
    uint64_t version, expected;
    bool swaps;
    metadata_store_done_fn *done; /* pending request */
    void *argument;
} control;

static void get(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    control *client = self;
    assert_string_equal(key, DATASET_SPEC_KEY);
    assert_null(client->done);
    client->done = done;
    client->argument = argument;
    client->swaps = false;
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                 metadata_store_done_fn *done, void *argument) {
    control *client = self;
    get(self, key, 0, done, argument);
    client->swaps = true;
    client->expected = expected;
    assert_true(value.size <= sizeof client->wanted);
    memcpy(client->wanted, value.data, value.size);
    client->wanted_size = value.size;
}

static const metadata_store_ops ops = {.name = "office", .get = get, .compare_and_swap = swap};

static void serve(control *client, mr_status instead) {
    metadata_store_done_fn *done = client->done;
    metadata_store_answer answer = {.status = MR_OK};
    assert_non_null(done);
    client->done = NULL;
    if (client->swaps && client->expected == client->version) {
        memcpy(client->value, client->wanted, client->wanted_size);
        client->size = client->wanted_size;
        client->version++;
    } else if (client->swaps) {
        answer.status = MR_STALE;
    }
    answer.version = client->version;
    answer.value = span_of(client->value, client->size);
    if (instead != MR_OK) answer = (metadata_store_answer){.status = instead};
    done(client->argument, &answer);
}

static dataset_spec dataset_spec_of(uint64_t first, uint64_t second) {
    dataset_spec spec = {0};
    assert_int_equal(dataset_spec_init(&spec, (uint64_t[]){first, second, 7}, 3), MR_OK);
    return spec;
}

static mr_status decide(control *client, dataset_spec *spec) {
    cas_update *ask = dataset_spec_decide((metadata_store){&ops, client}, spec);
    while (cas_update_status(ask) == MR_BUSY) serve(client, MR_OK);
    mr_status status = cas_update_status(ask);
    cas_update_end(ask);
    return status;
}

static void the_first_decides(void **state) {
    control client = {0};
    dataset_spec one = dataset_spec_of(1000, 2), other = dataset_spec_of(1000, 3);
    assert_int_equal(decide(&client, &one), MR_OK);
    assert_int_equal(client.version, 1);
    assert_int_equal(decide(&client, &one), MR_OK);
    assert_int_equal(client.version, 1);
    assert_int_equal(decide(&client, &other), MR_EXISTS);
    assert_non_null(strstr(mr_last_error(), "shard 1 has 2 items, not 3"));
    other.count = 2;
    assert_int_equal(decide(&client, &other), MR_EXISTS);
    assert_non_null(strstr(mr_last_error(), "with 3 shards, not 2"));
    dataset_spec_fini(&one);
    dataset_spec_fini(&other);
}

static void an_unanswered_request_is_repeated(void **state) {
    control client = {0};
    dataset_spec spec = dataset_spec_of(5, 6);
    cas_update *ask = dataset_spec_decide((metadata_store){&ops, &client}, &spec);
    serve(&client, MR_TIMEOUT);
    serve(&client, MR_OK);
    serve(&client, MR_TIMEOUT); /* stored, but the answer was lost */
    assert_int_equal(cas_update_status(ask), MR_BUSY);
    serve(&client, MR_OK);
    assert_int_equal(cas_update_status(ask), MR_OK);
    assert_int_equal(client.version, 1);
    cas_update_end(ask);
    ask = dataset_spec_decide((metadata_store){&ops, &client}, &spec);
    cas_update_end(ask); /* ended while pending: the answer frees it */
    serve(&client, MR_OK);
    ask = dataset_spec_decide((metadata_store){&ops, &client}, &spec);
    serve(&client, MR_CLOSED);
    assert_int_equal(cas_update_status(ask), MR_CLOSED);
    cas_update_end(ask);
    dataset_spec_fini(&spec);
}

static void bytes_come_back_as_they_went(void **state) {
    uint8_t bytes[64];
    dataset_spec spec = dataset_spec_of(1, DATASET_SPEC_ITEMS_MAX - 8), again = {0};
    writer writer = writer_of(bytes, sizeof bytes);
    dataset_spec_encode(&spec, &writer);
    size_t size = writer_size(&writer);
    assert_int_equal(size, dataset_spec_size(&spec));
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(dataset_spec_decode(span_of(bytes, cut), &again), MR_CORRUPT);
    assert_int_equal(dataset_spec_decode(span_of(bytes, size + 1), &again), MR_CORRUPT);
    assert_int_equal(dataset_spec_decode(span_of(bytes, size), &again), MR_OK);
    assert_int_equal(again.count, 3);
    assert_memory_equal(again.sizes, spec.sizes, 3 * sizeof(uint64_t));
    bytes[2] = 0; /* a shard without items */
    dataset_spec_fini(&again);
    assert_int_equal(dataset_spec_decode(span_of(bytes, size), &again), MR_CORRUPT);
    dataset_spec_fini(&spec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_decides),
        cmocka_unit_test(an_unanswered_request_is_repeated),
        cmocka_unit_test(bytes_come_back_as_they_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
