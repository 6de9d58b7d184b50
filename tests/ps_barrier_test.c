/* ps_barrier_test.c — barriers, metrics and app messages of a parameter server in processes: a rank that repeats a
 * barrier passes it again, whichever process dies. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

enum { SHORT_US = 300000, ECHO = 7, LATE = 8, COUNT = 9, NOBODY = 10 };

static ps_fixture begin(ps_fixture fixture) {
    fixture.servers = fixture.servers == 0 ? 1 : fixture.servers;
    fixture.copies = 1;
    fixture.slots = 2;
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < fixture.servers; i++) ps_fixture_start_server(&fixture, i);
    return fixture;
}

static mr_ps *connect_to(const ps_fixture *fixture, int rank) {
    mr_ps *ps = ps_fixture_connect(fixture, rank);
    assert_non_null(ps);
    return ps;
}

static uint64_t step_of(mr_ps *ps) {
    uint64_t step = 0;
    assert_int_equal(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step), MR_OK);
    return step;
}

/* ---- Barriers. */

typedef struct comer {
    mr_ps *ps;
    const char *name;
    int group;
    mr_status status;
    pthread_t thread;
    _Atomic bool over;
} comer;

static void *come(void *argument) {
    comer *comer = argument;
    comer->status = mr_ps_barrier(comer->ps, comer->name, comer->group, PS_FIXTURE_PATIENCE_US);
    if (comer->status != MR_OK) fprintf(stderr, "%s: %s\n", comer->name, mr_last_error());
    atomic_store(&comer->over, true);
    return NULL;
}

static void comes(comer *comer, mr_ps *ps, const char *name, int group) {
    comer->ps = ps;
    comer->name = name;
    comer->group = group;
    atomic_store(&comer->over, false);
    assert_int_equal(pthread_create(&comer->thread, NULL, come, comer), 0);
}

static void has_passed(comer *comer) {
    pthread_join(comer->thread, NULL);
    assert_int_equal(comer->status, MR_OK);
}

