/* chute_test.c — pushes gather into batches and pulls into queries, go in their order, and end once. */
#include "kv/worker/chute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ps/consistency.h"

typedef struct scene {
    chute chute;
    tickets tickets;
} scene;

/* How it ended; MR_BUSY: it has not. */
static mr_status outcome(tickets *tickets, uint64_t number) {
    mr_status status = MR_BUSY;
    MR_TRY(tickets_ask(tickets, number, &status));
    return status;
}

static void begin(scene *scene, bool holds) {
    chute_init(&scene->chute, 3, holds);
    tickets_init(&scene->tickets);
}

static void finish(scene *scene) {
    chute_fail(&scene->chute, &scene->tickets, MR_CLOSED);
    chute_fini(&scene->chute);
    tickets_fini(&scene->tickets);
}

/* One key with one float; gives the number of its ticket. */
static uint64_t push(scene *scene, uint64_t name, uint32_t keys) {
    ticket *ticket;
    parcel_room room;
    parcel_head head = {.table = 1, .op = PARCEL_ADD_ROWS, .dtype = MR_F32, .count = keys};
    batch *batch = chute_gather(&scene->chute, parcel_section_size(PARCEL_ADD_ROWS, keys, keys * sizeof(float)));
    assert_int_equal(tickets_open(&scene->tickets, true, &ticket), MR_OK);
    assert_int_equal(parcel_add(&batch->parcel, head, keys * sizeof(float), &room), MR_OK);
    for (uint32_t i = 0; i < keys; i++) room.keys[i] = i;
    memset(room.values, 0, keys * sizeof(float));
    chute_part(&scene->chute, batch, name, ticket);
    tickets_end(&scene->tickets, ticket, MR_OK);
    return tickets_number(ticket);
}

static uint64_t pull(scene *scene, uint64_t step, uint64_t behind, float *to, const uint32_t *place) {
    ticket *ticket;
    parcel_room room;
    query *query = chute_ask(&scene->chute, step, behind, sizeof *to);
    assert_int_equal(tickets_open(&scene->tickets, true, &ticket), MR_OK);
    assert_int_equal(parcel_add(&query->parcel, (parcel_head){.table = 1, .op = PARCEL_GET_ROWS, .count = 1}, 0, &room),
                     MR_OK);
    room.keys[0] = 7;
    chute_expect(query, &(scatter){.ticket = ticket,
                                   .kind = SCATTER_ROWS,
                                   .count = 1,
                                   .places = place,
                                   .to = (uint8_t *)to,
                                   .bytes = sizeof *to,
                                   .item = sizeof *to});
    tickets_end(&scene->tickets, ticket, MR_OK);
    return tickets_number(ticket);
}

static uint64_t send(scene *scene) { /* gives the name of what was sent; 0: nothing can be */
    batch *batch = chute_next(&scene->chute);
    if (batch == NULL) return 0;
    uint64_t name = batch->name;
    chute_sent(&scene->chute, batch);
    return name;
}

static void what_was_not_sent_is_owed(void **state) {
    scene scene;
    begin(&scene, false);
    assert_false(chute_owes(&scene.chute, name_tick(1)));
    push(&scene, name_of(1, 1), 1);
    assert_true(chute_owes(&scene.chute, name_tick(1)));
    assert_false(chute_owes(&scene.chute, name_tick(0)));
    chute_close(&scene.chute, name_tick(1));
    push(&scene, name_of(2, 1), 1);
    assert_int_equal(send(&scene), name_tick(1));
    assert_false(chute_owes(&scene.chute, name_tick(1)));
    assert_true(chute_owes(&scene.chute, name_tick(2)));
    finish(&scene);
}

static void what_comes_while_something_is_under_way_goes_as_one(void **state) {
    scene scene;
    begin(&scene, false);
    uint64_t first = push(&scene, 1, 1);
    assert_int_equal(send(&scene), 1);
    uint64_t second = push(&scene, 2, 1), third = push(&scene, 3, 1);
    assert_int_equal(send(&scene), 0);
    assert_false(chute_acknowledge(&scene.chute, &scene.tickets, 2, true));
    assert_true(chute_acknowledge(&scene.chute, &scene.tickets, 1, true));
    assert_int_equal(scene.chute.known, 1);
    assert_int_equal(outcome(&scene.tickets, first), MR_OK);
    assert_int_equal(send(&scene), 3); /* both, with the name of the last one */
    assert_int_equal(outcome(&scene.tickets, second), MR_BUSY);
    assert_true(chute_acknowledge(&scene.chute, &scene.tickets, 3, true));
    assert_int_equal(outcome(&scene.tickets, second), MR_OK);
    assert_int_equal(outcome(&scene.tickets, third), MR_OK);
    assert_int_equal(chute_count(&scene.chute), 0);
    finish(&scene);
}

