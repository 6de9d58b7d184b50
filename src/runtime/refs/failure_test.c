/* failure_test.c — chains of causes, their text, and their bytes. */
#include "runtime/refs/failure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

/* Chain whose outermost failure is number 0, and whose first cause is number `length` - 1. */
static failure *chain_of(int length) {
    failure *chain = NULL;
    for (int i = length - 1; i >= 0; i--) {
        char message[32], origin[32];
        snprintf(message, sizeof message, "message %d", i);
        snprintf(origin, sizeof origin, "origin %d", i);
        chain = failure_create(i % 2 == 0 ? MR_TASK_FAILED : MR_INVALID, message, origin, chain);
    }
    return chain;
}

static uint8_t *encode(const failure *failure, size_t *size) {
    *size = failure_encoded_size(failure);
    uint8_t *bytes = xmalloc(*size);
    writer writer = writer_of(bytes, *size);
    failure_encode(failure, &writer);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), *size);
    return bytes;
}

static failure *decode(const uint8_t *bytes, size_t size) {
    reader reader = reader_of(bytes, size);
    failure *got;
    assert_int_equal(failure_decode(&reader, &got), MR_OK);
    assert_int_equal(reader_left(&reader), 0);
    return got;
}

static int length_of(const failure *failure) {
    int length = 0;
    for (; failure != NULL; failure = failure->cause) length++;
    return length;
}

static void chains_travel(void **state) {
    for (int length = 1; length <= FAILURE_CHAIN_MAX; length++) {
        failure *chain = chain_of(length);
        size_t size;
        uint8_t *bytes = encode(chain, &size);
        failure *got = decode(bytes, size);
        const failure *a = chain, *b = got;
        for (; a != NULL && b != NULL; a = a->cause, b = b->cause) {
            assert_int_equal(a->code, b->code);
            assert_string_equal(a->message, b->message);
            assert_string_equal(a->origin, b->origin);
        }
        assert_true(a == NULL && b == NULL);
        free(bytes);
        failure_unref(chain);
        failure_unref(got);
    }
}

static void a_long_chain_loses_its_middle(void **state) {
    for (int length = FAILURE_CHAIN_MAX + 1; length < 3 * FAILURE_CHAIN_MAX; length++) {
        failure *chain = chain_of(length);
        size_t size;
        uint8_t *bytes = encode(chain, &size);
        failure *got = decode(bytes, size), *last = got;
        assert_int_equal(length_of(got), FAILURE_CHAIN_MAX);
        assert_string_equal(got->message, "message 0");
        while (last->cause != NULL) last = last->cause;
        char began[32];
        snprintf(began, sizeof began, "message %d", length - 1);
        assert_string_equal(last->message, began);
        free(bytes);
        failure_unref(chain);
        failure_unref(got);
    }
}

static void texts_are_cut(void **state) {
    char *text = xmalloc(2 * FAILURE_TEXT_MAX + 1);
    memset(text, 'x', 2 * FAILURE_TEXT_MAX);
    text[2 * FAILURE_TEXT_MAX] = '\0';
    failure *failed = failure_create(MR_IO, text, text, NULL);
    assert_int_equal(strlen(failed->message), FAILURE_TEXT_MAX);
    assert_int_equal(strlen(failed->origin), FAILURE_TEXT_MAX);
    size_t size;
    uint8_t *bytes = encode(failed, &size);
    failure *got = decode(bytes, size);
    assert_string_equal(got->message, failed->message);
    free(bytes);
    free(text);
    failure_unref(got);
    failure_unref(failed);
}

static void a_cause_is_shared(void **state) {
    failure *cause = failure_create(MR_IO, "the disk", "", NULL);
    failure *one = failure_create(MR_TASK_FAILED, "one", "", failure_ref(cause));
    failure *two = failure_create(MR_TASK_FAILED, "two", "", failure_ref(cause));
    assert_int_equal(cause->refs, 3);
    failure_unref(cause);
    failure_unref(one);
    assert_int_equal(cause->refs, 1);
    assert_string_equal(two->cause->message, "the disk");
    failure_unref(two);
    failure_unref(NULL);
}

static void the_same_place_is_named_once(void **state) {
    failure *failed = failure_create(MR_PEER_DIED, "process 7 exited", "task 'f'", NULL);
    failed = failure_create(MR_WORKER_DIED, "its worker died", "task 'f'", failed);
    char text[256];
    failure_text(failed, text, sizeof text);
    assert_string_equal(text, "task 'f': its worker died, because process 7 exited");
    failure_unref(failed);
}