static void both_pass(mr_ps *a, mr_ps *b, const char *name) {
    comer comer;
    comes(&comer, a, name, MR_PS_WORKERS);
    assert_int_equal(mr_ps_barrier(b, name, MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    has_passed(&comer);
}

static void end(ps_fixture *fixture, mr_ps **ps, int count) {
    for (int i = 0; i < count; i++) mr_ps_close(ps[i]);
    fixture->workers = 0;
    assert_true(ps_fixture_fini(fixture));
}

static void a_barrier_opens_when_all_have_come(void **state) {
    ps_fixture fixture = begin((ps_fixture){.workers = 3, .consistency = MR_PS_ASP});
    mr_ps *ps[3];
    comer comer[4];
    for (int i = 0; i < 3; i++) ps[i] = connect_to(&fixture, i);
    assert_int_equal(mr_ps_barrier(ps[0], "first", MR_PS_WORKERS, SHORT_US), MR_TIMEOUT);
    assert_said("barrier 'first': ranks 1, 2 have not arrived");
    comes(&comer[0], ps[0], "first", MR_PS_WORKERS);
    comes(&comer[1], ps[1], "other", MR_PS_WORKERS);
    assert_int_equal(mr_ps_barrier(ps[1], "first", MR_PS_WORKERS, SHORT_US), MR_TIMEOUT);
    assert_said("rank 2 has not arrived");
    assert_false(atomic_load(&comer[0].over));
    assert_int_equal(mr_ps_barrier(ps[2], "first", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    /* Rank 1 had arrived. */
    assert_int_equal(mr_ps_barrier(ps[1], "first", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    has_passed(&comer[0]);
    assert_false(atomic_load(&comer[1].over));
    comes(&comer[2], ps[0], "other", MR_PS_WORKERS);
    comes(&comer[3], ps[2], "other", MR_PS_WORKERS);
    for (int i = 1; i < 4; i++) has_passed(&comer[i]);
    end(&fixture, ps, 3);
}

static void a_restarted_rank_passes_opened_barriers(void **state) {
    ps_fixture fixture = begin((ps_fixture){.workers = 2, .consistency = MR_PS_BSP});
    mr_ps *ps[2] = {connect_to(&fixture, 0), connect_to(&fixture, 1)};
    both_pass(ps[0], ps[1], "ready");
    assert_true(step_of(ps[0]) == 0 && step_of(ps[1]) == 0);
    both_pass(ps[0], ps[1], "middle");
    both_pass(ps[0], ps[1], "middle");
    mr_ps_close(ps[1]); /* within a step */
    ps[1] = connect_to(&fixture, 1);
    assert_int_equal(mr_ps_barrier(ps[1], "ready", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(step_of(ps[1]), 0);
    assert_int_equal(mr_ps_barrier(ps[1], "middle", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_barrier(ps[1], "middle", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_barrier(ps[1], "middle", MR_PS_WORKERS, SHORT_US), MR_TIMEOUT); /* a new barrier */
    assert_said("rank 0 has not arrived");
    both_pass(ps[0], ps[1], "middle");
    for (int i = 0; i < 2; i++) assert_int_equal(mr_ps_end(ps[i]), MR_OK);
    /* Between two steps: a rank that continues with the next step has passed the barrier. */
    comer comer;
    comes(&comer, ps[0], "between", MR_PS_WORKERS);
    assert_int_equal(mr_ps_flush(ps[1], PS_FIXTURE_PATIENCE_US), MR_OK);
    mr_ps_close(ps[1]);
    ps[1] = connect_to(&fixture, 1);
    assert_int_equal(step_of(ps[1]), 1);
    has_passed(&comer);
    assert_int_equal(step_of(ps[0]), 1);
    both_pass(ps[0], ps[1], "middle");
    end(&fixture, ps, 2);
}

static void a_scheduler_that_dies_has_forgotten_nothing(void **state) {
    ps_fixture fixture = begin((ps_fixture){.workers = 2, .consistency = MR_PS_ASP});
    mr_ps *ps[2] = {connect_to(&fixture, 0), connect_to(&fixture, 1)};
    comer comer;
    both_pass(ps[0], ps[1], "ready");
    comes(&comer, ps[0], "later", MR_PS_WORKERS);
    usleep(SHORT_US);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    assert_int_equal(mr_ps_barrier(ps[1], "later", MR_PS_WORKERS, SHORT_US), MR_TIMEOUT);
    assert_false(atomic_load(&comer.over));
    assert_true(ps_fixture_start_scheduler(&fixture));
    assert_int_equal(mr_ps_barrier(ps[1], "later", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    has_passed(&comer);
    mr_ps_close(ps[1]);
    ps[1] = connect_to(&fixture, 1);
    assert_int_equal(mr_ps_barrier(ps[1], "ready", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_barrier(ps[1], "later", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    end(&fixture, ps, 2);
}

static void servers_come_by_being_there(void **state) {
    ps_fixture fixture = begin((ps_fixture){.workers = 1, .servers = 2, .consistency = MR_PS_ASP});
    mr_ps *ps[1] = {connect_to(&fixture, 0)};
    assert_int_equal(mr_ps_barrier(ps[0], "there", MR_PS_SERVERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_barrier(ps[0], "all", MR_PS_ALL, PS_FIXTURE_PATIENCE_US), MR_OK);
    ps_fixture_kill(&fixture, &fixture.server[1]);
    mr_status status = MR_OK; /* until the scheduler has noticed the close */
    for (int i = 0; i < 600 && status == MR_OK; i++) {
        usleep(100000);
        status = mr_ps_barrier(ps[0], "all", MR_PS_ALL, SHORT_US);
    }
    assert_int_equal(status, MR_TIMEOUT);
    assert_said("barrier 'all': server 1 is not connected");
    ps_fixture_start_server(&fixture, 1);
    assert_int_equal(mr_ps_barrier(ps[0], "all", MR_PS_ALL, PS_FIXTURE_PATIENCE_US), MR_OK);
    end(&fixture, ps, 1);
}

static void barriers_are_checked(void **state) {
    ps_fixture fixture = begin((ps_fixture){.workers = 1, .consistency = MR_PS_ASP});
    mr_ps *ps[1] = {connect_to(&fixture, 0)};
    char name[MR_PS_NAME_MAX + 1];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(mr_ps_barrier(ps[0], NULL, MR_PS_WORKERS, 0), MR_INVALID);
    assert_int_equal(mr_ps_barrier(ps[0], "", MR_PS_WORKERS, 0), MR_INVALID);
    assert_int_equal(mr_ps_barrier(ps[0], name, MR_PS_WORKERS, 0), MR_INVALID);
    assert_said("longer than 63 bytes");
    assert_int_equal(mr_ps_barrier(ps[0], "b", MR_PS_SCHEDULER, 0), MR_INVALID);
    assert_said("group 1");
    assert_int_equal(mr_ps_barrier(ps[0], "b", 8, 0), MR_INVALID);
    assert_int_equal(mr_ps_barrier(ps[0], "for ever", MR_PS_WORKERS, MR_FOREVER), MR_OK);
    for (int i = 0; i < 200; i++) { /* barriers without waiting ranks take no memory, whatever their number */
        snprintf(name, sizeof name, "round %d", i);
        assert_int_equal(mr_ps_barrier(ps[0], name, MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US), MR_OK);
    }
    end(&fixture, ps, 1);
}

/* ---- Metrics. */

static const mr_ps_process *process_of(const mr_ps_processes *process_table, int role, uint32_t number) {
    for (uint32_t i = 0; i < process_table->count; i++)
        if (process_table->processes[i].role == role && process_table->processes[i].number == number)
            return &process_table->processes[i];
    return NULL;
}

static bool shows(const ps_fixture *fixture, uint32_t rank, const char *key, double value, uint64_t count) {
    mr_ps_processes *process_table = NULL;
    bool found = false;
    if (mr_ps_processes_get(fixture->address, PS_FIXTURE_PATIENCE_US, &process_table) != MR_OK) return false;
    const mr_ps_process *process = process_of(process_table, MR_PS_WORKERS, rank);
    for (uint32_t i = 0; process != NULL && i < process->metric_count; i++)
        if (strcmp(process->metrics[i].key, key) == 0)
            found = process->here && process->metrics[i].value == value && process->metrics[i].count == count;
    mr_ps_processes_free(process_table);
    return found;
}

static void wait_until_shown(const ps_fixture *fixture, uint32_t rank, const char *key, double value, uint64_t count) {
    for (int i = 0; i < 600 && !shows(fixture, rank, key, value, count); i++) usleep(100000);
    assert_true(shows(fixture, rank, key, value, count));
}

static void reports_are_shown(void **state) {
    ps_fixture fixture = begin((ps_fixture){.workers = 2, .consistency = MR_PS_ASP});
    mr_ps *ps[2] = {connect_to(&fixture, 0), connect_to(&fixture, 1)};
    char key[16];
    assert_int_equal(mr_ps_metric_set(ps[0], "loss", 2.5), MR_OK);
    assert_int_equal(mr_ps_metric_set(ps[0], "loss", 1.25), MR_OK);
    assert_int_equal(mr_ps_metric_set(ps[1], "examples", 1e12), MR_OK);
    assert_int_equal(mr_ps_metric_set(ps[1], "", 1), MR_INVALID);
    assert_int_equal(mr_ps_metric_set(ps[1], NULL, 1), MR_INVALID);
    for (int i = 1; i < MR_PS_METRICS_MAX; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(mr_ps_metric_set(ps[1], key, i), MR_OK);
    }
    assert_int_equal(mr_ps_metric_set(ps[1], "one more", 0), MR_TOO_LARGE);
    assert_said("the limit is 16");
    wait_until_shown(&fixture, 0, "loss", 1.25, 2);
    wait_until_shown(&fixture, 1, "examples", 1e12, 1);
    wait_until_shown(&fixture, 1, "k15", 15, 1);
    mr_ps_processes *process_table;
    assert_int_equal(mr_ps_processes_get(fixture.address, PS_FIXTURE_PATIENCE_US, &process_table), MR_OK);
    const mr_ps_process *server = process_of(process_table, MR_PS_SERVERS, 0);
    assert_true(server != NULL && server->here && server->memory != 0 && server->memory_max >= server->memory);
    assert_non_null(process_of(process_table, MR_PS_SCHEDULER, 0));
    mr_ps_processes_free(process_table);
    end(&fixture, ps, 2);
}

/* ---- App messages. */

static void echo(void *context, mr_ps_message *message) {
    mr_ps_request request;
    mr_ps_message_get(message, &request);
    mr_status status = mr_ps_respond(message, request.head + 1, request.body, request.size);
    if (status != MR_OK) abort();
}

static void keep_it(void *context, mr_ps_message *message) { *(mr_ps_message * _Atomic *)context = message; }

static void count_it(void *context, mr_ps_message *message) {
    int count = atomic_fetch_add((_Atomic int *)context, 1) + 1;
    mr_status status = mr_ps_respond(message, count, NULL, 0);
    if (status != MR_OK) abort();
}

static const mr_ps_app echoes[] = {{ECHO, echo, NULL}};

static mr_ps_responses *ask(mr_ps *ps, mr_ps_peer to, int app, int head, const char *text) {
    mr_ps_ticket ticket;
    mr_ps_responses *responses = NULL;
    assert_int_equal(mr_ps_send(ps, to, app, head, text, strlen(text), NULL, NULL, &ticket), MR_OK);
    mr_status status = mr_ps_responses_wait(ps, ticket, PS_FIXTURE_PATIENCE_US, &responses);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    assert_int_equal(status, MR_OK);
    return responses;
}

static void is_echoed(mr_ps *ps, mr_ps_peer to, const char *text) {
    mr_ps_responses *all = ask(ps, to, ECHO, 41, text);
    assert_int_equal(all->count, 1);
    assert_true(all->list->status == MR_OK && all->list->head == 42 && all->list->size == strlen(text));
    assert_memory_equal(all->list->body, text, strlen(text));
    assert_true(all->list->from.role == to.role && all->list->from.number == to.number);
    mr_ps_responses_free(all);
}

static ps_fixture begin_apps(uint32_t workers) {
    return begin((ps_fixture){.workers = workers, .servers = 2, .apps = echoes, .app_count = 1});
}

static void every_process_can_be_asked(void **state) {
    ps_fixture fixture = begin_apps(2);
    mr_ps *ps[2] = {connect_to(&fixture, 0), connect_to(&fixture, 1)};
    mr_ps_message *_Atomic kept = NULL;
    assert_int_equal(mr_ps_handle(ps[0], ECHO, echo, NULL), MR_OK);
    assert_int_equal(mr_ps_handle(ps[1], ECHO, echo, NULL), MR_OK);
    assert_int_equal(mr_ps_handle(ps[1], LATE, keep_it, &kept), MR_OK);
    is_echoed(ps[0], (mr_ps_peer){MR_PS_WORKERS, 1}, "to the other rank");
    is_echoed(ps[1], (mr_ps_peer){MR_PS_WORKERS, 0}, "and back");
    is_echoed(ps[0], (mr_ps_peer){MR_PS_WORKERS, 0}, "to itself");
    is_echoed(ps[0], (mr_ps_peer){MR_PS_SCHEDULER, 0}, "");
    is_echoed(ps[1], (mr_ps_peer){MR_PS_SERVERS, 1}, "to a server");
    mr_ps_responses *all = ask(ps[0], (mr_ps_peer){MR_PS_ALL, MR_PS_EVERY}, ECHO, 0, "to all");
    assert_int_equal(all->count, 5);
    for (size_t i = 0; i < all->count; i++) assert_int_equal(all->list[i].status, MR_OK);
    mr_ps_responses_free(all);
    /* Another thread than the handler's answers later. */
    mr_ps_ticket ticket;
    mr_ps_request request;
    assert_int_equal(mr_ps_send(ps[0], (mr_ps_peer){MR_PS_WORKERS, 1}, LATE, 5, "?", 1, NULL, NULL, &ticket), MR_OK);
    assert_int_equal(mr_ps_responses_wait(ps[0], ticket, SHORT_US, &all), MR_TIMEOUT);
    assert_said("worker 1 has not answered");
    for (int i = 0; i < 6000 && atomic_load(&kept) == NULL; i++) usleep(10000);
    assert_non_null(kept);
    mr_ps_message_get(kept, &request);
    assert_true(request.from.role == MR_PS_WORKERS && request.from.number == 0 && request.app == LATE);
    assert_true(request.head == 5 && request.size == 1);
    assert_int_equal(mr_ps_respond(kept, -1, "late", 4), MR_OK);
    assert_int_equal(mr_ps_responses_wait(ps[0], ticket, PS_FIXTURE_PATIENCE_US, &all), MR_OK);
    assert_true(all->count == 1 && all->list->head == -1 && all->list->size == 4);
    mr_ps_responses_free(all);
    assert_int_equal(mr_ps_responses_wait(ps[0], ticket, 0, &all), MR_NOT_FOUND);
    end(&fixture, ps, 2);
}

static void told(void *context, mr_status status) {
    atomic_fetch_add((_Atomic int *)context, status == MR_OK ? 1 : 1000);
}

static void each_is_handled_once(void **state) {
    enum { MANY = 500 };
    ps_fixture fixture = begin((ps_fixture){.workers = 2});
    mr_ps *ps[2] = {connect_to(&fixture, 0), connect_to(&fixture, 1)};
    _Atomic int handled = 0, done = 0;
    char body[1000] = {0};
    assert_int_equal(mr_ps_handle(ps[1], COUNT, count_it, &handled), MR_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(
            mr_ps_send(ps[0], (mr_ps_peer){MR_PS_WORKERS, 1}, COUNT, i, body, sizeof body, told, &done, NULL), MR_OK);
    for (int i = 0; i < 600 && atomic_load(&done) < MANY; i++) usleep(100000);
    assert_int_equal(atomic_load(&done), MANY);
    assert_int_equal(atomic_load(&handled), MANY);
    end(&fixture, ps, 2);
}

static void messages_are_checked(void **state) {
    static char large[MR_PS_BODY_MAX + 1];
    ps_fixture fixture = begin((ps_fixture){.workers = 2});
    mr_ps *ps[1] = {connect_to(&fixture, 0)};
    const mr_ps_peer server = {MR_PS_SERVERS, 0};
    mr_ps_ticket ticket;
    mr_ps_responses *all = NULL;
    assert_int_equal(mr_ps_send(ps[0], server, 1, 0, large, sizeof large, NULL, NULL, &ticket), MR_TOO_LARGE);
    assert_said("65537 bytes: the limit is 65536");
    assert_int_equal(mr_ps_send(ps[0], server, 1, 0, NULL, 1, NULL, NULL, &ticket), MR_INVALID);
    assert_int_equal(mr_ps_send(ps[0], (mr_ps_peer){3, 0}, 1, 0, NULL, 0, NULL, NULL, &ticket), MR_INVALID);
    assert_int_equal(mr_ps_send(ps[0], (mr_ps_peer){MR_PS_SERVERS, 5000}, 1, 0, NULL, 0, NULL, NULL, &ticket),
                     MR_INVALID);
    assert_int_equal(mr_ps_send(ps[0], (mr_ps_peer){MR_PS_WORKERS, 2}, 1, 0, NULL, 0, NULL, NULL, &ticket),
                     MR_NOT_FOUND);
    assert_said("no rank 2");
    all = ask(ps[0], server, NOBODY, 0, "x");
    assert_true(all->count == 1 && all->list->status == MR_NOT_FOUND);
    assert_non_null(strstr(all->list->body, "nobody there handles"));
    mr_ps_responses_free(all);
    assert_int_equal(mr_ps_send(ps[0], (mr_ps_peer){MR_PS_WORKERS, 1}, 1, 0, NULL, 0, NULL, NULL, &ticket), MR_OK);
    assert_int_equal(mr_ps_responses_wait(ps[0], ticket, SHORT_US, &all), MR_TIMEOUT);
    assert_said("worker 1 is not connected");
    end(&fixture, ps, 1);
}

static int be_deaf(void *argument) { /* a worker that never answers requests */
    const ps_fixture *fixture = argument;
    mr_ps_message *_Atomic kept = NULL;
    mr_ps *ps;
    TEST_CHILD_CHECK(mr_ps_connect(fixture->address, 1, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_handle(ps, LATE, keep_it, &kept) == MR_OK);
    fixture->progress[0] = 1;
    while (atomic_load(&kept) == NULL) usleep(10000);
    fixture->progress[0] = 2;
    for (;;) pause();
}

static void a_dead_process_answers_nothing(void **state) {
    ps_fixture fixture = begin((ps_fixture){.workers = 2});
    mr_ps *ps[1] = {connect_to(&fixture, 0)};
    mr_ps_ticket ticket;
    mr_ps_responses *all = NULL;
    fixture.worker[1] = fork_server_start(&fixture.fork_server, be_deaf, &fixture, sizeof fixture);
    ps_fixture deaf = {.progress = fixture.progress, .workers = 1};
    assert_true(ps_fixture_reaches(&deaf, 1));
    assert_int_equal(mr_ps_send(ps[0], (mr_ps_peer){MR_PS_WORKERS, 1}, LATE, 0, "x", 1, NULL, NULL, &ticket), MR_OK);
    assert_true(ps_fixture_reaches(&deaf, 2));
    ps_fixture_kill(&fixture, &fixture.worker[1]);
    assert_int_equal(mr_ps_responses_wait(ps[0], ticket, PS_FIXTURE_PATIENCE_US, &all), MR_OK);
    assert_true(all->count == 1 && all->list->status == MR_PEER_DIED && all->list->size != 0);
    mr_ps_responses_free(all);
    end(&fixture, ps, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_opens_when_all_have_come),
        cmocka_unit_test(a_restarted_rank_passes_opened_barriers),
        cmocka_unit_test(a_scheduler_that_dies_has_forgotten_nothing),
        cmocka_unit_test(servers_come_by_being_there),
        cmocka_unit_test(barriers_are_checked),
        cmocka_unit_test(reports_are_shown),
        cmocka_unit_test(every_process_can_be_asked),
        cmocka_unit_test(each_is_handled_once),
        cmocka_unit_test(messages_are_checked),
        cmocka_unit_test(a_dead_process_answers_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