/* Small requests one after the other are written where the last one was, unless somebody still sends that. */
static void what_is_over_lends_its_memory_to_what_comes(void **state) {
    scene scene;
    uint32_t place = 0;
    float to;
    begin(&scene, false);
    (void)push(&scene, 1, 1);
    (void)pull(&scene, 0, 1, &to, &place);
    const batch *sent = chute_next(&scene.chute);
    const bale *bale = sent->parcel.bale;
    assert_int_equal(send(&scene), 1);
    query *asked = chute_next_query(&scene.chute);
    const struct bale *asking = asked->parcel.bale;
    chute_asked(&scene.chute, asked);
    assert_true(chute_acknowledge(&scene.chute, &scene.tickets, 1, true));
    assert_true(chute_answer(&scene.chute, &scene.tickets, (span){0}));
    (void)push(&scene, 2, 1);
    (void)pull(&scene, 0, 2, &to, &place);
    assert_ptr_equal(chute_next(&scene.chute), sent);
    assert_ptr_equal(sent->parcel.bale, bale);
    assert_int_equal(sent->ticket_count, 1);
    struct bale *held = bale_ref(sent->parcel.bale);
    assert_int_equal(send(&scene), 2);
    assert_ptr_equal(chute_next_query(&scene.chute), asked);
    assert_ptr_equal(asked->parcel.bale, asking);
    assert_int_equal(asked->part_count, 1);
    assert_int_equal(asked->behind, 2);
    assert_true(chute_acknowledge(&scene.chute, &scene.tickets, 2, true));
    (void)push(&scene, 3, 1);
    assert_ptr_not_equal(chute_next(&scene.chute)->parcel.bale, held);
    bale_unref(held);
    finish(&scene);
}

static void a_batch_that_is_full_does_not_wait(void **state) {
    scene scene;
    begin(&scene, false);
    (void)push(&scene, 1, 1);
    assert_int_equal(send(&scene), 1);
    (void)push(&scene, 2, CHUTE_BATCH / 32);
    (void)push(&scene, 3, CHUTE_BATCH / 32);
    (void)push(&scene, 4, CHUTE_BATCH / 32);
    assert_int_equal(send(&scene), 3);
    assert_int_equal(send(&scene), 0);
    finish(&scene);
}

static void in_rounds_all_of_a_step_is_one(void **state) {
    scene scene;
    begin(&scene, true);
    uint64_t first = push(&scene, 5, CHUTE_BATCH / 8);
    (void)push(&scene, 5, CHUTE_BATCH / 8);
    assert_int_equal(send(&scene), 0);
    chute_close(&scene.chute, 5);
    assert_int_equal(send(&scene), 5);
    chute_close(&scene.chute, 6); /* of nothing */
    assert_int_equal(send(&scene), 6);
    assert_true(chute_acknowledge(&scene.chute, &scene.tickets, 5, false));
    assert_int_equal(scene.chute.known, 0); /* it was not counted */
    assert_int_equal(outcome(&scene.tickets, first), MR_STALE);
    finish(&scene);
}

static bale *answer_of(const float *values, uint32_t count) {
    parcel_writer writer = {0};
    for (uint32_t i = 0; i < count; i++) {
        parcel_room room;
        parcel_head head = {.table = 1, .op = PARCEL_ROWS, .dtype = MR_F32, .count = 1};
        assert_int_equal(parcel_add(&writer, head, sizeof *values, &room), MR_OK);
        memcpy(room.values, &values[i], sizeof *values);
    }
    return parcel_take(&writer);
}

