/* ps_server_test.c — server programs: user optimizers, metrics, and servers that drain. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

enum { ENDS_MS = 60000 };

static mr_ps *connect_to(const ps_fixture *fixture, int rank) {
    mr_ps *ps = ps_fixture_connect(fixture, rank);
    assert_non_null(ps);
    return ps;
}

/* ---- User optimizers. */

/* Counts the pushes to a value, and adds each gradient as many times. */
static void eager(void *context, const mr_ps_update *update) {
    float *times = update->state[0];
    for (size_t i = 0; i < update->count; i++) {
        times[i] += 1;
        update->to[i] = update->from[i] + update->rate * times[i] * update->scale * update->gradient[i];
    }
}

static const mr_ps_optimizer optimizers[] = {{"eager", 1, eager, NULL}};

static void push(mr_ps *ps, mr_ps_table *table, mr_ps_table *dense) {
    uint64_t step;
    const uint64_t keys[] = {3, 1000000007};
    const float gradient[] = {1, 2, 3, 4};
    assert_int_equal(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step), MR_OK);
    assert_int_equal(mr_ps_push(table, keys, 2, gradient, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_ps_push_array(dense, 0, gradient, 0, 4, NULL, NULL), MR_OK);
    assert_int_equal(mr_ps_end(ps), MR_OK);
}

static void has(mr_ps *ps, mr_ps_table *table, mr_ps_table *dense, float factor) {
    uint64_t step;
    const uint64_t keys[] = {3, 1000000007};
    float rows[4], array[4];
    assert_int_equal(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step), MR_OK);
    assert_int_equal(mr_ps_pull(table, keys, 2, rows, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_ps_pull_array(dense, 0, array, 0, 4, NULL, NULL), MR_OK);
    for (int i = 0; i < 4; i++) assert_true(rows[i] == factor * (float)(i + 1) && array[i] == rows[i]);
}

static void a_server_program_has_optimizers_of_its_own(void **state) {
    ps_fixture fixture = {
        .servers = 2, .workers = 1, .slots = 4, .copies = 2, .optimizers = optimizers, .optimizer_count = 1};
    const mr_ps_array array = {.name = "a", .dims = 1, .shape = {4}};
    mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 2, .optimizer = "own:eager", .rate = 0.5f);
    mr_ps_table *table = NULL, *dense = NULL, *none = NULL;
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    mr_ps *ps = connect_to(&fixture, 0);
    assert_int_equal(mr_ps_table_create(ps, "rows", &options, PS_FIXTURE_PATIENCE_US, &table), MR_OK);
    options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = 3);
    options.optimizer = "own:eager";
    options.rate = 0.5f;
    assert_int_equal(mr_ps_table_create(ps, "dense", &options, PS_FIXTURE_PATIENCE_US, &dense), MR_OK);
    options.optimizer = "own:nobody";
    assert_int_equal(mr_ps_table_create(ps, "none", &options, PS_FIXTURE_PATIENCE_US, &none), MR_NOT_FOUND);
    assert_said("has no optimizer 'nobody'");
    push(ps, table, dense);
    has(ps, table, dense, 0.5f);
    push(ps, table, dense);
    has(ps, table, dense, 1.5f);
    mr_ps_replica dead = ps_fixture_process(&fixture, 0); /* the counts are on the other replica, too */
    ps_fixture_kill(&fixture, &fixture.server[0]);
    ps_fixture_start_server(&fixture, 0);
    assert_true(ps_fixture_full(&fixture, 0, &dead));
    push(ps, table, dense);
    has(ps, table, dense, 3);
    mr_ps_table_free(table);
    mr_ps_table_free(dense);
    mr_ps_close(ps);
    fixture.workers = 0;
    assert_true(ps_fixture_fini(&fixture));
}

