/* slot_queue_test.c — pushes gather into batches and pulls into queries, are sent in order, and end once. */
#include "kv/client/slot_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ps/consistency.h"

typedef struct scene {
    slot_queue queue;
    tickets tickets;
} scene;

/* Status of an ended ticket; MR_BUSY: not ended. */
static mr_status outcome(tickets *tickets, uint64_t number) {
    mr_status status = MR_BUSY;
    MR_TRY(tickets_ask(tickets, number, &status));
    return status;
}

static void begin(scene *scene, bool holds) {
    slot_queue_init(&scene->queue, 3, holds);
    tickets_init(&scene->tickets);
}

static void finish(scene *scene) {
    slot_queue_fail(&scene->queue, &scene->tickets, MR_CLOSED);
    slot_queue_fini(&scene->queue);
    tickets_fini(&scene->tickets);
}

/* Pushes `keys` keys with one float each; returns the number of the ticket. */
static uint64_t push(scene *scene, uint64_t name, uint32_t keys) {
    ticket *ticket;
    payload_room room;
    payload_head head = {.table = 1, .op = PAYLOAD_ADD_ROWS, .dtype = MR_F32, .count = keys};
    push_batch *batch =
        slot_queue_gather(&scene->queue, payload_section_size(PAYLOAD_ADD_ROWS, keys, keys * sizeof(float)));
    assert_int_equal(tickets_open(&scene->tickets, true, &ticket), MR_OK);
    assert_int_equal(payload_add(&batch->payload, head, keys * sizeof(float), &room), MR_OK);
    for (uint32_t i = 0; i < keys; i++) room.keys[i] = i;
    memset(room.values, 0, keys * sizeof(float));
    slot_queue_part(&scene->queue, batch, name, ticket);
    tickets_end(&scene->tickets, ticket, MR_OK);
    return tickets_number(ticket);
}

static uint64_t pull(scene *scene, uint64_t step, uint64_t behind, float *to, const uint32_t *place) {
    ticket *ticket;
    payload_room room;
    query_batch *batch = slot_queue_ask(&scene->queue, step, behind, sizeof *to);
    assert_int_equal(tickets_open(&scene->tickets, true, &ticket), MR_OK);
    assert_int_equal(
        payload_add(&batch->payload, (payload_head){.table = 1, .op = PAYLOAD_GET_ROWS, .count = 1}, 0, &room), MR_OK);
    room.keys[0] = 7;
    slot_queue_expect(batch, &(scatter){.ticket = ticket,
                                        .kind = SCATTER_ROWS,
                                        .count = 1,
                                        .places = place,
                                        .to = (uint8_t *)to,
                                        .bytes = sizeof *to,
                                        .wire = MR_F32,
                                        .dtype = MR_F32});
    tickets_end(&scene->tickets, ticket, MR_OK);
    return tickets_number(ticket);
}

static uint64_t send(scene *scene) { /* returns the seq of the sent batch; 0: nothing can be sent */
    push_batch *batch = slot_queue_next(&scene->queue);
    if (batch == NULL) return 0;
    uint64_t name = batch->name;
    slot_queue_sent(&scene->queue, batch);
    return name;
}

static void unsent_requests_stay_queued(void **state) {
    scene scene;
    begin(&scene, false);
    assert_false(slot_queue_owes(&scene.queue, seq_tick(1)));
    push(&scene, seq_of(1, 1), 1);
    assert_true(slot_queue_owes(&scene.queue, seq_tick(1)));
    assert_false(slot_queue_owes(&scene.queue, seq_tick(0)));
    slot_queue_close(&scene.queue, seq_tick(1));
    push(&scene, seq_of(2, 1), 1);
    assert_int_equal(send(&scene), seq_tick(1));
    assert_false(slot_queue_owes(&scene.queue, seq_tick(1)));
    assert_true(slot_queue_owes(&scene.queue, seq_tick(2)));
    finish(&scene);
}

