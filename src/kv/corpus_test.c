/* corpus_test.c — dataset specifications: bytes, and the decision of the first worker in the metadata store. */
#include "kv/corpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

/* A coordinator of one value, which answers when it is told to. */
typedef struct office {
    uint8_t value[64], wanted[64];
    size_t size, wanted_size;
    uint64_t version, expected;
    bool swaps;
    coordinator_done_fn *done; /* the question that is open */
    void *argument;
} office;

static void get(void *self, const char *key, uint64_t known, coordinator_done_fn *done, void *argument) {
    office *office = self;
    assert_string_equal(key, CORPUS_KEY);
    assert_null(office->done);
    office->done = done;
    office->argument = argument;
    office->swaps = false;
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease, coordinator_done_fn *done,
                 void *argument) {
    office *office = self;
    get(self, key, 0, done, argument);
    office->swaps = true;
    office->expected = expected;
    assert_true(value.size <= sizeof office->wanted);
    memcpy(office->wanted, value.data, value.size);
    office->wanted_size = value.size;
}

static const coordinator_ops ops = {.name = "office", .get = get, .compare_and_swap = swap};

static void serve(office *office, mr_status instead) {
    coordinator_done_fn *done = office->done;
    coordinator_answer answer = {.status = MR_OK};
    assert_non_null(done);
    office->done = NULL;
    if (office->swaps && office->expected == office->version) {
        memcpy(office->value, office->wanted, office->wanted_size);
        office->size = office->wanted_size;
        office->version++;
    } else if (office->swaps) {
        answer.status = MR_STALE;
    }
    answer.version = office->version;
    answer.value = span_of(office->value, office->size);
    if (instead != MR_OK) answer = (coordinator_answer){.status = instead};
    done(office->argument, &answer);
}

static corpus corpus_of(uint64_t first, uint64_t second) {
    corpus corpus = {0};
    assert_int_equal(corpus_init(&corpus, (uint64_t[]){first, second, 7}, 3), MR_OK);
    return corpus;
}

static mr_status decide(office *office, corpus *corpus) {
    ballot *ask = corpus_decide((coordinator){&ops, office}, corpus);
    while (ballot_status(ask) == MR_BUSY) serve(office, MR_OK);
    mr_status status = ballot_status(ask);
    ballot_end(ask);
    return status;
}

static void the_first_decides(void **state) {
    office office = {0};
    corpus one = corpus_of(1000, 2), other = corpus_of(1000, 3);
    assert_int_equal(decide(&office, &one), MR_OK);
    assert_int_equal(office.version, 1);
    assert_int_equal(decide(&office, &one), MR_OK);
    assert_int_equal(office.version, 1);
    assert_int_equal(decide(&office, &other), MR_EXISTS);
    assert_non_null(strstr(mr_last_error(), "shard 1 has 2 items, not 3"));
    other.count = 2;
    assert_int_equal(decide(&office, &other), MR_EXISTS);
    assert_non_null(strstr(mr_last_error(), "with 3 shards, not 2"));
    corpus_fini(&one);
    corpus_fini(&other);
}

static void what_is_not_answered_is_asked_again(void **state) {
    office office = {0};
    corpus corpus = corpus_of(5, 6);
    ballot *ask = corpus_decide((coordinator){&ops, &office}, &corpus);
    serve(&office, MR_TIMEOUT);
    serve(&office, MR_OK);
    serve(&office, MR_TIMEOUT); /* it was decided, and nobody said so */
    assert_int_equal(ballot_status(ask), MR_BUSY);
    serve(&office, MR_OK);
    assert_int_equal(ballot_status(ask), MR_OK);
    assert_int_equal(office.version, 1);
    ballot_end(ask);
    ask = corpus_decide((coordinator){&ops, &office}, &corpus);
    ballot_end(ask); /* nobody waits: it goes with its answer */
    serve(&office, MR_OK);
    ask = corpus_decide((coordinator){&ops, &office}, &corpus);
    serve(&office, MR_CLOSED);
    assert_int_equal(ballot_status(ask), MR_CLOSED);
    ballot_end(ask);
    corpus_fini(&corpus);
}

static void bytes_come_back_as_they_went(void **state) {
    uint8_t bytes[64];
    corpus corpus = corpus_of(1, CORPUS_ITEMS_MAX - 8), again = {0};
    writer writer = writer_of(bytes, sizeof bytes);
    corpus_encode(&corpus, &writer);
    size_t size = writer_size(&writer);
    assert_int_equal(size, corpus_size(&corpus));
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(corpus_decode(span_of(bytes, cut), &again), MR_CORRUPT);
    assert_int_equal(corpus_decode(span_of(bytes, size + 1), &again), MR_CORRUPT);
    assert_int_equal(corpus_decode(span_of(bytes, size), &again), MR_OK);
    assert_int_equal(again.count, 3);
    assert_memory_equal(again.sizes, corpus.sizes, 3 * sizeof(uint64_t));
    bytes[2] = 0; /* a part without items */
    corpus_fini(&again);
    assert_int_equal(corpus_decode(span_of(bytes, size), &again), MR_CORRUPT);
    corpus_fini(&corpus);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_decides),
        cmocka_unit_test(what_is_not_answered_is_asked_again),
        cmocka_unit_test(bytes_come_back_as_they_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