static void optimizers_are_checked(void **state) {
    const mr_ps_optimizer twice[] = {{"same", 0, eager, NULL}, {"same", 0, eager, NULL}};
    const mr_ps_optimizer bad[] = {{"", 0, eager, NULL},
                                   {"none", 0, NULL, NULL},
                                   {"states", 5, eager, NULL},
                                   {"a name that is far too long", 0, eager, NULL}};
    mr_ps_server_options options =
        MR_OPTIONS(mr_ps_server_options, .scheduler = "unix:/nowhere/s", .optimizers = twice, .optimizer_count = 2);
    assert_int_equal(mr_ps_run_server(&options), MR_INVALID);
    assert_said("two optimizers have the name 'same'");
    options.optimizer_count = 1;
    for (int i = 0; i < 4; i++) {
        options.optimizers = &bad[i];
        assert_int_equal(mr_ps_run_server(&options), MR_INVALID);
    }
    options.optimizers = NULL;
    assert_int_equal(mr_ps_run_server(&options), MR_INVALID);
    assert_said("optimizers is NULL");
    options.optimizer_count = 0;
    options.apps = &(mr_ps_app){.app = -1};
    options.app_count = 1;
    assert_int_not_equal(mr_ps_run_server(&options), MR_OK);
}

/* ---- Metrics. */

enum { COUNT = 1, REPORT = 2, KEEP = 3 };
#define TOO_LONG "a key that has as many bytes as there are, so that no NUL has any room"
_Static_assert(sizeof TOO_LONG > MR_PS_NAME_MAX, "it is");

/* Sets a metric to the number of requests, and answers with the status. */
static void count_it(void *context, mr_ps_message *message) {
    int *count = context;
    *count += 1;
    mr_status status = mr_ps_message_metric_set(message, "requests", *count);
    if (mr_ps_respond(message, (int)status, NULL, 0) != MR_OK) *count = -1;
}

/* Sets the metric named by the body (empty: no name) to the head. The answer has status and error. */
static void report_it(void *context, mr_ps_message *message) {
    mr_ps_request request;
    char key[128];
    mr_ps_message_get(message, &request);
    snprintf(key, sizeof key, "%.*s", (int)request.size, (const char *)request.body);
    mr_status status = mr_ps_message_metric_set(message, request.head < 0 ? NULL : key, request.head);
    const char *why = status == MR_OK ? "" : mr_last_error();
    if (mr_ps_respond(message, (int)status, why, strlen(why) + 1) != MR_OK) *(int *)context = -1;
}

static void keep_it(void *context, mr_ps_message *message) { *(mr_ps_message **)context = message; }

static int counted; /* count of this process */
static const mr_ps_app apps[] = {{COUNT, count_it, &counted}, {REPORT, report_it, &counted}};

/* Sends a request. Returns the status in the answer; `why`: the text of the answer. */
static mr_status ask(mr_ps *ps, mr_ps_peer to, int app, int head, const char *key, char why[256]) {
    mr_ps_ticket ticket;
    mr_ps_responses *all = NULL;
    assert_int_equal(mr_ps_send(ps, to, app, head, key, strlen(key), NULL, NULL, &ticket), MR_OK);
    assert_int_equal(mr_ps_responses_wait(ps, ticket, PS_FIXTURE_PATIENCE_US, &all), MR_OK);
    assert_int_equal(all->count, 1);
    assert_int_equal(all->list->status, MR_OK);
    mr_status status = (mr_status)all->list->head;
    if (why != NULL) snprintf(why, 256, "%.*s", (int)all->list->size, (const char *)all->list->body);
    mr_ps_responses_free(all);
    return status;
}

/* The metric of a process; all zeros: no metric of that name. */
static mr_ps_metric shown(const ps_fixture *fixture, mr_ps_peer node, const char *key) {
    mr_ps_processes *process_table = NULL;
    mr_ps_metric found = {.count = 0};
    assert_int_equal(mr_ps_processes_get(fixture->address, PS_FIXTURE_PATIENCE_US, &process_table), MR_OK);
    for (uint32_t i = 0; i < process_table->count; i++) {
        const mr_ps_process *process = &process_table->processes[i];
        if (process->role != node.role || process->number != node.number) continue;
        for (uint32_t k = 0; k < process->metric_count; k++)
            if (strcmp(process->metrics[k].key, key) == 0) found = process->metrics[k];
    }
    mr_ps_processes_free(process_table);
    return found;
}

