/* arrival_test.c — a worker that comes to barriers: which places it names, whom it waits for, when it goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kv/office/arrival.h"
#include "kv/office/desk.h"
#include "tests/support/status.h"

typedef struct desk {
    arrivals *arrivals;
    standing self;
    arrival_word word; /* the last that was said */
    uint32_t said;
    int64_t now_us;
} desk;

static void send_letter(void *context, const char *address, const letter *letter) {
    desk *desk = context;
    assert_string_equal(address, "s");
    assert_int_equal(letter->kind, DESK_COME);
    assert_int_equal(arrival_word_decode(letter->value, &desk->word), MR_OK);
    desk->said++;
}

static void begin(desk *desk) {
    *desk = (struct desk){.self = {.generation = 7, .first = 3, .chart = 10, .ready = 1}, .now_us = 1000};
    arrivals_options options = {.scheduler = "s", .send = send_letter, .context = desk};
    desk->arrivals = arrivals_create(&options, 100);
}

static void come(desk *desk, const char *name, arrivals_where where) {
    assert_int_equal(arrivals_come(desk->arrivals, name, MR_PS_WORKERS, where, desk->now_us), MR_OK);
    if (desk->now_us >= arrivals_next_us(desk->arrivals)) arrivals_tick(desk->arrivals, &desk->self, desk->now_us);
}

static void hear(desk *desk, arrival_verdict verdict, uint64_t chart) {
    uint8_t bytes[ARRIVAL_VERDICT_MAX];
    letter letter = {.kind = DESK_PASS, .stamp = {.view = chart, .id = desk->word.token}};
    letter.value = span_of(bytes, arrival_verdict_encode(&verdict, bytes));
    assert_true(arrivals_take(desk->arrivals, &letter));
}

static mr_status passed(desk *desk, const char *name) { return arrivals_passed(desk->arrivals, name, &desk->self); }

static void places_count_what_was_passed_there(void **state) {
    desk desk;
    begin(&desk);
    const arrivals_where early = {.early = true}, open = {.open = true, .step = 5}, next = {.open = true, .step = 6};
    come(&desk, "b", early);
    assert_true(desk.word.early && desk.word.place == 1 && desk.word.generation == 7 && desk.word.first == 3);
    hear(&desk, (arrival_verdict){.status = MR_OK}, 10);
    assert_int_equal(passed(&desk, "b"), MR_OK);
    come(&desk, "b", early);
    assert_int_equal(desk.word.place, 2);
    hear(&desk, (arrival_verdict){.status = MR_OK}, 10);
    assert_int_equal(passed(&desk, "b"), MR_OK);
    come(&desk, "b", open);
    assert_true(!desk.word.early && desk.word.place == barriers_place(5, true, 1));
    hear(&desk, (arrival_verdict){.status = MR_OK}, 10);
    assert_int_equal(passed(&desk, "b"), MR_OK);
    come(&desk, "b", open);
    assert_int_equal(desk.word.place, barriers_place(5, true, 2));
    hear(&desk, (arrival_verdict){.status = MR_OK}, 10);
    assert_int_equal(passed(&desk, "b"), MR_OK);
    come(&desk, "b", next);
    assert_int_equal(desk.word.place, barriers_place(6, true, 1));
    arrivals_destroy(desk.arrivals);
}

static void who_waits_says_for_whom(void **state) {
    desk desk;
    begin(&desk);
    const arrivals_where open = {.open = true, .step = 5};
    come(&desk, "b", open);
    assert_int_equal(passed(&desk, "b"), MR_BUSY);
    assert_non_null(strstr(mr_last_error(), "the scheduler has not answered"));
    hear(&desk,
         (arrival_verdict){.status = MR_BUSY, .role = MR_PS_WORKERS, .missing = 9, .named = 2, .numbers = {4, 6}}, 10);
    assert_int_equal(passed(&desk, "b"), MR_BUSY);
    assert_non_null(strstr(mr_last_error(), "barrier 'b': ranks 4, 6 and more have not arrived"));
    uint32_t said = desk.said;
    come(&desk, "b", open); /* after a time-out: it goes on waiting */
    assert_int_equal(desk.said, said);
    desk.now_us += ARRIVAL_AGAIN_US;
    arrivals_tick(desk.arrivals, &desk.self, desk.now_us);
    assert_int_equal(desk.said, said + 1);
    hear(&desk, (arrival_verdict){.status = MR_OK}, 11);
    assert_int_equal(passed(&desk, "b"), MR_BUSY); /* what the others knew is not known here */
    desk.self.chart = 11;
    assert_int_equal(passed(&desk, "b"), MR_OK);
    assert_int_equal(passed(&desk, "b"), MR_STALE); /* it waits at none */
    arrivals_destroy(desk.arrivals);
}

static void a_generation_that_is_over_is_said(void **state) {
    desk desk;
    begin(&desk);
    const arrivals_where early = {.early = true}, open = {.open = true, .step = 5};
    come(&desk, "early", early);
    come(&desk, "b", open);
    arrivals_restart(desk.arrivals);
    assert_int_equal(passed(&desk, "b"), MR_STALE);
    assert_said("barrier 'b': all replicas of a slot were lost");
    assert_int_equal(passed(&desk, "early"), MR_BUSY); /* that one is not in any step */
    desk.self.ready = 0;
    desk.self.generation = 8;
    uint32_t said = desk.said;
    come(&desk, "b", open);
    assert_int_equal(desk.said, said); /* it does not know yet where it goes on */
    desk.self.ready = 1;
    arrivals_tick(desk.arrivals, &desk.self, desk.now_us);
    assert_true(desk.said > said && desk.word.generation == 8);
    arrivals_destroy(desk.arrivals);
}

static void bytes_that_are_cut_are_refused(void **state) {
    uint8_t bytes[ARRIVAL_WORD_MAX];
    arrival_word word = {.token = 1, .group = MR_PS_WORKERS, .place = 1, .name = "name"}, read;
    size_t size = arrival_word_encode(&word, bytes);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(arrival_word_decode(span_of(bytes, cut), &read), MR_CORRUPT);
    arrival_verdict verdict = {.status = MR_BUSY, .role = MR_PS_SERVERS, .missing = 1, .named = 1}, heard;
    size = arrival_verdict_encode(&verdict, bytes);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(arrival_verdict_decode(span_of(bytes, cut), &heard), MR_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_count_what_was_passed_there),
        cmocka_unit_test(who_waits_says_for_whom),
        cmocka_unit_test(a_generation_that_is_over_is_said),
        cmocka_unit_test(bytes_that_are_cut_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
