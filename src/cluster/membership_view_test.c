/* membership_view_test.c — members in order, the leader, and malformed bytes. */
#include "cluster/membership_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static membership_view example(void) {
    membership_view view = {.number = 7};
    assert_int_equal(membership_view_put(&view, 30, 5, "tcp:10.0.0.3:1"), MR_OK);
    assert_int_equal(membership_view_put(&view, 10, 9, "tcp:10.0.0.1:1"), MR_OK);
    assert_int_equal(membership_view_put(&view, 20, 4, "tcp:10.0.0.2:1"), MR_OK);
    return view;
}

static void members_are_found_and_in_order(void **state) {
    membership_view view = example();
    assert_int_equal(view.count, 3);
    for (size_t i = 0; i < 3; i++) assert_int_equal(view.members[i].id, 10 * (i + 1));
    assert_string_equal(membership_view_find(&view, 20)->address, "tcp:10.0.0.2:1");
    assert_null(membership_view_find(&view, 15));
    assert_true(membership_view_holds(&view, 30, 5));
    assert_false(membership_view_holds(&view, 30, 6));
    assert_false(membership_view_holds(&view, 31, 5));
    membership_view_remove(&view, 20);
    membership_view_remove(&view, 15);
    assert_int_equal(view.count, 2);
    assert_null(membership_view_find(&view, 20));
    assert_non_null(membership_view_find(&view, 30));
    membership_view_fini(&view);
}

static void the_oldest_member_leads(void **state) {
    membership_view view = example();
    assert_int_equal(membership_view_leader(&view)->id, 20);
    assert_int_equal(membership_view_put(&view, 20, 12, "tcp:10.0.0.2:2"), MR_OK); /* a new incarnation */
    assert_int_equal(view.count, 3);
    assert_int_equal(membership_view_leader(&view)->id, 30);
    membership_view_fini(&view);
    assert_null(membership_view_leader(&view));
}

static void copies_are_equal_until_something_differs(void **state) {
    membership_view a = example(), b = {0};
    membership_view_copy(&b, &a);
    assert_true(membership_view_equal(&a, &b));
    b.number++;
    assert_false(membership_view_equal(&a, &b));
    b.number--;
    assert_int_equal(membership_view_put(&b, 20, 4, "tcp:10.0.0.2:9"), MR_OK);
    assert_false(membership_view_equal(&a, &b));
    membership_view_copy(&b, &a);
    membership_view_remove(&b, 30);
    assert_false(membership_view_equal(&a, &b));
    membership_view_fini(&a);
    membership_view_fini(&b);
}

static void a_view_has_bounds(void **state) {
    membership_view view = {0};
    for (uint64_t i = 0; i < MEMBERSHIP_VIEW_MEMBERS_MAX; i++)
        assert_int_equal(membership_view_put(&view, i, i + 1, "a"), MR_OK);
    assert_int_equal(membership_view_put(&view, 5000, 5000, "a"), MR_TOO_LARGE);
    assert_int_equal(membership_view_put(&view, 5, 5000, "a"), MR_OK); /* replaces a member of a full view */
    assert_int_equal(view.count, MEMBERSHIP_VIEW_MEMBERS_MAX);
    static const char *const bad[] = {"", "with space", "new\nline", "\x80",
                                      "1234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(membership_view_put(&view, 6, 6, bad[i]), MR_INVALID);
        assert_false(membership_view_address_valid(bad[i]));
    }
    assert_true(membership_view_address_valid("123456789012345678901234567890123456789012345678901234567890123"));
    assert_true(membership_view_size(&view) <= MEMBERSHIP_VIEW_BYTES_MAX);
    membership_view_fini(&view);
}

static size_t encode(const membership_view *view, uint8_t *bytes, size_t room) {
    writer writer = writer_of(bytes, room);
    membership_view_encode(view, &writer);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), membership_view_size(view));
    return writer_size(&writer);
}