static void requests_queued_during_a_send_leave_together(void **state) {
    scene scene;
    begin(&scene, false);
    uint64_t first = push(&scene, 1, 1);
    assert_int_equal(send(&scene), 1);
    uint64_t second = push(&scene, 2, 1), third = push(&scene, 3, 1);
    assert_int_equal(send(&scene), 0);
    assert_false(slot_queue_acknowledge(&scene.queue, &scene.tickets, 2, true));
    assert_true(slot_queue_acknowledge(&scene.queue, &scene.tickets, 1, true));
    assert_int_equal(scene.queue.known, 1);
    assert_int_equal(outcome(&scene.tickets, first), MR_OK);
    assert_int_equal(send(&scene), 3); /* both, with the seq of the last one */
    assert_int_equal(outcome(&scene.tickets, second), MR_BUSY);
    assert_true(slot_queue_acknowledge(&scene.queue, &scene.tickets, 3, true));
    assert_int_equal(outcome(&scene.tickets, second), MR_OK);
    assert_int_equal(outcome(&scene.tickets, third), MR_OK);
    assert_int_equal(slot_queue_count(&scene.queue), 0);
    finish(&scene);
}

/* A small request reuses the memory of the previous one, unless a sender still holds it. */
static void a_finished_request_leaves_its_memory_to_the_next(void **state) {
    scene scene;
    uint32_t place = 0;
    float to;
    begin(&scene, false);
    (void)push(&scene, 1, 1);
    (void)pull(&scene, 0, 1, &to, &place);
    const push_batch *sent = slot_queue_next(&scene.queue);
    const shared_bytes *bytes = sent->payload.bytes;
    assert_int_equal(send(&scene), 1);
    query_batch *asked = slot_queue_next_query(&scene.queue);
    const struct shared_bytes *asking = asked->payload.bytes;
    slot_queue_asked(&scene.queue, asked);
    assert_true(slot_queue_acknowledge(&scene.queue, &scene.tickets, 1, true));
    assert_true(slot_queue_answer(&scene.queue, &scene.tickets, 0, (span){0}));
    (void)push(&scene, 2, 1);
    (void)pull(&scene, 0, 2, &to, &place);
    assert_ptr_equal(slot_queue_next(&scene.queue), sent);
    assert_ptr_equal(sent->payload.bytes, bytes);
    assert_int_equal(sent->ticket_count, 1);
    struct shared_bytes *held = shared_bytes_ref(sent->payload.bytes);
    assert_int_equal(send(&scene), 2);
    assert_ptr_equal(slot_queue_next_query(&scene.queue), asked);
    assert_ptr_equal(asked->payload.bytes, asking);
    assert_int_equal(asked->part_count, 1);
    assert_int_equal(asked->behind, 2);
    assert_true(slot_queue_acknowledge(&scene.queue, &scene.tickets, 2, true));
    (void)push(&scene, 3, 1);
    assert_ptr_not_equal(slot_queue_next(&scene.queue)->payload.bytes, held);
    shared_bytes_unref(held);
    finish(&scene);
}

static void a_batch_that_is_full_does_not_wait(void **state) {
    scene scene;
    begin(&scene, false);
    (void)push(&scene, 1, 1);
    assert_int_equal(send(&scene), 1);
    (void)push(&scene, 2, SLOT_QUEUE_BATCH / 32);
    (void)push(&scene, 3, SLOT_QUEUE_BATCH / 32);
    (void)push(&scene, 4, SLOT_QUEUE_BATCH / 32);
    assert_int_equal(send(&scene), 3);
    assert_int_equal(send(&scene), 0);
    finish(&scene);
}

static void in_rounds_all_of_a_step_is_one(void **state) {
    scene scene;
    begin(&scene, true);
    uint64_t first = push(&scene, 5, SLOT_QUEUE_BATCH / 8);
    (void)push(&scene, 5, SLOT_QUEUE_BATCH / 8);
    assert_int_equal(send(&scene), 0);
    slot_queue_close(&scene.queue, 5);
    assert_int_equal(send(&scene), 5);
    slot_queue_close(&scene.queue, 6); /* an empty batch */
    assert_int_equal(send(&scene), 6);
    assert_true(slot_queue_acknowledge(&scene.queue, &scene.tickets, 5, false));
    assert_int_equal(scene.queue.known, 0); /* the round did not count it */
    assert_int_equal(outcome(&scene.tickets, first), MR_STALE);
    finish(&scene);
}

static shared_bytes *answer_of(const float *values, uint32_t count) {
    payload_writer writer = {0};
    for (uint32_t i = 0; i < count; i++) {
        payload_room room;
        payload_head head = {.table = 1, .op = PAYLOAD_ROWS, .dtype = MR_F32, .count = 1};
        assert_int_equal(payload_add(&writer, head, sizeof *values, &room), MR_OK);
        memcpy(room.values, &values[i], sizeof *values);
    }
    return payload_take(&writer);
}

