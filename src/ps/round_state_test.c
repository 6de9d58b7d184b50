/* round_state_test.c — ranks of a round, order by order. */
#include "ps/round_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

static void apply(round_state *state, replica_log_kind kind, uint32_t rank, uint64_t name) {
    round_state_apply(state, &(replica_log_entry){.kind = (uint8_t)kind, .rank = rank, .name = name});
}

static rank_set ranks(uint64_t bits) { return (rank_set){{bits}}; }

static void end_round(round_state *state, uint64_t set) {
    round_state_terms terms = {.members = ranks(set)};
    uint8_t bytes[ROUND_STATE_TERMS_MAX];
    size_t size = round_state_write_terms(&terms, state->rank_count, bytes);
    round_state_apply(state, &(replica_log_entry){REPLICA_LOG_ROUND, 0, state->round + 1, span_of(bytes, size), NULL});
}

static uint64_t needs(const round_state *state) {
    rank_set set;
    return round_state_needs(state, &set) ? set.words[0] : UINT64_MAX;
}

static void joining_and_leaving_hold_from_the_next_round(void **state) {
    round_state round_state;
    round_state_begin(&round_state, 4, 2, 0, false);
    apply(&round_state, REPLICA_LOG_JOIN, 3, 1);
    apply(&round_state, REPLICA_LOG_LEAVE, 0, 1);
    assert_int_equal(needs(&round_state), 3);
    end_round(&round_state, 3);
    assert_true(round_state.round == 1 && needs(&round_state) == 0xa);
    apply(&round_state, REPLICA_LOG_LEAVE, 1, 1);
    apply(&round_state, REPLICA_LOG_LEAVE, 3, 1); /* the last member stays */
    end_round(&round_state, 0xa);
    assert_int_equal(needs(&round_state), 8);
}

static void a_rank_that_is_given_up_is_void_or_repeated(void **state) {
    round_state round_state;
    round_state_terms told;
    round_state_begin(&round_state, 3, 3, 0, false);
    apply(&round_state, REPLICA_LOG_DROP, 1, 1);
    assert_int_equal(round_state_undecided(&round_state), 1);
    assert_true(needs(&round_state) == UINT64_MAX && !round_state_decided(&round_state, &told));
    apply(&round_state, REPLICA_LOG_VOID, 1, 9); /* a decision of another round */
    apply(&round_state, REPLICA_LOG_VOID, 0, 0); /* rank 0 is not being dropped */
    assert_int_equal(round_state_undecided(&round_state), 1);
    apply(&round_state, REPLICA_LOG_VOID, 1, 0);
    apply(&round_state, REPLICA_LOG_REDO, 1, 0); /* already decided as VOID */
    assert_true(needs(&round_state) == 5 && round_state_decided(&round_state, &told) && told.members.words[0] == 5);
    apply(&round_state, REPLICA_LOG_DROP, 2, 1); /* slots may have closed with rank 2: it must be repeated */
    assert_true(needs(&round_state) == 5 && rank_set_has(&round_state.redo, 2));
    end_round(&round_state, 5);
    assert_true(round_state_decided_before(&round_state, &told) && told.members.words[0] == 5 && told.round == 0);
    assert_int_equal(needs(&round_state), 1);
    apply(&round_state, REPLICA_LOG_DROP, 0, 1); /* the last member */
    assert_int_equal(needs(&round_state), 1);
    end_round(&round_state, 1);
    assert_false(round_state_decided_before(&round_state, &told));
}

static void a_round_that_was_closing_with_a_rank_counts_it(void **state) {
    round_state round_state;
    round_state_terms told;
    round_state_begin(&round_state, 2, 2, 0, false);
    apply(&round_state, REPLICA_LOG_DROP, 1, 1); /* slots may be asked to freeze rank 1 now, */
    end_round(&round_state, 3);                  /* while this entry was already in the log */
    assert_true(round_state_decided_before(&round_state, &told) && told.members.words[0] == 3);
}

static void backup_workers_and_deadlines(void **state) {
    round_state round_state;
    rank_set set, none = ranks(0), two = ranks(6), one = ranks(4);
    round_state_begin(&round_state, 3, 3, 1, true);
    assert_true(needs(&round_state) == UINT64_MAX && !round_state_enough(&round_state, &one, false, &set));
    assert_true(round_state_enough(&round_state, &one, true, &set) && rank_set_same(&set, &one));
    assert_false(round_state_enough(&round_state, &none, true, &set));
    assert_true(round_state_enough(&round_state, &two, false, &set) && rank_set_same(&set, &two));
    apply(&round_state, REPLICA_LOG_DROP, 1, 1); /* no set was sent to slots: the rank is void at once */
    assert_true(!round_state_enough(&round_state, &two, false, &set) && rank_set_same(&set, &one));
    apply(&round_state, REPLICA_LOG_DROP, 0, 1);
    assert_true(round_state_enough(&round_state, &two, false, &set) && rank_set_same(&set, &one));
    apply(&round_state, REPLICA_LOG_JOIN, 1, 2);
    apply(&round_state, REPLICA_LOG_DROP, 2, 1); /* the last rank that the round waits for: all slots are asked */
    assert_true(round_state_undecided(&round_state) == 2 && !round_state_enough(&round_state, &none, false, &set));
    apply(&round_state, REPLICA_LOG_VOID, 2, 0);
    assert_true(round_state_enough(&round_state, &none, false, &set) && rank_set_count(&set) == 0);
}