static void another_format_is_rejected_with_both_numbers(void **state) {
    uint8_t bytes[400];
    membership_view view = example(), again = {0};
    size_t size = encode(&view, bytes, sizeof bytes);
    bytes[0] = 9;
    assert_int_equal(membership_view_decode(span_of(bytes, size), &again), MR_CORRUPT);
    assert_string_equal(mr_last_error(),
                        "the view has format 9; this version reads format 1: use the same Miniray release "
                        "on both sides");
    membership_view_fini(&view);
}

static void bytes_come_back_as_they_were(void **state) {
    uint8_t bytes[400];
    membership_view view = example(), again = {0};
    size_t size = encode(&view, bytes, sizeof bytes);
    assert_int_equal(membership_view_decode(span_of(bytes, size), &again), MR_OK);
    assert_true(membership_view_equal(&view, &again));
    assert_int_equal(membership_view_decode(span_of(bytes, size), &again), MR_OK); /* replaces existing content */
    membership_view_fini(&view);
    view.number = 1; /* an empty view */
    size = encode(&view, bytes, sizeof bytes);
    assert_int_equal(membership_view_decode(span_of(bytes, size), &again), MR_OK);
    assert_int_equal(again.count, 0);
    membership_view_fini(&again);
}

static void assert_refused(const uint8_t *bytes, size_t size) {
    membership_view out = {.number = 99};
    assert_int_equal(membership_view_decode(span_of(bytes, size), &out), MR_CORRUPT);
    assert_int_equal(out.number, 99); /* unchanged */
    assert_null(out.members);
}

/* Offsets of the first member's fields (membership_view.h). */
enum { AT_NUMBER = 1, AT_COUNT = 9, AT_ID = 13, AT_INCARNATION = 21, AT_LENGTH = 29, AT_ADDRESS = 30 };

static void other_bytes_are_refused(void **state) {
    uint8_t bytes[400], broken[400];
    membership_view view = example();
    size_t size = encode(&view, bytes, sizeof bytes);
    for (size_t cut = 0; cut < size; cut++) assert_refused(bytes, cut);
    bytes[size] = 0;
    assert_refused(bytes, size + 1);
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{0, 2},          {AT_NUMBER, 0},  {AT_COUNT, 4},       {AT_COUNT, 2},       {AT_COUNT + 3, 0xff},
                   {AT_ID, 20},     {AT_ID, 25},     {AT_INCARNATION, 0}, {AT_INCARNATION, 4}, {AT_LENGTH, 0},
                   {AT_LENGTH, 64}, {AT_LENGTH, 13}, {AT_ADDRESS, ' '},   {AT_ADDRESS + 1, 0}, {AT_ADDRESS, 0xc3}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(broken, bytes, size);
        broken[changes[i].at] = changes[i].value;
        assert_refused(broken, size);
    }
    membership_view_fini(&view);
}

static void random_changes_do_no_harm(void **state) {
    uint8_t bytes[400], broken[400];
    membership_view view = example(), out = {0};
    size_t size = encode(&view, bytes, sizeof bytes);
    rng rng;
    rng_init(&rng, 1);
    for (int round = 0; round < 20000; round++) {
        memcpy(broken, bytes, size);
        for (uint64_t i = rng_below(&rng, 4) + 1; i > 0; i--)
            broken[rng_below(&rng, size)] ^= (uint8_t)(1u << rng_below(&rng, 8));
        if (membership_view_decode(span_of(broken, size), &out) != MR_OK) continue;
        uint8_t again[400]; /* accepted bytes are encoded back to the same bytes */
        assert_int_equal(encode(&out, again, sizeof again), size);
        assert_memory_equal(again, broken, size);
    }
    membership_view_fini(&view);
    membership_view_fini(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found_and_in_order),
        cmocka_unit_test(the_oldest_member_leads),
        cmocka_unit_test(copies_are_equal_until_something_differs),
        cmocka_unit_test(a_view_has_bounds),
        cmocka_unit_test(bytes_come_back_as_they_were),
        cmocka_unit_test(another_format_is_rejected_with_both_numbers),
        cmocka_unit_test(other_bytes_are_refused),
        cmocka_unit_test(random_changes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