static void pulls_are_asked_together_and_answered_each(void **state) {
    static const uint32_t places[] = {0, 2, 1};
    scene scene;
    float to[3] = {0};
    uint64_t numbers[3];
    begin(&scene, false);
    numbers[0] = pull(&scene, 4, 0, to, &places[0]);
    query_batch *first = slot_queue_next_query(&scene.queue);
    assert_non_null(first);
    slot_queue_asked(&scene.queue, first);
    numbers[1] = pull(&scene, 4, 0, to, &places[1]);
    numbers[2] = pull(&scene, 4, 0, to, &places[2]);
    assert_null(slot_queue_next_query(&scene.queue)); /* one query at a time */
    shared_bytes *answer = answer_of((const float[]){1}, 1);
    assert_true(slot_queue_answer(&scene.queue, &scene.tickets, 0, shared_bytes_bytes(answer)));
    shared_bytes_unref(answer);
    query_batch *second = slot_queue_next_query(&scene.queue);
    assert_int_equal(second->part_count, 2);
    slot_queue_asked(&scene.queue, second);
    answer = answer_of((const float[]){2, 3}, 2);
    assert_true(slot_queue_answer(&scene.queue, &scene.tickets, 0, shared_bytes_bytes(answer)));
    assert_false(slot_queue_answer(&scene.queue, &scene.tickets, 0, shared_bytes_bytes(answer)));
    shared_bytes_unref(answer);
    for (int i = 0; i < 3; i++) assert_int_equal(outcome(&scene.tickets, numbers[i]), MR_OK);
    assert_memory_equal(to, ((const float[]){1, 3, 2}), sizeof to);
    finish(&scene);
}

static void an_answer_that_is_none_is_an_error(void **state) {
    static const uint32_t place = 0;
    scene scene;
    float to = 5;
    begin(&scene, false);
    uint64_t first = pull(&scene, 4, 0, &to, &place), second = pull(&scene, 4, 0, &to, &place);
    slot_queue_asked(&scene.queue, slot_queue_next_query(&scene.queue));
    shared_bytes *answer = answer_of((const float[]){1}, 1); /* one answer for two questions */
    assert_true(slot_queue_answer(&scene.queue, &scene.tickets, 0, shared_bytes_bytes(answer)));
    shared_bytes_unref(answer);
    assert_int_equal(outcome(&scene.tickets, first), MR_OK);
    assert_int_equal(outcome(&scene.tickets, second), MR_CORRUPT);
    finish(&scene);
}

static void a_pull_is_asked_behind_the_pushes_before_it(void **state) {
    static const uint32_t place = 0;
    scene scene;
    float to;
    begin(&scene, false);
    (void)push(&scene, 1, 1);
    (void)pull(&scene, 4, scene.queue.last, &to, &place);
    assert_null(slot_queue_next_query(&scene.queue));
    assert_int_equal(send(&scene), 1);
    assert_non_null(slot_queue_next_query(&scene.queue)); /* the push need not be acknowledged */
    (void)push(&scene, 2, 1);
    assert_non_null(slot_queue_next_query(&scene.queue)); /* the query does not wait for later pushes */
    (void)pull(&scene, 5, 0, &to, &place);
    assert_int_equal(slot_queue_count(&scene.queue), 4); /* another step: a query of its own */
    finish(&scene);
}

static void in_rounds_a_pull_waits_until_the_pushes_before_it_are_there(void **state) {
    static const uint32_t place = 0;
    scene scene;
    float to;
    begin(&scene, true);
    (void)push(&scene, 5, 1);
    (void)pull(&scene, 5, scene.queue.last, &to, &place);
    slot_queue_close(&scene.queue, 5);
    assert_int_equal(send(&scene), 5);
    assert_null(slot_queue_next_query(&scene.queue));
    assert_true(slot_queue_acknowledge(&scene.queue, &scene.tickets, 5, true));
    assert_non_null(slot_queue_next_query(&scene.queue));
    finish(&scene);
}

static const shm_import *see_nothing(void *context, uint64_t process) { return NULL; }

