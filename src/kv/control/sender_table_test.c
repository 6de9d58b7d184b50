/* sender_table_test.c — one process speaks for a sender; another one is refused. */
#include "kv/control/sender_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "ps/slot_message.h"

static void one_process_speaks_for_a_sender(void **state) {
    sender_table table = {0};
    for (int repeat = 0; repeat < 2; repeat++) {
        assert_int_equal(sender_table_admit(&table, SLOT_MESSAGE_RANK | 3, 7, 100), SENDER_ADMITTED);
        assert_int_equal(sender_table_admit(&table, SLOT_MESSAGE_RANK | 3, 7, 200), SENDER_REFUSED);
        assert_int_equal(sender_table_admit(&table, SLOT_MESSAGE_RANK | 3, 8, 200),
                         SENDER_ADMITTED); /* the rank of another term */
        assert_int_equal(sender_table_admit(&table, SLOT_MESSAGE_WORKER | 3, 7, 100),
                         SENDER_ADMITTED); /* a process has several roles */
        assert_int_equal(sender_table_admit(&table, 3, 7, 300), SENDER_ADMITTED);
        assert_int_equal(sender_table_admit(&table, 3, 7, 100), SENDER_REFUSED);
    }
    assert_int_equal(sender_table_admit(&table, 5, 0, 100),
                     SENDER_ADMITTED); /* no incarnation yet: nothing to speak for */
    assert_int_equal(sender_table_admit(&table, 5, 0, 200), SENDER_ADMITTED);
    sender_table_fini(&table);
}

static void roles_have_numbers(void **state) {
    sender_table table = {0};
    assert_int_equal(sender_table_judge_role(&table, MR_PS_SCHEDULER, 0, 7, 100), SENDER_SCHEDULER);
    assert_int_equal(sender_table_judge_role(&table, MR_PS_WORKERS, 1, 7, 100), SENDER_ADMITTED);
    assert_int_equal(sender_table_judge_role(&table, MR_PS_SERVERS, 1, 7, 200), SENDER_ADMITTED);
    assert_int_equal(sender_table_judge_role(&table, MR_PS_WORKERS, 1, 7, 200), SENDER_REFUSED);
    assert_int_equal(sender_table_admit(&table, 1, 7, 100), SENDER_REFUSED); /* the same server as in packets */
    assert_int_equal(sender_table_judge_role(&table, MR_PS_WORKERS, SLOT_MESSAGE_RANK, 7, 100), SENDER_REFUSED);
    assert_int_equal(sender_table_judge_role(&table, MR_PS_ALL, 1, 7, 100), SENDER_REFUSED);
    sender_table_fini(&table);
}

static void the_number_of_senders_is_bounded(void **state) {
    sender_table table = {0};
    for (uint64_t i = 1; i <= 3 * SENDER_TABLE_MAX; i++) {
        assert_int_equal(sender_table_admit(&table, 1, i, 100), SENDER_ADMITTED);
        assert_int_equal(sender_table_admit(&table, 1, i, 200), SENDER_REFUSED);
        assert_true(table.senders.count <= SENDER_TABLE_MAX);
    }
    sender_table_fini(&table);
    assert_int_equal(table.senders.count, 0);
}

typedef struct voucher {
    uint64_t process; /* of server 3; 0: not known yet */
} voucher;

static sender_verdict vouch(void *context, uint32_t who, uint64_t incarnation, uint64_t process) {
    const voucher *voucher = context;
    if (who != 3) return SENDER_ADMITTED;
    return voucher->process == 0 ? SENDER_UNSURE : voucher->process == process ? SENDER_ADMITTED : SENDER_REFUSED;
}

/* A process that speaks first for a server is not taken for it. */
static void a_host_may_know_the_process(void **state) {
    voucher voucher = {0};
    sender_table table = {.vouch = vouch, .context = &voucher};
    assert_int_equal(sender_table_admit(&table, 3, 7, 200), SENDER_UNSURE);
    assert_int_equal(sender_table_judge_role(&table, MR_PS_SERVERS, 3, 7, 200), SENDER_ADMITTED);
    voucher.process = 100;
    assert_int_equal(sender_table_admit(&table, 3, 7, 200), SENDER_REFUSED);
    assert_int_equal(sender_table_admit(&table, 3, 7, 100), SENDER_ADMITTED);
    assert_int_equal(sender_table_judge_role(&table, MR_PS_SERVERS, 3, 7, 200), SENDER_REFUSED);
    voucher.process = 200; /* what was learned stays */
    assert_int_equal(sender_table_admit(&table, 3, 7, 100), SENDER_ADMITTED);
    assert_int_equal(sender_table_admit(&table, 4, 7, 200), SENDER_ADMITTED);
    sender_table_fini(&table);
}

static span packet_of(uint8_t bytes[SLOT_MESSAGE_HEAD_MAX], uint32_t who, uint64_t incarnation) {
    slot_message_head head = {.generation = 1, .number = 2, .incarnation = incarnation, .who = who, .address = "a"};
    return span_of(bytes, slot_message_write_head(&head, bytes));
}

static void only_the_scheduler_speaks_for_the_controller(void **state) {
    static const uint32_t roles[] = {SLOT_MESSAGE_CONTROLLER, SLOT_MESSAGE_CHECKPOINTS, SLOT_MESSAGE_CONTROLLER | 1,
                                     SLOT_MESSAGE_CHECKPOINTS | SLOT_MESSAGE_RANK, UINT32_MAX};
    sender_table table = {.seed = 5};
    uint8_t bytes[SLOT_MESSAGE_HEAD_MAX];
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        assert_int_equal(sender_table_judge(&table, packet_of(bytes, roles[i], 7), 100), SENDER_SCHEDULER);
    assert_int_equal(sender_table_judge(&table, packet_of(bytes, SLOT_MESSAGE_RANK | 3, 7), 100), SENDER_ADMITTED);
    assert_int_equal(sender_table_judge(&table, packet_of(bytes, SLOT_MESSAGE_RANK | 3, 7), 200), SENDER_REFUSED);
    assert_int_equal(sender_table_judge(&table, span_of("PST1", 4), 100), SENDER_REFUSED); /* malformed */
    sender_table_fini(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_speaks_for_a_sender),
        cmocka_unit_test(only_the_scheduler_speaks_for_the_controller),
        cmocka_unit_test(roles_have_numbers),
        cmocka_unit_test(a_host_may_know_the_process),
        cmocka_unit_test(the_number_of_senders_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