static void a_mark_is_for_the_next_round(void **state) {
    round_state round_state;
    round_state_begin(&round_state, 1, 1, 0, false);
    apply(&round_state, REPLICA_LOG_MARK, 0, 0);
    assert_false(round_state_terms_of(&round_state).cuts);
    end_round(&round_state, 1);
    assert_true(round_state_terms_of(&round_state).cuts);
    end_round(&round_state, 1);
    assert_false(round_state_terms_of(&round_state).cuts);
}

static void round_states_come_back_as_they_went(void **state) {
    round_state_pages *pages = round_state_ops.create(NULL, 0, true), *other = round_state_ops.create(NULL, 0, true);
    round_state *round_state = &pages->now, again;
    round_state_begin(round_state, 11, 10, 2, true);
    round_state_begin(&other->now, 11, 11, 0, false);
    apply(round_state, REPLICA_LOG_DROP, 9, 1);
    apply(round_state, REPLICA_LOG_JOIN, 10, 1);
    apply(round_state, REPLICA_LOG_MARK, 0, 0);
    size_t size = round_state_ops.size(pages);
    uint8_t *bytes = xmalloc(size);
    round_state_ops.write(pages, bytes);
    assert_true(round_state_read(span_of(bytes, size), 11, &again));
    assert_memory_equal(&again, round_state, sizeof again);
    for (size_t cut = 0; cut < size; cut++) assert_false(round_state_read(span_of(bytes, cut), 11, &again));
    assert_false(round_state_read(span_of(bytes, size), 12, &again));
    assert_true(round_state_ops.read(other, span_of(bytes, size))); /* the first round: there is no page before */
    assert_memory_equal(other, pages, sizeof *pages);
    bytes[size - 1] = 0x80; /* a rank that the table does not have */
    assert_false(round_state_read(span_of(bytes, size), 11, &again));
    assert_false(round_state_ops.read(other, span_of(bytes, size)));
    free(bytes);
    round_state_ops.destroy(pages);
    round_state_ops.destroy(other);
}

/* The round in the answer to a pull. */
static int shown_round(round_state_pages *pages, bool kept) {
    shared_bytes *bytes = round_state_ops.show(pages, (span){0}, kept);
    round_state state;
    bool good = round_state_read(shared_bytes_bytes(bytes), 3, &state);
    shared_bytes_unref(bytes);
    return good ? (int)state.round : -1;
}

static void the_round_before_is_kept_and_goes_along(void **state) {
    round_state_pages *pages = round_state_ops.create(NULL, 0, true), *other = round_state_ops.create(NULL, 0, true);
    uint8_t terms[ROUND_STATE_TERMS_MAX], bytes[512];
    round_state_terms set = {.members = ranks(7)};
    span all = span_of(terms, round_state_write_terms(&set, 3, terms));
    round_state_begin(&pages->now, 3, 3, 0, false);
    round_state_begin(&other->now, 3, 3, 0, false);
    assert_true(shown_round(pages, false) == 0 && shown_round(pages, true) == -1);
    for (uint64_t round = 1; round <= 2; round++)
        round_state_turn(pages, &(replica_log_entry){REPLICA_LOG_ROUND, 0, round, all, NULL, CREDIT_NONE, 0});
    assert_true(shown_round(pages, false) == 2 && shown_round(pages, true) == 1);
    assert_true(round_state_ops.size(pages) == 2 * round_state_size(3) && round_state_ops.size(pages) <= sizeof bytes);
    round_state_ops.write(pages, bytes);
    assert_true(round_state_ops.read(other, span_of(bytes, round_state_ops.size(pages))));
    assert_true(shown_round(other, false) == 2 && shown_round(other, true) == 1);
    assert_false(round_state_ops.read(other, span_of(bytes, round_state_ops.size(pages) - 1)));
    round_state resumed;
    round_state_begin(&resumed, 3, 3, 0, false);
    assert_true(round_state_resume(&resumed, span_of(bytes, round_state_ops.size(pages)), 3) && resumed.round == 2);
    round_state_ops.destroy(pages);
    round_state_ops.destroy(other);
}