/* A server answers with the place of a block that cannot be read any more. */
static void a_block_that_cannot_be_looked_at_is_asked_for_again(void **state) {
    const remote_values_map_view map_view = {see_nothing, NULL};
    scene scene;
    ticket *ticket;
    float to[4] = {0};
    begin(&scene, false);
    assert_int_equal(tickets_open(&scene.tickets, true, &ticket), MR_OK);
    scatter part = {.ticket = ticket,
                    .kind = SCATTER_BLOCK,
                    .count = 4,
                    .to = (uint8_t *)to,
                    .bytes = sizeof to,
                    .wire = MR_F32,
                    .dtype = MR_F32,
                    .table = 1,
                    .place = {0, 2, 8, 4},
                    .map_view = &map_view};
    assert_int_equal(slot_queue_ask_block(slot_queue_ask(&scene.queue, 4, 0, sizeof to), &part), MR_OK);
    tickets_end(&scene.tickets, ticket, MR_OK);
    for (int tries = 0; tries <= SLOT_QUEUE_LOOKS; tries++) {
        bool looks = tries < SLOT_QUEUE_LOOKS;
        payload_section asked;
        query_batch *batch = slot_queue_next_query(&scene.queue);
        assert_non_null(batch);
        assert_int_equal(batch->step, 4);
        payload_reader reader = payload_open(payload_written(&batch->payload));
        assert_true(payload_next(&reader, &asked));
        assert_int_equal(asked.flags, looks ? PAYLOAD_AFAR : 0); /* at last the values are sent */
        assert_int_equal(asked.place.first, 4);
        assert_int_equal(asked.dtype, MR_F32);
        slot_queue_asked(&scene.queue, batch);
        payload_writer writer = {0};
        payload_room room;
        payload_afar afar = {.process = 1, .word = 1, .offset = SHM_EXPORT_FRONT};
        payload_head head = {.table = 1, .op = PAYLOAD_BLOCK, .dtype = MR_F32, .count = 4};
        head.flags = looks ? PAYLOAD_AFAR : 0;
        assert_int_equal(payload_add(&writer, head, looks ? sizeof afar : sizeof to, &room), MR_OK);
        memcpy(room.values, looks ? (const void *)&afar : (const void *)(const float[]){1, 2, 3, 4},
               looks ? sizeof afar : sizeof to);
        shared_bytes *answer = payload_take(&writer);
        assert_true(slot_queue_answer(&scene.queue, &scene.tickets, 0, shared_bytes_bytes(answer)));
        shared_bytes_unref(answer);
        assert_int_equal(outcome(&scene.tickets, tickets_number(ticket)), looks ? MR_BUSY : MR_OK);
    }
    assert_memory_equal(to, ((const float[]){1, 2, 3, 4}), sizeof to);
    assert_int_equal(slot_queue_count(&scene.queue), 0);
    finish(&scene);
}

static void count_moves(void *context, const shared_bytes *bytes, span from, span to) { ++*(unsigned *)context; }

static uint64_t push_borrowed(scene *scene, uint64_t name, span values, unsigned *moves) {
    ticket *ticket;
    payload_room room;
    payload_head head = {.table = 1, .op = PAYLOAD_ADD_BLOCK, .dtype = MR_F32, .count = (uint32_t)values.size / 4};
    push_batch *batch = slot_queue_gather(&scene->queue, values.size);
    assert_int_equal(tickets_open(&scene->tickets, true, &ticket), MR_OK);
    assert_int_equal(payload_add_front(&batch->payload, head, values.size, &room), MR_OK);
    slot_queue_lend(batch, zero_copy_make(values, count_moves, moves));
    slot_queue_part(&scene->queue, batch, name, ticket);
    tickets_end(&scene->tickets, ticket, MR_OK);
    return tickets_number(ticket);
}

/* Borrowed values end their batch. They are copied if a sender holds them when their ticket ends or their caller
 * abandons them. */
static void borrowed_values_are_released(void **state) {
    const float values[4] = {1, 2, 3, 4};
    const span borrowed = span_of(values, sizeof values);
    unsigned moves[3] = {0};
    uint64_t numbers[3];
    scene scene;
    begin(&scene, false);
    for (unsigned i = 0; i < 3; i++) numbers[i] = push_borrowed(&scene, i + 1, borrowed, &moves[i]);
    shared_bytes *held = shared_bytes_ref(&slot_queue_next(&scene.queue)->zero_copy->shared);
    for (uint64_t name = 1; name <= 3; name++) assert_int_equal(send(&scene), name);
    assert_true(slot_queue_abandon(&scene.queue, tickets_find(&scene.tickets, numbers[2])));
    assert_true(moves[0] == 0 && moves[1] == 0 && moves[2] == 1);
    for (uint64_t name = 1; name <= 3; name++)
        assert_true(slot_queue_acknowledge(&scene.queue, &scene.tickets, name, true));
    assert_true(moves[0] == 1 && moves[1] == 0 && moves[2] == 1);
    for (int i = 0; i < 3; i++) assert_int_equal(outcome(&scene.tickets, numbers[i]), MR_OK);
    shared_bytes_unref(held);
    (void)push_borrowed(&scene, 4, borrowed, &moves[0]); /* fails with the whole queue */
    finish(&scene);
}