static void pulls_are_asked_together_and_answered_each(void **state) {
    static const uint32_t places[] = {0, 2, 1};
    scene scene;
    float to[3] = {0};
    uint64_t numbers[3];
    begin(&scene, false);
    numbers[0] = pull(&scene, 4, 0, to, &places[0]);
    query *first = chute_next_query(&scene.chute);
    assert_non_null(first);
    chute_asked(&scene.chute, first);
    numbers[1] = pull(&scene, 4, 0, to, &places[1]);
    numbers[2] = pull(&scene, 4, 0, to, &places[2]);
    assert_null(chute_next_query(&scene.chute)); /* one at a time */
    bale *answer = answer_of((const float[]){1}, 1);
    assert_true(chute_answer(&scene.chute, &scene.tickets, bale_bytes(answer)));
    bale_unref(answer);
    query *second = chute_next_query(&scene.chute);
    assert_int_equal(second->part_count, 2);
    chute_asked(&scene.chute, second);
    answer = answer_of((const float[]){2, 3}, 2);
    assert_true(chute_answer(&scene.chute, &scene.tickets, bale_bytes(answer)));
    assert_false(chute_answer(&scene.chute, &scene.tickets, bale_bytes(answer)));
    bale_unref(answer);
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
    chute_asked(&scene.chute, chute_next_query(&scene.chute));
    bale *answer = answer_of((const float[]){1}, 1); /* of two */
    assert_true(chute_answer(&scene.chute, &scene.tickets, bale_bytes(answer)));
    bale_unref(answer);
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
    (void)pull(&scene, 4, scene.chute.last, &to, &place);
    assert_null(chute_next_query(&scene.chute));
    assert_int_equal(send(&scene), 1);
    assert_non_null(chute_next_query(&scene.chute)); /* it need not be acknowledged */
    (void)push(&scene, 2, 1);
    assert_non_null(chute_next_query(&scene.chute)); /* what came later is not waited for */
    (void)pull(&scene, 5, 0, &to, &place);
    assert_int_equal(chute_count(&scene.chute), 4); /* of another step: not the same query */
    finish(&scene);
}

static void in_rounds_a_pull_waits_until_the_pushes_before_it_are_there(void **state) {
    static const uint32_t place = 0;
    scene scene;
    float to;
    begin(&scene, true);
    (void)push(&scene, 5, 1);
    (void)pull(&scene, 5, scene.chute.last, &to, &place);
    chute_close(&scene.chute, 5);
    assert_int_equal(send(&scene), 5);
    assert_null(chute_next_query(&scene.chute));
    assert_true(chute_acknowledge(&scene.chute, &scene.tickets, 5, true));
    assert_non_null(chute_next_query(&scene.chute));
    finish(&scene);
}

static const glass_view *see_nothing(void *context, uint64_t process) { return NULL; }

/* A server says where a block lies; nobody can look at it any more. */
static void a_block_that_cannot_be_looked_at_is_asked_for_again(void **state) {
    const afar_sight sight = {see_nothing, NULL};
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
                    .table = 1,
                    .place = {0, 2, 8, 4},
                    .sight = &sight};
    assert_int_equal(chute_ask_block(chute_ask(&scene.chute, 4, 0, sizeof to), &part), MR_OK);
    tickets_end(&scene.tickets, ticket, MR_OK);
    for (int tries = 0; tries <= CHUTE_LOOKS; tries++) {
        bool looks = tries < CHUTE_LOOKS;
        parcel_section asked;
        query *query = chute_next_query(&scene.chute);
        assert_non_null(query);
        assert_int_equal(query->step, 4);
        parcel_reader reader = parcel_open(parcel_written(&query->parcel));
        assert_true(parcel_next(&reader, &asked));
        assert_int_equal(asked.flags, looks ? PARCEL_AFAR : 0); /* in the end it is sent */
        assert_int_equal(asked.place.first, 4);
        chute_asked(&scene.chute, query);
        parcel_writer writer = {0};
        parcel_room room;
        parcel_afar afar = {.process = 1, .word = 1, .offset = GLASS_FRONT};
        parcel_head head = {.table = 1, .op = PARCEL_BLOCK, .dtype = MR_F32, .count = 4};
        head.flags = looks ? PARCEL_AFAR : 0;
        assert_int_equal(parcel_add(&writer, head, looks ? sizeof afar : sizeof to, &room), MR_OK);
        memcpy(room.values, looks ? (const void *)&afar : (const void *)(const float[]){1, 2, 3, 4},
               looks ? sizeof afar : sizeof to);
        bale *answer = parcel_take(&writer);
        assert_true(chute_answer(&scene.chute, &scene.tickets, bale_bytes(answer)));
        bale_unref(answer);
        assert_int_equal(outcome(&scene.tickets, tickets_number(ticket)), looks ? MR_BUSY : MR_OK);
    }
    assert_memory_equal(to, ((const float[]){1, 2, 3, 4}), sizeof to);
    assert_int_equal(chute_count(&scene.chute), 0);
    finish(&scene);
}

static void count_moves(void *context, const bale *bale, span from, span to) { ++*(unsigned *)context; }