static void a_checkpoint_is_resumed_by_as_many_ranks_or_by_others(void **state) {
    round_state round_state, same, more;
    round_state_begin(&round_state, 4, 4, 2, true);
    apply(&round_state, REPLICA_LOG_LEAVE, 1, 1);
    end_round(&round_state, 15);
    size_t size = round_state_size(4);
    uint8_t *bytes = xmalloc(size);
    round_state_write(&round_state, bytes);
    round_state_begin(&same, 4, 4, 0, false);
    assert_true(round_state_resume(&same, span_of(bytes, size), 4));
    assert_true(same.round == 1 && needs(&same) == 0xd && !same.waits && same.backup == 0);
    round_state_begin(&more, 6, 5, 0, false);
    assert_false(round_state_resume(&more, span_of(bytes, size), 6));
    assert_true(round_state_resume(&more, span_of(bytes, size), 4));
    assert_true(more.round == 1 && needs(&more) == 0x1f && more.rank_count == 6);
    free(bytes);
}

static void norms_of_a_round_are_kept_with_it(void **state) {
    round_state_pages *pages = round_state_ops.create(NULL, 0, true), *other = round_state_ops.create(NULL, 0, true);
    uint8_t terms[ROUND_STATE_TERMS_MAX], bytes[512];
    round_state_terms set = {.members = ranks(7)};
    span all = span_of(terms, round_state_write_terms(&set, 3, terms));
    round_state_begin(&pages->now, 3, 3, 0, false);
    round_state_begin(&other->now, 3, 3, 0, false);
    round_state_turn(pages, &(replica_log_entry){REPLICA_LOG_ROUND, 0, 1, all, NULL, CREDIT_NONE, 0});
    round_state_terms before = round_state_terms_before(&pages->now);
    assert_true(before.round == 0 && rank_set_same(&before.members, &set.members));
    replica_log_entry first = {REPLICA_LOG_NORMS, 0, 0, span_of("ab", 2), NULL, CREDIT_NONE, 0},
                      second = {REPLICA_LOG_NORMS, 1, 0, span_of("c", 1), NULL, CREDIT_NONE, 0};
    round_state_measure(pages, &second); /* phase 1 without phase 0 */
    assert_int_equal(round_state_phases(pages, 0), 0);
    round_state_measure(pages, &first);
    round_state_measure(pages, &first); /* a repetition */
    round_state_measure(pages, &second);
    assert_true(round_state_phases(pages, 0) == 2 && round_state_phases(pages, 1) == 0);
    size_t size = round_state_ops.size(pages);
    assert_true(size <= sizeof bytes);
    round_state_ops.write(pages, bytes);
    for (size_t cut = 2 * round_state_size(3) + 1; cut < size; cut++)
        assert_false(round_state_ops.read(other, span_of(bytes, cut)));
    assert_true(round_state_ops.read(other, span_of(bytes, size)) && round_state_phases(other, 0) == 2);
    span norms = shared_bytes_bytes(other->norms.bytes);
    assert_true(norms.size == 3 && memcmp(norms.data, "abc", 3) == 0);
    bytes[2 * round_state_size(3) + 8] = 77; /* the number of phases */
    assert_false(round_state_ops.read(other, span_of(bytes, size)));
    round_state_turn(pages, &(replica_log_entry){REPLICA_LOG_ROUND, 0, 2, all, NULL, CREDIT_NONE, 0});
    first.name = 1;
    round_state_measure(pages, &first); /* norms of an earlier round are dropped */
    assert_true(round_state_phases(pages, 1) == 1 && round_state_phases(pages, 0) == 0);
    round_state_ops.destroy(pages);
    round_state_ops.destroy(other);
}

static void the_entry_of_a_round_has_terms_sum_and_norms(void **state) {
    uint8_t bytes[64] = {0};
    round_state_round round;
    round_state_terms terms = {.cuts = true, .members = ranks(5)};
    size_t head = round_state_round_head(11);
    assert_int_equal(head, 8);
    assert_int_equal(round_state_round_head(57), 16);
    round_state_write_round(&terms, 11, bytes);
    memcpy(bytes + head, "sum", 3);
    assert_true(round_state_read_round(span_of(bytes, head + 3), 11, &round));
    assert_true(round.terms.cuts && !round.terms.normed && round.sum.size == 3 && round.norms.size == 0);
    assert_true(rank_set_same(&round.terms.members, &terms.members));
    for (size_t cut = 0; cut < head; cut++) assert_false(round_state_read_round(span_of(bytes, cut), 11, &round));
    terms.normed = true;
    round_state_write_round(&terms, 11, bytes);
    memcpy(bytes + head + 3, "norms\5\0\0\0", 9);
    assert_true(round_state_read_round(span_of(bytes, head + 12), 11, &round));
    assert_true(round.sum.size == 3 && round.norms.size == 5 && memcmp(round.norms.data, "norms", 5) == 0);
    assert_true(round_state_read_round(span_of("\4\0\0\0\0\0\0\0\0\0\0\0", 12), 11, &round) && round.sum.size == 0);
    /* too short for the size of the norms */
    assert_false(round_state_read_round(span_of(bytes, head + 3), 11, &round));
    bytes[head + 8] = 9;
    assert_false(round_state_read_round(span_of(bytes, head + 12), 11, &round)); /* the norms' size exceeds the entry */
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
        cmocka_unit_test(round_states_come_back_as_they_went),
        cmocka_unit_test(the_round_before_is_kept_and_goes_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