/* Abandons one asked query's pull and one of a query not asked; other pulls of the same queries are answered. */
static void pulls_that_are_given_up_are_answered_nowhere(void **state) {
    static const uint32_t place = 0;
    scene scene;
    float to[4] = {9, 9, 9, 9};
    uint64_t numbers[4];
    begin(&scene, false);
    for (int i = 0; i < 4; i++) {
        numbers[i] = pull(&scene, 4, 0, &to[i], &place);
        if (i == 1) slot_queue_asked(&scene.queue, slot_queue_next_query(&scene.queue));
    }
    assert_true(slot_queue_abandon(&scene.queue, tickets_find(&scene.tickets, numbers[0])));
    assert_true(slot_queue_abandon(&scene.queue, tickets_find(&scene.tickets, numbers[2])));
    shared_bytes *answer = answer_of((const float[]){1, 2}, 2);
    assert_true(slot_queue_answer(&scene.queue, &scene.tickets, 0, shared_bytes_bytes(answer)));
    slot_queue_asked(&scene.queue, slot_queue_next_query(&scene.queue));
    assert_true(slot_queue_answer(&scene.queue, &scene.tickets, 0, shared_bytes_bytes(answer)));
    shared_bytes_unref(answer);
    for (int i = 0; i < 4; i++) assert_int_equal(outcome(&scene.tickets, numbers[i]), MR_OK);
    assert_memory_equal(to, ((const float[]){9, 2, 9, 2}), sizeof to);
    finish(&scene);
}

static void whatever_is_under_way_fails_together(void **state) {
    static const uint32_t place = 0;
    scene scene;
    float to;
    uint64_t numbers[4];
    begin(&scene, false);
    numbers[0] = push(&scene, 1, 1);
    (void)send(&scene);
    numbers[1] = push(&scene, 2, 1);
    numbers[2] = pull(&scene, 4, 0, &to, &place);
    slot_queue_asked(&scene.queue, slot_queue_next_query(&scene.queue));
    numbers[3] = pull(&scene, 4, 0, &to, &place);
    slot_queue_fail(&scene.queue, &scene.tickets, MR_STALE);
    for (int i = 0; i < 4; i++) assert_int_equal(outcome(&scene.tickets, numbers[i]), MR_STALE);
    assert_int_equal(slot_queue_count(&scene.queue), 0);
    finish(&scene);
}

/* ---- Pulls of readers. */

static uint64_t read_row(scene *scene, reader_pull *pull, float *to, const uint32_t *place, uint64_t *version,
                         uint64_t *changed) {
    payload_room room;
    query_batch *batch = slot_queue_read(&scene->queue, pull, SLOT_QUEUE_ANSWER);
    const payload_head head = {.table = 1, .op = PAYLOAD_GET_ROWS, .count = 1};
    const scatter part = {.ticket = pull->ticket,
                          .kind = SCATTER_ROWS,
                          .count = 1,
                          .places = place,
                          .to = (uint8_t *)to,
                          .bytes = sizeof *to,
                          .wire = MR_F32,
                          .dtype = MR_F32,
                          .version = version,
                          .changed = changed};
    assert_int_equal(payload_add(&batch->payload, head, 0, &room), MR_OK);
    room.keys[0] = 7;
    *room.version = *version;
    slot_queue_expect(batch, &part);
    return batch->number;
}

static uint64_t asked_version(const query_batch *batch) {
    payload_reader reader = payload_open(payload_written(&batch->payload));
    payload_section section;
    assert_true(payload_next(&reader, &section));
    return section.version;
}