/* Every task of a long chain of tasks adds itself in front: freeing it must not recurse. */
static void a_very_long_chain_is_freed(void **state) { failure_unref(chain_of(300000)); }

static void the_story_is_told(void **state) {
    failure *cause = failure_create(MR_INVALID, "division by zero", "task 'divide'", NULL);
    failure *failed = failure_create(MR_TASK_FAILED, "an argument failed", "", cause);
    failed = failure_create(MR_ACTOR_DIED, "could not start", "actor 'Mean'", failed);
    const char *story =
        "actor 'Mean': could not start, because an argument failed, because task 'divide': division by zero";
    char text[256];
    failure_text(failed, text, sizeof text);
    assert_string_equal(text, story);
    for (size_t size = 1; size < sizeof text; size++) {
        memset(text, '#', sizeof text);
        failure_text(failed, text, size);
        assert_int_equal(strlen(text), size - 1 < strlen(story) ? size - 1 : strlen(story));
        if (size < sizeof text) assert_int_equal(text[size], '#');
    }
    assert_int_equal(failure_raise(failed), MR_ACTOR_DIED);
    assert_string_equal(mr_last_error(), story);
    failure_unref(failed);
}

static void a_copy_without_origin_has_the_rest(void **state) {
    failure *cause = failure_create(MR_INVALID, "division by zero", "task 'divide'", NULL);
    failure *failed = failure_create(MR_TASK_FAILED, "no mean", "method 'mean' of actor 3", cause);
    failure_attach(failed, span_of("pickled", 7));
    failure *copy = failure_without_origin(failed);
    char text[256];
    failure_unref(failed);
    failure_text(copy, text, sizeof text);
    assert_string_equal(text, "no mean, because task 'divide': division by zero");
    assert_int_equal(copy->code, MR_TASK_FAILED);
    assert_memory_equal(failure_detail(copy).data, "pickled", failure_detail(copy).size);
    assert_int_equal(failure_detail(copy).size, 7);
    failure_unref(copy);
}

/* A traceback loses its middle, and not the failures that it caused. */
static void a_long_message_leaves_room_for_the_others(void **state) {
    char traceback[2000] = "KeyError: 'lost'", text[512];
    memset(traceback + strlen(traceback), '-', sizeof traceback - 40);
    strcpy(traceback + sizeof traceback - 30, "the end of the traceback");
    failure *failed = failure_create(MR_TASK_FAILED, traceback, "method 'get_weights' of actor 1", NULL);
    failed = failure_create(MR_TASK_FAILED, "an argument failed", "", failed);
    failed = failure_create(MR_TASK_FAILED, "could not start", "method 'mean' of actor 3", failed);
    failure_text(failed, text, sizeof text);
    assert_ptr_equal(strstr(text, "method 'mean' of actor 3: could not start, because an argument failed, "
                                  "because method 'get_weights' of actor 1: KeyError: 'lost'---"),
                     text);
    assert_non_null(strstr(text, "--- ... ---"));
    assert_non_null(strstr(text, "---the end of the traceback"));
    failure_unref(failed);
}

/* Each task of a nest waits for the next one and fails with its error: the text of each level has the first cause. */
static void the_first_cause_survives_any_depth(void **state) {
    static const char cause[] = "task 'divide' in worker process 4711: division by zero in row 17";
    failure *first =
        failure_create(MR_TASK_FAILED, "division by zero in row 17", "task 'divide' in worker process 4711", NULL);
    assert_int_equal(failure_raise(first), MR_TASK_FAILED);
    failure_unref(first);
    for (int level = 5000; level > 0; level--) {
        char origin[64];
        snprintf(origin, sizeof origin, "task 'nest' in worker process %d", level);
        failure *failed = failure_create(MR_TASK_FAILED, mr_last_error(), origin, NULL);
        assert_int_equal(failure_raise(failed), MR_TASK_FAILED);
        failure_unref(failed);
        assert_string_equal(mr_last_error() + strlen(mr_last_error()) - strlen(cause), cause);
    }
    assert_memory_equal(mr_last_error(), "task 'nest' in worker process 1: task 'nest' in worker process 2: ", 66);
}

static void refuse(const void *bytes, size_t size) {
    uint8_t *exact = xmalloc(size ? size : 1); /* exact size, so that a sanitizer detects a read beyond it */
    if (size > 0) memcpy(exact, bytes, size);
    reader reader = reader_of(exact, size);
    failure *got;
    assert_int_equal(failure_decode(&reader, &got), MR_CORRUPT);
    assert_true(reader.failed);
    free(exact);
}