static void wait_until_shown(const ps_fixture *fixture, mr_ps_peer node, const char *key, double value,
                             uint64_t count) {
    for (int i = 0; i < 600 && shown(fixture, node, key).count != count; i++) usleep(100000);
    assert_true(shown(fixture, node, key).count == count && shown(fixture, node, key).value == value);
}

static ps_fixture begin_reports(void) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = 2, .copies = 1, .apps = apps, .app_count = 2};
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    return fixture;
}

static void status_has(const ps_fixture *fixture, const char *arguments, const char *who, const char *what) {
    char text[16384];
    assert_true(ps_fixture_status(fixture, arguments, text, sizeof text));
    const char *from = strstr(text, who), *found = from == NULL ? NULL : strstr(from, what);
    if (found == NULL) fprintf(stderr, "no '%s' behind '%s' in:\n%s\n", what, who, text);
    assert_non_null(found);
}

static void a_server_program_reports(void **state) {
    const mr_ps_peer servers[] = {{MR_PS_SERVERS, 0}, {MR_PS_SERVERS, 1}}, scheduler = {MR_PS_SCHEDULER, 0};
    ps_fixture fixture = begin_reports();
    mr_ps *ps = connect_to(&fixture, 0);
    for (int i = 0; i < 3; i++) assert_int_equal(ask(ps, servers[1], COUNT, 0, "", NULL), MR_OK);
    assert_int_equal(ask(ps, servers[0], COUNT, 0, "", NULL), MR_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(ask(ps, scheduler, COUNT, 0, "", NULL), MR_OK);
    wait_until_shown(&fixture, servers[1], "requests", 3, 3); /* each process counts by itself */
    wait_until_shown(&fixture, servers[0], "requests", 1, 1);
    wait_until_shown(&fixture, scheduler, "requests", 2, 2);
    status_has(&fixture, "", "PROCESS    METRICS", "\nscheduler  requests 2");
    status_has(&fixture, "", "PROCESS    METRICS", "\nserver 0   requests 1");
    status_has(&fixture, "", "PROCESS    METRICS", "\nserver 1   requests 3");
    status_has(&fixture, "--json", "\"role\":\"server\",\"number\":1,",
               "\"metrics\":[{\"key\":\"requests\",\"value\":3");
    mr_ps_close(ps);
    fixture.workers = 0;
    assert_true(ps_fixture_fini(&fixture));
}

static void reports_of_a_server_program_are_checked(void **state) {
    const mr_ps_peer server = {MR_PS_SERVERS, 0};
    ps_fixture fixture = begin_reports();
    mr_ps *ps = connect_to(&fixture, 0);
    char key[16], why[256];
    assert_int_equal(ask(ps, server, REPORT, 0, "", why), MR_INVALID);
    assert_int_equal(ask(ps, server, REPORT, -1, "", why), MR_INVALID);
    assert_int_equal(ask(ps, server, REPORT, 0, TOO_LONG, why), MR_INVALID);
    for (int i = 0; i < MR_PS_METRICS_MAX; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(ask(ps, server, REPORT, i, key, why), MR_OK);
    }
    assert_int_equal(ask(ps, server, REPORT, 1, "one more", why), MR_TOO_LARGE);
    assert_non_null(strstr(why, "the limit is 16"));
    assert_int_equal(ask(ps, server, REPORT, 100, "k15", why), MR_OK); /* an existing metric may change */
    wait_until_shown(&fixture, server, "k15", 100, 2);
    wait_until_shown(&fixture, server, "k0", 0, 1);
    assert_int_equal(shown(&fixture, server, "one more").count, 0);
    mr_ps_close(ps);
    fixture.workers = 0;
    assert_true(ps_fixture_fini(&fixture));
}

/* The handler of a worker sets metrics of its rank, until the connection is closed. */
static void so_does_a_handler_of_a_worker(void **state) {
    const mr_ps_peer self = {MR_PS_WORKERS, 0};
    ps_fixture fixture = begin_reports();
    mr_ps *ps = connect_to(&fixture, 0);
    mr_ps_message *kept = NULL;
    mr_ps_ticket ticket;
    mr_ps_responses *all = NULL;
    assert_int_equal(mr_ps_handle(ps, REPORT, report_it, &counted), MR_OK);
    assert_int_equal(mr_ps_handle(ps, KEEP, keep_it, &kept), MR_OK);
    assert_int_equal(ask(ps, self, REPORT, 7, "asked", NULL), MR_OK);
    assert_int_equal(mr_ps_send(ps, self, KEEP, 0, NULL, 0, NULL, NULL, &ticket), MR_OK);
    assert_int_equal(mr_ps_responses_wait(ps, ticket, 1000000, &all), MR_TIMEOUT);
    wait_until_shown(&fixture, self, "asked", 7, 1);
    mr_ps_close(ps);
    assert_non_null(kept);
    assert_int_equal(mr_ps_message_metric_set(kept, "late", 1), MR_CLOSED);
    assert_int_equal(mr_ps_respond(kept, 0, NULL, 0), MR_CLOSED);
    fixture.workers = 0;
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- Draining. */

/* Slots have one replica: nothing is lost, no generation begins, and training continues while slots move. */
static void slots_move_before_a_server_leaves(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 2, .slots = 8, .copies = 1, .steps = 120, .step_us = 10000};
    fixture.consistency = MR_PS_BSP;
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start(&fixture));
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    assert_true(ps_fixture_reaches(&fixture, 10));
    uint64_t generation = ps_fixture_generation(&fixture);
    mr_ps_replica gone = ps_fixture_process(&fixture, 0);
    kill(fixture.server[0], SIGTERM);
    assert_int_equal(test_child_wait(fixture.server[0], ENDS_MS), 0);
    fixture.server[0] = 0;
    assert_true(ps_fixture_full(&fixture, 0, &gone)); /* its slots had moved before its end */
    assert_int_equal(ps_fixture_generation(&fixture), generation);
    ps_fixture_start_server(&fixture, 0); /* a drained server may return */
    uint64_t back = 0;
    for (int i = 0; i < PS_FIXTURE_PATIENCE_US / 1000 && (back == 0 || back == gone.incarnation); i++) {
        usleep(1000);
        back = ps_fixture_process(&fixture, 0).incarnation;
    }
    assert_true(back != 0 && back != gone.incarnation); /* a signal before it serves would kill it */
    assert_true(ps_fixture_trained(&fixture));
    assert_int_equal(ps_fixture_generation(&fixture), generation);
    assert_true(ps_fixture_fini(&fixture));
}