static uint64_t push_lent(scene *scene, uint64_t name, span values, unsigned *moves) {
    ticket *ticket;
    parcel_room room;
    parcel_head head = {.table = 1, .op = PARCEL_ADD_BLOCK, .dtype = MR_F32, .count = (uint32_t)values.size / 4};
    batch *batch = chute_gather(&scene->chute, values.size);
    assert_int_equal(tickets_open(&scene->tickets, true, &ticket), MR_OK);
    assert_int_equal(parcel_add_front(&batch->parcel, head, values.size, &room), MR_OK);
    chute_lend(batch, lease_make(values, count_moves, moves));
    chute_part(&scene->chute, batch, name, ticket);
    tickets_end(&scene->tickets, ticket, MR_OK);
    return tickets_number(ticket);
}

/* What is lent ends its batch. It is copied if somebody holds it when its ticket is over, or its caller gives up. */
static void lent_values_are_given_back(void **state) {
    const float values[4] = {1, 2, 3, 4};
    const span lent = span_of(values, sizeof values);
    unsigned moves[3] = {0};
    uint64_t numbers[3];
    scene scene;
    begin(&scene, false);
    for (unsigned i = 0; i < 3; i++) numbers[i] = push_lent(&scene, i + 1, lent, &moves[i]);
    bale *held = bale_ref(&chute_next(&scene.chute)->lease->bale);
    for (uint64_t name = 1; name <= 3; name++) assert_int_equal(send(&scene), name);
    assert_true(chute_abandon(&scene.chute, tickets_find(&scene.tickets, numbers[2])));
    assert_true(moves[0] == 0 && moves[1] == 0 && moves[2] == 1);
    for (uint64_t name = 1; name <= 3; name++) assert_true(chute_acknowledge(&scene.chute, &scene.tickets, name, true));
    assert_true(moves[0] == 1 && moves[1] == 0 && moves[2] == 1);
    for (int i = 0; i < 3; i++) assert_int_equal(outcome(&scene.tickets, numbers[i]), MR_OK);
    bale_unref(held);
    (void)push_lent(&scene, 4, lent, &moves[0]); /* fails with all that is there */
    finish(&scene);
}

/* One that is asked and one that is not; others of the same queries are answered. */
static void pulls_that_are_given_up_are_answered_nowhere(void **state) {
    static const uint32_t place = 0;
    scene scene;
    float to[4] = {9, 9, 9, 9};
    uint64_t numbers[4];
    begin(&scene, false);
    for (int i = 0; i < 4; i++) {
        numbers[i] = pull(&scene, 4, 0, &to[i], &place);
        if (i == 1) chute_asked(&scene.chute, chute_next_query(&scene.chute));
    }
    assert_true(chute_abandon(&scene.chute, tickets_find(&scene.tickets, numbers[0])));
    assert_true(chute_abandon(&scene.chute, tickets_find(&scene.tickets, numbers[2])));
    bale *answer = answer_of((const float[]){1, 2}, 2);
    assert_true(chute_answer(&scene.chute, &scene.tickets, bale_bytes(answer)));
    chute_asked(&scene.chute, chute_next_query(&scene.chute));
    assert_true(chute_answer(&scene.chute, &scene.tickets, bale_bytes(answer)));
    bale_unref(answer);
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
    chute_asked(&scene.chute, chute_next_query(&scene.chute));
    numbers[3] = pull(&scene, 4, 0, &to, &place);
    chute_fail(&scene.chute, &scene.tickets, MR_STALE);
    for (int i = 0; i < 4; i++) assert_int_equal(outcome(&scene.tickets, numbers[i]), MR_STALE);
    assert_int_equal(chute_count(&scene.chute), 0);
    finish(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_sent_is_owed),
        cmocka_unit_test(what_comes_while_something_is_under_way_goes_as_one),
        cmocka_unit_test(what_is_over_lends_its_memory_to_what_comes),
        cmocka_unit_test(a_batch_that_is_full_does_not_wait),
        cmocka_unit_test(in_rounds_all_of_a_step_is_one),
        cmocka_unit_test(pulls_are_asked_together_and_answered_each),
        cmocka_unit_test(an_answer_that_is_none_is_an_error),
        cmocka_unit_test(a_pull_is_asked_behind_the_pushes_before_it),
        cmocka_unit_test(in_rounds_a_pull_waits_until_the_pushes_before_it_are_there),
        cmocka_unit_test(a_block_that_cannot_be_looked_at_is_asked_for_again),
        cmocka_unit_test(lent_values_are_given_back),
        cmocka_unit_test(pulls_that_are_given_up_are_answered_nowhere),
        cmocka_unit_test(whatever_is_under_way_fails_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