static void malformed_failures_are_refused(void **state) {
    refuse("", 0);
    refuse("\0", 1);                                       /* no failure */
    refuse("\1\7\0\0\0\0\0\0\0\0\0\0\0", 13);              /* no end */
    refuse("\1\7\0\0\0\0\0\0\0\0\0\0\0\2", 14);            /* neither a failure nor the end */
    refuse("\1\0\0\0\0\0\0\0\0\0\0\0\0\0", 14);            /* MR_OK is no failure */
    refuse("\1\7\0\0\0\xff\xff\xff\xff\0\0\0\0\0", 14);    /* a length beyond the end */
    uint8_t links[(FAILURE_CHAIN_MAX + 1) * 13 + 1] = {0}; /* one link too many */
    for (int i = 0; i <= FAILURE_CHAIN_MAX; i++) links[13 * i] = 1, links[13 * i + 1] = MR_INVALID;
    refuse(links, sizeof links);
    failure *chain = chain_of(3);
    size_t size;
    uint8_t *bytes = encode(chain, &size);
    for (size_t cut = 0; cut < size; cut++) refuse(bytes, cut);
    free(bytes);
    failure_unref(chain);
}

static void mutated_bytes_lead_nowhere(void **state) {
    rng rng;
    rng_init(&rng, 1);
    int accepted = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        failure *chain = chain_of((int)rng_between(&rng, 1, 20));
        size_t size;
        uint8_t *bytes = encode(chain, &size);
        for (uint64_t i = rng_below(&rng, 3); i < 3; i++) bytes[rng_below(&rng, size)] = (uint8_t)rng_next(&rng);
        reader reader = reader_of(bytes, size);
        failure *got;
        if (failure_decode(&reader, &got) == MR_OK) {
            char text[512];
            failure_text(got, text, sizeof text);
            assert_true(length_of(got) <= FAILURE_CHAIN_MAX);
            size_t again;
            uint8_t *written = encode(got, &again);
            assert_true(again <= size);
            free(written);
            failure_unref(got);
            accepted++;
        } else {
            refused++;
        }
        free(bytes);
        failure_unref(chain);
    }
    assert_true(accepted > 0 && refused > 0);
}

static void a_detail_travels_with_its_link(void **state) {
    failure *began = failure_create(MR_TASK_FAILED, "began", "", NULL);
    failure_attach(began, span_of("\0pickle", 7));
    failure *chain = failure_create(MR_TASK_FAILED, "could not start", "", began);
    size_t size;
    uint8_t *bytes = encode(chain, &size);
    failure *got = decode(bytes, size);
    assert_int_equal(failure_detail(got).size, 7);
    assert_memory_equal(failure_detail(got).data, "\0pickle", 7);
    assert_null(got->detail);
    for (size_t cut = 0; cut < size; cut++) {
        reader reader = reader_of(bytes, cut);
        struct failure *none;
        assert_int_equal(failure_decode(&reader, &none), MR_CORRUPT);
    }
    free(bytes);
    failure_unref(chain);
    failure_unref(got);
}

static void a_detail_that_is_too_large_is_left_out(void **state) {
    uint8_t *large = xcalloc(1, FAILURE_DETAIL_MAX + 1);
    failure *failed = failure_create(MR_TASK_FAILED, "began", "", NULL);
    failure_attach(failed, span_of(large, FAILURE_DETAIL_MAX + 1));
    assert_int_equal(failure_detail(failed).size, 0);
    failure_attach(failed, span_of(large, FAILURE_DETAIL_MAX));
    assert_int_equal(failure_detail(failed).size, FAILURE_DETAIL_MAX);
    failure_unref(failed);
    free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_detail_travels_with_its_link),
        cmocka_unit_test(a_detail_that_is_too_large_is_left_out),
        cmocka_unit_test(chains_travel),
        cmocka_unit_test(a_long_chain_loses_its_middle),
        cmocka_unit_test(texts_are_cut),
        cmocka_unit_test(a_cause_is_shared),
        cmocka_unit_test(a_very_long_chain_is_freed),
        cmocka_unit_test(the_same_place_is_named_once),
        cmocka_unit_test(the_story_is_told),
        cmocka_unit_test(a_copy_without_origin_has_the_rest),
        cmocka_unit_test(a_long_message_leaves_room_for_the_others),
        cmocka_unit_test(the_first_cause_survives_any_depth),
        cmocka_unit_test(malformed_failures_are_refused),
        cmocka_unit_test(mutated_bytes_lead_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
