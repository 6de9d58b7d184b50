/* barrier_client_test.c — a worker at barriers: the places it reports, the processes it waits for, and when it
 * continues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kv/control/barrier_client.h"
#include "kv/control/control_wire.h"
#include "tests/support/status_assert.h"

typedef struct service {
    barrier_clients *clients;
    process_state self;
    barrier_client_word word; /* last COME */
    uint32_t said;
    int64_t now_us;
} service;

static void send_message(void *context, const char *address, const control_message *message) {
    service *service = context;
    assert_string_equal(address, "s");
    assert_int_equal(message->kind, CONTROL_COME);
    assert_int_equal(barrier_client_word_decode(message->value, &service->word), MR_OK);
    service->said++;
}

static void begin(service *service) {
    *service = (struct service){.self = {.generation = 7, .first = 3, .map = 10, .ready = 1}, .now_us = 1000};
    process_sender self = {.scheduler = "s", .state = &service->self, .send = send_message, .context = service};
    service->clients = barrier_clients_create(&self, 100);
}

static void come(service *service, const char *name, barrier_clients_where where) {
    assert_int_equal(barrier_clients_come(service->clients, name, MR_PS_WORKERS, where, service->now_us), MR_OK);
    if (service->now_us >= barrier_clients_next_us(service->clients))
        barrier_clients_tick(service->clients, service->now_us);
}

static void hear(service *service, barrier_client_verdict verdict, uint64_t map) {
    uint8_t bytes[BARRIER_CLIENT_VERDICT_MAX];
    control_message message = {.kind = CONTROL_PASS, .stamp = {.view = map, .id = service->word.token}};
    message.value = span_of(bytes, barrier_client_verdict_encode(&verdict, bytes));
    assert_true(barrier_clients_take(service->clients, &message));
}

static mr_status passed(service *service, const char *name) { return barrier_clients_passed(service->clients, name); }

static void places_count_what_was_passed_there(void **state) {
    service service;
    begin(&service);
    const barrier_clients_where early = {.early = true}, open = {.open = true, .step = 5},
                                next = {.open = true, .step = 6};
    come(&service, "b", early);
    assert_true(service.word.early && service.word.place == 1 && service.word.generation == 7 &&
                service.word.first == 3);
    hear(&service, (barrier_client_verdict){.status = MR_OK}, 10);
    assert_int_equal(passed(&service, "b"), MR_OK);
    come(&service, "b", early);
    assert_int_equal(service.word.place, 2);
    hear(&service, (barrier_client_verdict){.status = MR_OK}, 10);
    assert_int_equal(passed(&service, "b"), MR_OK);
    come(&service, "b", open);
    assert_true(!service.word.early && service.word.place == barrier_server_place(5, true, 1));
    hear(&service, (barrier_client_verdict){.status = MR_OK}, 10);
    assert_int_equal(passed(&service, "b"), MR_OK);
    come(&service, "b", open);
    assert_int_equal(service.word.place, barrier_server_place(5, true, 2));
    hear(&service, (barrier_client_verdict){.status = MR_OK}, 10);
    assert_int_equal(passed(&service, "b"), MR_OK);
    come(&service, "b", next);
    assert_int_equal(service.word.place, barrier_server_place(6, true, 1));
    barrier_clients_destroy(service.clients);
}

static void a_waiting_client_names_the_barrier(void **state) {
    service service;
    begin(&service);
    const barrier_clients_where open = {.open = true, .step = 5};
    come(&service, "b", open);
    assert_int_equal(passed(&service, "b"), MR_BUSY);
    assert_non_null(strstr(mr_last_error(), "the scheduler has not answered"));
    hear(
        &service,
        (barrier_client_verdict){.status = MR_BUSY, .role = MR_PS_WORKERS, .missing = 9, .named = 2, .numbers = {4, 6}},
        10);
    assert_int_equal(passed(&service, "b"), MR_BUSY);
    assert_non_null(strstr(mr_last_error(), "barrier 'b': ranks 4, 6 and more have not arrived"));
    uint32_t said = service.said;
    come(&service, "b", open); /* after a timeout: continues to wait */
    assert_int_equal(service.said, said);
    service.now_us += BARRIER_CLIENT_AGAIN_US;
    barrier_clients_tick(service.clients, service.now_us);
    assert_int_equal(service.said, said + 1);
    hear(&service, (barrier_client_verdict){.status = MR_OK}, 11);
    assert_int_equal(passed(&service, "b"), MR_BUSY); /* the scheduler's cluster map is not known here yet */
    service.self.map = 11;
    assert_int_equal(passed(&service, "b"), MR_OK);
    assert_int_equal(passed(&service, "b"), MR_STALE); /* waits at no barrier */
    barrier_clients_destroy(service.clients);
}

static void a_generation_that_is_over_is_said(void **state) {
    service service;
    begin(&service);
    const barrier_clients_where early = {.early = true}, open = {.open = true, .step = 5};
    come(&service, "early", early);
    come(&service, "b", open);
    barrier_clients_restart(service.clients);
    assert_int_equal(passed(&service, "b"), MR_STALE);
    assert_said("barrier 'b': all replicas of a slot were lost");
    assert_int_equal(passed(&service, "early"), MR_BUSY); /* an early barrier does not belong to a step */
    service.self.ready = 0;
    service.self.generation = 8;
    uint32_t said = service.said;
    come(&service, "b", open);
    assert_int_equal(service.said, said); /* the rank's next step is unknown yet */
    service.self.ready = 1;
    barrier_clients_tick(service.clients, service.now_us);
    assert_true(service.said > said && service.word.generation == 8);
    barrier_clients_destroy(service.clients);
}

static void bytes_that_are_cut_are_refused(void **state) {
    uint8_t bytes[BARRIER_CLIENT_WORD_MAX];
    barrier_client_word word = {.token = 1, .group = MR_PS_WORKERS, .place = 1, .name = "name"}, read;
    size_t size = barrier_client_word_encode(&word, bytes);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(barrier_client_word_decode(span_of(bytes, cut), &read), MR_CORRUPT);
    barrier_client_verdict verdict = {.status = MR_BUSY, .role = MR_PS_SERVERS, .missing = 1, .named = 1}, heard;
    size = barrier_client_verdict_encode(&verdict, bytes);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(barrier_client_verdict_decode(span_of(bytes, cut), &heard), MR_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_count_what_was_passed_there),
        cmocka_unit_test(a_waiting_client_names_the_barrier),
        cmocka_unit_test(a_generation_that_is_over_is_said),
        cmocka_unit_test(bytes_that_are_cut_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