static void the_last_one_need_not_wait(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = 2, .copies = 1};
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    /* Drains both servers, so that none can take slots. */
    for (uint32_t i = 0; i < 2; i++) kill(fixture.server[i], SIGTERM);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(test_child_wait(fixture.server[i], ENDS_MS), 0);
        fixture.server[i] = 0;
    }
    fixture.workers = 0;
    assert_true(ps_fixture_fini(&fixture));
}

static void a_second_signal_ends_it(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = 2, .copies = 1};
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    kill(fixture.server[1], SIGSTOP); /* stopped, so that no slot can move there */
    kill(fixture.server[0], SIGTERM);
    usleep(100000);
    kill(fixture.server[0], SIGTERM);
    assert_int_equal(test_child_wait(fixture.server[0], ENDS_MS), 0);
    fixture.server[0] = 0;
    kill(fixture.server[1], SIGCONT);
    fixture.workers = 0;
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_program_has_optimizers_of_its_own),
        cmocka_unit_test(optimizers_are_checked),
        cmocka_unit_test(a_server_program_reports),
        cmocka_unit_test(reports_of_a_server_program_are_checked),
        cmocka_unit_test(so_does_a_handler_of_a_worker),
        cmocka_unit_test(slots_move_before_a_server_leaves),
        cmocka_unit_test(the_last_one_need_not_wait),
        cmocka_unit_test(a_second_signal_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
