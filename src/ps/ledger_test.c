/* ledger_test.c — ranks of a round, order by order. */
#include "ps/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

static void apply(ledger *ledger, tape_kind kind, uint32_t rank, uint64_t name) {
    ledger_apply(ledger, &(tape_entry){.kind = (uint8_t)kind, .rank = rank, .name = name});
}

static crowd ranks(uint64_t bits) { return (crowd){{bits}}; }

static void end_round(ledger *ledger, uint64_t set) {
    ledger_terms terms = {.members = ranks(set)};
    uint8_t bytes[LEDGER_TERMS_MAX];
    size_t size = ledger_write_terms(&terms, ledger->rank_count, bytes);
    ledger_apply(ledger, &(tape_entry){TAPE_ROUND, 0, ledger->round + 1, span_of(bytes, size), NULL});
}

static uint64_t needs(const ledger *ledger) {
    crowd set;
    return ledger_needs(ledger, &set) ? set.words[0] : UINT64_MAX;
}

static void joining_and_leaving_hold_from_the_next_round(void **state) {
    ledger ledger;
    ledger_begin(&ledger, 4, 2, 0, false);
    apply(&ledger, TAPE_JOIN, 3, 1);
    apply(&ledger, TAPE_LEAVE, 0, 1);
    assert_int_equal(needs(&ledger), 3);
    end_round(&ledger, 3);
    assert_true(ledger.round == 1 && needs(&ledger) == 0xa);
    apply(&ledger, TAPE_LEAVE, 1, 1);
    apply(&ledger, TAPE_LEAVE, 3, 1); /* the last one stays */
    end_round(&ledger, 0xa);
    assert_int_equal(needs(&ledger), 8);
}

static void a_rank_that_is_given_up_is_void_or_repeated(void **state) {
    ledger ledger;
    ledger_terms told;
    ledger_begin(&ledger, 3, 3, 0, false);
    apply(&ledger, TAPE_DROP, 1, 1);
    assert_int_equal(ledger_undecided(&ledger), 1);
    assert_true(needs(&ledger) == UINT64_MAX && !ledger_decided(&ledger, &told));
    apply(&ledger, TAPE_VOID, 1, 9); /* of another round */
    apply(&ledger, TAPE_VOID, 0, 0); /* nobody gave it up */
    assert_int_equal(ledger_undecided(&ledger), 1);
    apply(&ledger, TAPE_VOID, 1, 0);
    apply(&ledger, TAPE_REDO, 1, 0); /* it is decided */
    assert_true(needs(&ledger) == 5 && ledger_decided(&ledger, &told) && told.members.words[0] == 5);
    apply(&ledger, TAPE_DROP, 2, 1); /* slots may have closed with it: it must be played */
    assert_true(needs(&ledger) == 5 && crowd_has(&ledger.redo, 2));
    end_round(&ledger, 5);
    assert_true(ledger_decided_before(&ledger, &told) && told.members.words[0] == 5 && told.round == 0);
    assert_int_equal(needs(&ledger), 1);
    apply(&ledger, TAPE_DROP, 0, 1); /* the last one */
    assert_int_equal(needs(&ledger), 1);
    end_round(&ledger, 1);
    assert_false(ledger_decided_before(&ledger, &told));
}

static void a_round_that_was_closing_with_a_rank_counts_it(void **state) {
    ledger ledger;
    ledger_terms told;
    ledger_begin(&ledger, 2, 2, 0, false);
    apply(&ledger, TAPE_DROP, 1, 1); /* slots may be asked to freeze it now … */
    end_round(&ledger, 3);           /* … and this was in the log */
    assert_true(ledger_decided_before(&ledger, &told) && told.members.words[0] == 3);
}

static void backup_workers_and_deadlines(void **state) {
    ledger ledger;
    crowd set, none = ranks(0), two = ranks(6), one = ranks(4);
    ledger_begin(&ledger, 3, 3, 1, true);
    assert_true(needs(&ledger) == UINT64_MAX && !ledger_enough(&ledger, &one, false, &set));
    assert_true(ledger_enough(&ledger, &one, true, &set) && crowd_same(&set, &one));
    assert_false(ledger_enough(&ledger, &none, true, &set));
    assert_true(ledger_enough(&ledger, &two, false, &set) && crowd_same(&set, &two));
    apply(&ledger, TAPE_DROP, 1, 1); /* nobody has been told a set: it is void at once */
    assert_true(!ledger_enough(&ledger, &two, false, &set) && crowd_same(&set, &one));
    apply(&ledger, TAPE_DROP, 0, 1);
    assert_true(ledger_enough(&ledger, &two, false, &set) && crowd_same(&set, &one));
    apply(&ledger, TAPE_JOIN, 1, 2);
    apply(&ledger, TAPE_DROP, 2, 1); /* the last that the round waits for: all slots are asked */
    assert_true(ledger_undecided(&ledger) == 2 && !ledger_enough(&ledger, &none, false, &set));
    apply(&ledger, TAPE_VOID, 2, 0);
    assert_true(ledger_enough(&ledger, &none, false, &set) && crowd_count(&set) == 0);
}

