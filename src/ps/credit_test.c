/* credit_test.c — credit taken is limited, and nothing is left when it is returned. */
#include "ps/credit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/replica_log.h"

static void a_rank_has_its_share_or_one_part(void **state) {
    credit credit;
    credit_init(&credit, 2, 100, 0);
    assert_true(credit_admits(&credit, 0, 500)); /* a rank without held bytes may send one message of any size */
    credit_take(&credit, CREDIT_RANK, 0, 60);
    assert_true(credit_admits(&credit, 0, 40) && !credit_admits(&credit, 0, 41) && credit_admits(&credit, 1, 41));
    credit_take(&credit, CREDIT_RANK, 0, 60);
    assert_true(credit_admits(&credit, 0, 0)); /* a message without bytes needs no credit */
    credit_return(&credit, CREDIT_RANK, 0, 120);
    assert_true(credit.held[0] == 0 && credit_grant(&credit) == 100 && credit_room(&credit) == UINT64_MAX);
    credit_fini(&credit);
}

static void links_share_one_room(void **state) {
    credit credit;
    credit_init(&credit, 1, 0, 50);
    assert_int_equal(credit_room(&credit), 50);
    credit_take(&credit, CREDIT_LINK, 0, 45);
    assert_true(credit_follows(&credit, 5) && !credit_follows(&credit, 6) && credit_room(&credit) == 5);
    credit_take(&credit, CREDIT_LINK, 0, 45); /* the only entry of a slot whose entries are all applied */
    assert_true(credit_room(&credit) == 0 && credit_follows(&credit, 0) && credit_grant(&credit) == UINT64_MAX);
    credit_fini(&credit);
    assert_true(credit_admits(NULL, 7, 1) && credit_follows(NULL, 1)); /* no credit: no limit */
}

static void a_log_gives_back_what_it_took(void **state) {
    credit credit;
    credit_init(&credit, 2, 100, 100);
    replica_log log = {.credit = &credit};
    replica_log_entry entry = {
        .kind = REPLICA_LOG_PUSH, .rank = 1, .payload = {(const uint8_t *)"abcd", 4}, .account = CREDIT_RANK};
    for (int i = 0; i < 3; i++) replica_log_add(&log, &entry);
    entry.account = CREDIT_LINK;
    for (int i = 0; i < 3; i++) replica_log_add(&log, &entry);
    assert_true(credit.held[1] == 12 && credit.linked == 12 && replica_log_bytes(&log, 1, 5) == 16);
    replica_log_apply(&log);
    replica_log_apply(&log);
    assert_true(credit.held[1] == 4 && credit.linked == 12);
    replica_log_trim(&log, 2); /* applied entries of this log are on no account */
    assert_true(credit.held[1] == 4 && replica_log_bytes(&log, 0, 6) == 16 && replica_log_bytes(&log, 5, 5) == 0);
    replica_log_reset(&log, 9);
    assert_true(credit.held[1] == 0 && credit.linked == 0 && replica_log_last(&log) == 9);
    replica_log_fini(&log);
    credit_fini(&credit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_has_its_share_or_one_part),
        cmocka_unit_test(links_share_one_room),
        cmocka_unit_test(a_log_gives_back_what_it_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
