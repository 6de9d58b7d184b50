/* ticket_test.c — a ticket ends with its last part, gives its result once, and calls back once. */
#include "kv/client/ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"

/* Status of an ended ticket; MR_BUSY: not ended. */
static mr_status outcome(tickets *tickets, uint64_t number) {
    mr_status status = MR_BUSY;
    MR_TRY(tickets_ask(tickets, number, &status));
    return status;
}

static ticket *opened(tickets *tickets, bool kept) {
    ticket *ticket;
    assert_int_equal(tickets_open(tickets, kept, &ticket), MR_OK);
    return ticket;
}

static void a_request_is_over_when_all_its_parts_are(void **state) {
    tickets tickets;
    tickets_init(&tickets);
    ticket *ticket = opened(&tickets, true);
    uint64_t number = tickets_number(ticket);
    tickets_part(ticket);
    tickets_part(ticket);
    ticket->memory = xmalloc(10);
    tickets_end(&tickets, ticket, MR_OK); /* the creator's part */
    assert_int_equal(outcome(&tickets, number), MR_BUSY);
    tickets_end(&tickets, ticket, MR_STALE);
    assert_int_equal(outcome(&tickets, number), MR_BUSY);
    assert_int_equal(tickets.open, 1);
    tickets_end(&tickets, ticket, MR_OK);
    assert_int_equal(tickets.open, 0);
    assert_int_equal(outcome(&tickets, number), MR_STALE); /* status of the first part that failed */
    assert_int_equal(outcome(&tickets, number), MR_NOT_FOUND);
    tickets_fini(&tickets);
}

static void a_number_is_not_anothers(void **state) {
    tickets tickets;
    tickets_init(&tickets);
    ticket *first = opened(&tickets, true);
    uint64_t number = tickets_number(first);
    tickets_end(&tickets, first, MR_OK);
    assert_int_equal(outcome(&tickets, number), MR_OK);
    ticket *second = opened(&tickets, true);
    assert_ptr_equal(first, second); /* the same place */
    assert_int_equal(outcome(&tickets, number), MR_NOT_FOUND);
    assert_null(tickets_find(&tickets, number));
    assert_int_equal(outcome(&tickets, 0), MR_NOT_FOUND);
    assert_int_equal(outcome(&tickets, UINT64_MAX), MR_NOT_FOUND);
    tickets_end(&tickets, second, MR_OK);
    tickets_fini(&tickets);
}

static void note(void *context, mr_status status) { *(mr_status *)context = status; }

static void a_callback_is_called_at_the_end(void **state) {
    tickets tickets;
    mr_status heard[2] = {MR_BUSY, MR_BUSY}, status;
    ticket_done_fn *done;
    void *context;
    tickets_init(&tickets);
    ticket *kept = opened(&tickets, true), *loose = opened(&tickets, false);
    uint64_t number = tickets_number(kept);
    kept->done = loose->done = note;
    kept->context = &heard[0];
    loose->context = &heard[1];
    assert_false(tickets_tell(&tickets, &done, &context, &status));
    tickets_end(&tickets, loose, MR_STALE);
    tickets_end(&tickets, kept, MR_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(tickets_tell(&tickets, &done, &context, &status));
        done(context, status);
        assert_int_equal(heard[1], MR_STALE); /* the ticket that ended first */
    }
    assert_int_equal(heard[0], MR_OK);
    assert_false(tickets_tell(&tickets, &done, &context, &status));
    assert_int_equal(outcome(&tickets, number), MR_OK);
    assert_int_equal(tickets.taken, 0);
    tickets_fini(&tickets);
}

static void one_that_is_asked_after_before_it_is_told_is_told_all_the_same(void **state) {
    tickets tickets;
    mr_status heard = MR_BUSY, status;
    ticket_done_fn *done;
    void *context;
    tickets_init(&tickets);
    ticket *ticket = opened(&tickets, true);
    ticket->done = note;
    ticket->context = &heard;
    tickets_end(&tickets, ticket, MR_OK);
    assert_int_equal(outcome(&tickets, tickets_number(ticket)), MR_OK);
    assert_int_equal(tickets.taken, 1);
    assert_true(tickets_tell(&tickets, &done, &context, &status));
    assert_int_equal(tickets.taken, 0);
    tickets_fini(&tickets);
}

static void an_abandoned_ticket_is_freed(void **state) {
    tickets tickets;
    tickets_init(&tickets);
    ticket *early = opened(&tickets, true), *late = opened(&tickets, true);
    uint64_t numbers[] = {tickets_number(early), tickets_number(late)};
    tickets_end(&tickets, early, MR_OK);
    for (int i = 0; i < 2; i++) tickets_abandon(&tickets, numbers[i]);
    assert_int_equal(tickets.taken, 1); /* one had ended */
    for (int i = 0; i < 2; i++) assert_int_equal(outcome(&tickets, numbers[i]), MR_NOT_FOUND);
    tickets_end(&tickets, late, MR_OK);
    assert_int_equal(tickets.taken, 0);
    tickets_abandon(&tickets, numbers[0]); /* no such ticket */
    tickets_fini(&tickets);
}

/* The request goes on without its callback. */
static void a_callback_can_be_called_before_the_end(void **state) {
    tickets tickets;
    mr_status heard = MR_BUSY, status;
    ticket_done_fn *done;
    void *context;
    uint32_t place = 0;
    tickets_init(&tickets);
    ticket *quiet = opened(&tickets, true), *called = opened(&tickets, true);
    uint64_t number = tickets_number(called);
    called->done = note;
    called->context = &heard;
    assert_ptr_equal(tickets_next_called(&tickets, &place), called);
    assert_null(tickets_next_called(&tickets, &place));
    assert_int_equal(tickets_tell_early(&tickets, called, MR_PEER_DIED), MR_OK);
    place = 0;
    assert_null(tickets_next_called(&tickets, &place)); /* once */
    assert_true(tickets_tell(&tickets, &done, &context, &status));
    done(context, status);
    assert_int_equal(heard, MR_PEER_DIED);
    assert_int_equal(outcome(&tickets, number), MR_BUSY);
    tickets_end(&tickets, called, MR_OK);
    assert_false(tickets_tell(&tickets, &done, &context, &status));
    assert_int_equal(outcome(&tickets, number), MR_OK);
    tickets_end(&tickets, quiet, MR_OK);
    assert_int_equal(outcome(&tickets, tickets_number(quiet)), MR_OK);
    assert_int_equal(tickets.taken, 0);
    tickets_fini(&tickets);
}

static void there_is_a_bound(void **state) {
    tickets tickets;
    ticket *ticket;
    tickets_init(&tickets);
    for (int i = 0; i < TICKETS_MAX; i++) tickets_end(&tickets, opened(&tickets, true), MR_OK);
    assert_int_equal(tickets_open(&tickets, true, &ticket), MR_BUSY);
    assert_int_equal(outcome(&tickets, tickets_number(&tickets.chunks[7][5])), MR_OK);
    assert_int_equal(tickets_open(&tickets, false, &ticket), MR_OK);
    tickets_end(&tickets, ticket, MR_OK);
    tickets_fini(&tickets);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_over_when_all_its_parts_are),
        cmocka_unit_test(a_number_is_not_anothers),
        cmocka_unit_test(a_callback_is_called_at_the_end),
        cmocka_unit_test(one_that_is_asked_after_before_it_is_told_is_told_all_the_same),
        cmocka_unit_test(an_abandoned_ticket_is_freed),
        cmocka_unit_test(a_callback_can_be_called_before_the_end),
        cmocka_unit_test(there_is_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