static void a_mark_is_for_the_next_round(void **state) {
    ledger ledger;
    ledger_begin(&ledger, 1, 1, 0, false);
    apply(&ledger, TAPE_MARK, 0, 0);
    assert_false(ledger_terms_of(&ledger).cuts);
    end_round(&ledger, 1);
    assert_true(ledger_terms_of(&ledger).cuts);
    end_round(&ledger, 1);
    assert_false(ledger_terms_of(&ledger).cuts);
}

static void ledgers_come_back_as_they_went(void **state) {
    ledger_pages *pages = ledger_ops.create(NULL, 0, true), *other = ledger_ops.create(NULL, 0, true);
    ledger *ledger = &pages->now, again;
    ledger_begin(ledger, 11, 10, 2, true);
    ledger_begin(&other->now, 11, 11, 0, false);
    apply(ledger, TAPE_DROP, 9, 1);
    apply(ledger, TAPE_JOIN, 10, 1);
    apply(ledger, TAPE_MARK, 0, 0);
    size_t size = ledger_ops.size(pages);
    uint8_t *bytes = xmalloc(size);
    ledger_ops.write(pages, bytes);
    assert_true(ledger_read(span_of(bytes, size), 11, &again));
    assert_memory_equal(&again, ledger, sizeof again);
    for (size_t cut = 0; cut < size; cut++) assert_false(ledger_read(span_of(bytes, cut), 11, &again));
    assert_false(ledger_read(span_of(bytes, size), 12, &again));
    assert_true(ledger_ops.read(other, span_of(bytes, size))); /* of the first round: nothing is kept */
    assert_memory_equal(other, pages, sizeof *pages);
    bytes[size - 1] = 0x80; /* a rank that the table does not have */
    assert_false(ledger_read(span_of(bytes, size), 11, &again));
    assert_false(ledger_ops.read(other, span_of(bytes, size)));
    free(bytes);
    ledger_ops.destroy(pages);
    ledger_ops.destroy(other);
}

/* The round that it is in, as somebody is shown it. */
static int shown_round(ledger_pages *pages, bool kept) {
    bale *bale = ledger_ops.show(pages, (span){0}, kept);
    ledger ledger;
    bool good = ledger_read(bale_bytes(bale), 3, &ledger);
    bale_unref(bale);
    return good ? (int)ledger.round : -1;
}

static void the_round_before_is_kept_and_goes_along(void **state) {
    ledger_pages *pages = ledger_ops.create(NULL, 0, true), *other = ledger_ops.create(NULL, 0, true);
    uint8_t terms[LEDGER_TERMS_MAX], bytes[512];
    ledger_terms set = {.members = ranks(7)};
    span all = span_of(terms, ledger_write_terms(&set, 3, terms));
    ledger_begin(&pages->now, 3, 3, 0, false);
    ledger_begin(&other->now, 3, 3, 0, false);
    assert_true(shown_round(pages, false) == 0 && shown_round(pages, true) == -1);
    for (uint64_t round = 1; round <= 2; round++)
        ledger_turn(pages, &(tape_entry){TAPE_ROUND, 0, round, all, NULL, CREDIT_NONE, 0});
    assert_true(shown_round(pages, false) == 2 && shown_round(pages, true) == 1);
    assert_true(ledger_ops.size(pages) == 2 * ledger_size(3) && ledger_ops.size(pages) <= sizeof bytes);
    ledger_ops.write(pages, bytes);
    assert_true(ledger_ops.read(other, span_of(bytes, ledger_ops.size(pages))));
    assert_true(shown_round(other, false) == 2 && shown_round(other, true) == 1);
    assert_false(ledger_ops.read(other, span_of(bytes, ledger_ops.size(pages) - 1)));
    ledger resumed;
    ledger_begin(&resumed, 3, 3, 0, false);
    assert_true(ledger_resume(&resumed, span_of(bytes, ledger_ops.size(pages)), 3) && resumed.round == 2);
    ledger_ops.destroy(pages);
    ledger_ops.destroy(other);
}

static void a_checkpoint_is_resumed_by_as_many_ranks_or_by_others(void **state) {
    ledger ledger, same, more;
    ledger_begin(&ledger, 4, 4, 2, true);
    apply(&ledger, TAPE_LEAVE, 1, 1);
    end_round(&ledger, 15);
    size_t size = ledger_size(4);
    uint8_t *bytes = xmalloc(size);
    ledger_write(&ledger, bytes);
    ledger_begin(&same, 4, 4, 0, false);
    assert_true(ledger_resume(&same, span_of(bytes, size), 4));
    assert_true(same.round == 1 && needs(&same) == 0xd && !same.waits && same.backup == 0);
    ledger_begin(&more, 6, 5, 0, false);
    assert_false(ledger_resume(&more, span_of(bytes, size), 6));
    assert_true(ledger_resume(&more, span_of(bytes, size), 4));
    assert_true(more.round == 1 && needs(&more) == 0x1f && more.rank_count == 6);
    free(bytes);
}