static void a_query_of_a_reader_is_kept_and_asked_again(void **state) {
    static const uint32_t places[] = {0, 1, 2};
    scene scene;
    reader_pull pull;
    ticket *ticket;
    float to[3] = {0};
    uint64_t version = 5, changed = 0;
    begin(&scene, true);
    assert_int_equal(tickets_open(&scene.tickets, true, &ticket), MR_OK);
    reader_pull_init(&pull, ticket); /* the ticket has the pull's part */
    for (int i = 0; i < 3; i++) (void)read_row(&scene, &pull, to, &places[i], &version, &changed);
    query_batch *first = slot_queue_next_query(&scene.queue);
    assert_true(first->step == CONSISTENCY_NEWEST && asked_version(first) == 5);
    slot_queue_asked(&scene.queue, first);
    shared_bytes *answer = answer_of((const float[]){1}, 1);
    assert_true(slot_queue_answer(&scene.queue, &scene.tickets, 8, shared_bytes_bytes(answer)));
    query_batch *second = slot_queue_next_query(&scene.queue);
    assert_int_equal(second->step, 8); /* the rest in the version of the first answer */
    slot_queue_asked(&scene.queue, second);
    assert_true(slot_queue_gone(&scene.queue, &scene.tickets, 10));
    assert_false(slot_queue_gone(&scene.queue, &scene.tickets, 10));
    assert_true(reader_pull_fails(&pull) && slot_queue_count(&scene.queue) == 1);
    slot_queue_drop(&scene.queue, &scene.tickets, &pull);
    assert_true(slot_queue_count(&scene.queue) == 0 && ticket->parts == 1 && changed == 1);
    assert_int_equal(slot_queue_renew(&pull), MR_OK);
    assert_int_equal(changed, 0);
    uint64_t next = reader_pull_repeat(&pull);
    assert_int_equal(next, 9);
    while (!list_empty(&pull.batches))
        slot_queue_repeat(&scene.queue, container_of(pull.batches.next, query_batch, link), next);
    for (int i = 0; i < 3; i++) {
        query_batch *batch = slot_queue_next_query(&scene.queue);
        assert_true(batch->step == 9 && asked_version(batch) == 0); /* all values, whatever the memory has */
        slot_queue_asked(&scene.queue, batch);
        assert_true(slot_queue_answer(&scene.queue, &scene.tickets, 9, shared_bytes_bytes(answer)));
    }
    assert_true(ticket->parts == 1 && !reader_pull_fails(&pull) && changed == 3);
    assert_memory_equal(to, ((const float[]){1, 1, 1}), sizeof to);
    slot_queue_abandon_kept(&pull);
    assert_int_equal(version, 0);
    slot_queue_forget(&pull, true);
    shared_bytes_unref(answer);
    tickets_end(&scene.tickets, ticket, MR_OK);
    finish(&scene);
}

static void queries_of_two_readers_pulls_are_two(void **state) {
    static const uint32_t place = 0;
    scene scene;
    reader_pull pulls[2];
    ticket *tickets[2];
    float to = 0;
    uint64_t version = 5, changed = 0, other = 0;
    begin(&scene, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tickets_open(&scene.tickets, true, &tickets[i]), MR_OK);
        reader_pull_init(&pulls[i], tickets[i]);
        uint64_t number = read_row(&scene, &pulls[i], &to, &place, &version, &changed);
        assert_true(number != other);
        other = number;
    }
    slot_queue_fail(&scene.queue, &scene.tickets, MR_STALE);
    for (int i = 0; i < 2; i++) {
        assert_true(tickets[i]->parts == 1 && tickets[i]->status == MR_STALE);
        slot_queue_forget(&pulls[i], false);
        tickets_end(&scene.tickets, tickets[i], MR_OK);
    }
    assert_int_equal(version, 0);
    finish(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_of_a_reader_is_kept_and_asked_again),
        cmocka_unit_test(queries_of_two_readers_pulls_are_two),
        cmocka_unit_test(unsent_requests_stay_queued),
        cmocka_unit_test(requests_queued_during_a_send_leave_together),
        cmocka_unit_test(a_finished_request_leaves_its_memory_to_the_next),
        cmocka_unit_test(a_batch_that_is_full_does_not_wait),
        cmocka_unit_test(in_rounds_all_of_a_step_is_one),
        cmocka_unit_test(pulls_are_asked_together_and_answered_each),
        cmocka_unit_test(an_answer_that_is_none_is_an_error),
        cmocka_unit_test(a_pull_is_asked_behind_the_pushes_before_it),
        cmocka_unit_test(in_rounds_a_pull_waits_until_the_pushes_before_it_are_there),
        cmocka_unit_test(a_block_that_cannot_be_looked_at_is_asked_for_again),
        cmocka_unit_test(borrowed_values_are_released),
        cmocka_unit_test(pulls_that_are_given_up_are_answered_nowhere),
        cmocka_unit_test(whatever_is_under_way_fails_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