static void norms_of_a_round_are_kept_with_it(void **state) {
    ledger_pages *pages = ledger_ops.create(NULL, 0, true), *other = ledger_ops.create(NULL, 0, true);
    uint8_t terms[LEDGER_TERMS_MAX], bytes[512];
    ledger_terms set = {.members = ranks(7)};
    span all = span_of(terms, ledger_write_terms(&set, 3, terms));
    ledger_begin(&pages->now, 3, 3, 0, false);
    ledger_begin(&other->now, 3, 3, 0, false);
    ledger_turn(pages, &(tape_entry){TAPE_ROUND, 0, 1, all, NULL, CREDIT_NONE, 0});
    ledger_terms before = ledger_terms_before(&pages->now);
    assert_true(before.round == 0 && crowd_same(&before.members, &set.members));
    tape_entry first = {TAPE_NORMS, 0, 0, span_of("ab", 2), NULL, CREDIT_NONE, 0},
               second = {TAPE_NORMS, 1, 0, span_of("c", 1), NULL, CREDIT_NONE, 0};
    ledger_measure(pages, &second); /* not without the first */
    assert_int_equal(ledger_phases(pages, 0), 0);
    ledger_measure(pages, &first);
    ledger_measure(pages, &first); /* it is there */
    ledger_measure(pages, &second);
    assert_true(ledger_phases(pages, 0) == 2 && ledger_phases(pages, 1) == 0);
    size_t size = ledger_ops.size(pages);
    assert_true(size <= sizeof bytes);
    ledger_ops.write(pages, bytes);
    for (size_t cut = 2 * ledger_size(3) + 1; cut < size; cut++)
        assert_false(ledger_ops.read(other, span_of(bytes, cut)));
    assert_true(ledger_ops.read(other, span_of(bytes, size)) && ledger_phases(other, 0) == 2);
    span norms = bale_bytes(other->norms.bale);
    assert_true(norms.size == 3 && memcmp(norms.data, "abc", 3) == 0);
    bytes[2 * ledger_size(3) + 8] = 77; /* phases */
    assert_false(ledger_ops.read(other, span_of(bytes, size)));
    ledger_turn(pages, &(tape_entry){TAPE_ROUND, 0, 2, all, NULL, CREDIT_NONE, 0});
    first.name = 1;
    ledger_measure(pages, &first); /* those of the round before are not needed any more */
    assert_true(ledger_phases(pages, 1) == 1 && ledger_phases(pages, 0) == 0);
    ledger_ops.destroy(pages);
    ledger_ops.destroy(other);
}

static void the_entry_of_a_round_has_terms_sum_and_norms(void **state) {
    uint8_t bytes[64] = {0};
    ledger_round round;
    ledger_terms terms = {.cuts = true, .members = ranks(5)};
    size_t head = ledger_round_head(11);
    assert_int_equal(head, 8);
    assert_int_equal(ledger_round_head(57), 16);
    ledger_write_round(&terms, 11, bytes);
    memcpy(bytes + head, "sum", 3);
    assert_true(ledger_read_round(span_of(bytes, head + 3), 11, &round));
    assert_true(round.terms.cuts && !round.terms.normed && round.sum.size == 3 && round.norms.size == 0);
    assert_true(crowd_same(&round.terms.members, &terms.members));
    for (size_t cut = 0; cut < head; cut++) assert_false(ledger_read_round(span_of(bytes, cut), 11, &round));
    terms.normed = true;
    ledger_write_round(&terms, 11, bytes);
    memcpy(bytes + head + 3, "norms\5\0\0\0", 9);
    assert_true(ledger_read_round(span_of(bytes, head + 12), 11, &round));
    assert_true(round.sum.size == 3 && round.norms.size == 5 && memcmp(round.norms.data, "norms", 5) == 0);
    assert_true(ledger_read_round(span_of("\4\0\0\0\0\0\0\0\0\0\0\0", 12), 11, &round) && round.sum.size == 0);
    assert_false(ledger_read_round(span_of(bytes, head + 3), 11, &round)); /* no room for their size */
    bytes[head + 8] = 9;
    assert_false(ledger_read_round(span_of(bytes, head + 12), 11, &round)); /* more than there are */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_of_a_round_are_kept_with_it),
        cmocka_unit_test(the_entry_of_a_round_has_terms_sum_and_norms),
        cmocka_unit_test(a_checkpoint_is_resumed_by_as_many_ranks_or_by_others),
        cmocka_unit_test(joining_and_leaving_hold_from_the_next_round),
        cmocka_unit_test(a_rank_that_is_given_up_is_void_or_repeated),
        cmocka_unit_test(a_round_that_was_closing_with_a_rank_counts_it),
        cmocka_unit_test(backup_workers_and_deadlines),
        cmocka_unit_test(a_mark_is_for_the_next_round),
        cmocka_unit_test(ledgers_come_back_as_they_went),
        cmocka_unit_test(the_round_before_is_kept_and_goes_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
