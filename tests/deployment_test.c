/* deployment_test.c — a parameter server as actors of the runtime: the node restarts killed processes, no acknowledged
 * push is lost, the actors are listed like others, and nothing is left however the driver ends. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "miniray/deployment.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

enum { PATIENCE_US = 60 * 1000 * 1000, SERVERS = 3, RANKS = 2, STEPS = 40, KEYS = 64, DIM = 4 };

static mr_context *mr;
static mr_ps_deployment *deployment;

static mr_ps_scheduler_options shape_of(mr_ps_consistency consistency) {
    return MR_OPTIONS(mr_ps_scheduler_options, .num_servers = SERVERS, .num_workers = RANKS, .slots = 6, .replicas = 2,
                      .consistency = consistency);
}

/* Starts the deployment. Servers use epoll beside the runtime's descriptors; ThreadSanitizer's suppressions
 * (tools/tsan-suppressions) match by function name. */
static bool opens(const void *world) {
    char options[600];
    runtime_fixture_enter(world);
    const char *before = getenv("TSAN_OPTIONS");
    snprintf(options, sizeof options, "%s:symbolize=1", before == NULL ? "" : before);
    setenv("TSAN_OPTIONS", options, 1);
    return runtime_fixture_open(world, &mr) == MR_OK;
}

static bool starts(const void *world, mr_ps_consistency consistency) {
    const mr_ps_scheduler_options shape = shape_of(consistency);
    mr_ps_start_options options = MR_OPTIONS(mr_ps_start_options, .scheduler = &shape);
    return opens(world) && mr_ps_start(mr, &options, PATIENCE_US, &deployment) == MR_OK;
}

/* Whether every slot has both replicas, none of them on this process of a server (0: none is dead). */
static bool is_full(uint32_t server, uint64_t dead) {
    mr_ps_cluster_map *map;
    if (mr_ps_cluster_map_get(mr_ps_address(deployment), PATIENCE_US, &map) != MR_OK) return false;
    bool full = map->number != 0;
    for (uint32_t i = 0; i < map->slot_count; i++) {
        full &= map->slots[i].count == 2;
        for (uint32_t k = 0; k < map->slots[i].count; k++)
            full &= map->slots[i].replicas[k].server != server || map->slots[i].replicas[k].incarnation != dead;
    }
    mr_ps_cluster_map_free(map);
    return full;
}

static bool becomes_full(uint32_t server, uint64_t dead) {
    for (int64_t until = runtime_fixture_now_ms() + PATIENCE_US / 1000; runtime_fixture_now_ms() < until; usleep(5000))
        if (is_full(server, dead)) return true;
    fprintf(stderr, "not all copies are there in time\n");
    return false;
}

static uint64_t incarnation_of(uint32_t server) {
    mr_ps_cluster_map *map;
    if (mr_ps_cluster_map_get(mr_ps_address(deployment), PATIENCE_US, &map) != MR_OK) return 0;
    uint64_t incarnation = map->servers[server].incarnation;
    mr_ps_cluster_map_free(map);
    return incarnation;
}

/* Kills the process of a server, and waits until the node has started another one in its place. */
static bool replaces(int server) {
    int before, now;
    if (mr_ps_pid(mr, deployment, server, PATIENCE_US, &before) != MR_OK || kill(before, SIGKILL) != 0) return false;
    for (int64_t until = runtime_fixture_now_ms() + PATIENCE_US / 1000; runtime_fixture_now_ms() < until; usleep(1000))
        if (mr_ps_pid(mr, deployment, server, PATIENCE_US, &now) == MR_OK && now != before) return true;
    return false;
}

/* ---- Inspection. */

static bool has_text(const mr_value *row, const char *field, const char *expected) {
    mr_value value;
    mr_span text;
    return mr_value_field(row, field, &value) == MR_OK && mr_value_str(&value, &text) == MR_OK &&
           text.size >= strlen(expected) &&
           memcmp((const char *)text.data + text.size - strlen(expected), expected, strlen(expected)) == 0;
}

static int64_t number_of(const mr_value *row, const char *field) {
    mr_value value;
    int64_t number = -1;
    if (mr_value_field(row, field, &value) != MR_OK || mr_value_int(&value, &number) != MR_OK) return -1;
    return number;
}

/* Number of starts of the living actor whose name ends in `name`; -1: no such actor. */
static int64_t starts_of(const char *name, const char *class_name) {
    mr_inspect *inspect;
    mr_value answer, actors, row;
    int64_t found = -1;
    if (mr_inspect_within(mr, &inspect) != MR_OK) return -1;
    if (mr_inspect_ask(inspect, "actors", NULL, 100, &answer) == MR_OK) {
        bool listed = mr_value_field(&answer, "actors", &actors) == MR_OK;
        for (size_t i = 0; listed && mr_value_item(&actors, i, &row) == MR_OK; i++)
            if (has_text(&row, "name", name) && has_text(&row, "class", class_name) && has_text(&row, "state", "alive"))
                found = number_of(&row, "starts");
        mr_value_release(&answer);
    }
    mr_inspect_close(inspect);
    return found;
}

static int64_t free_of(const char *resource) {
    mr_inspect *inspect;
    mr_value answer, rows, row;
    int64_t found = -1;
    if (mr_inspect_within(mr, &inspect) != MR_OK) return -1;
    if (mr_inspect_ask(inspect, "resources", NULL, 100, &answer) == MR_OK) {
        bool listed = mr_value_field(&answer, "resources", &rows) == MR_OK;
        for (size_t i = 0; listed && mr_value_item(&rows, i, &row) == MR_OK; i++)
            if (has_text(&row, "name", resource)) found = number_of(&row, "free");
        mr_value_release(&answer);
    }
    mr_inspect_close(inspect);
    return found;
}

/* ---- Tests. */

static int start_and_stop(void *world) {
    int pids[SERVERS + 1];
    uint64_t key = 7, step;
    float one = 1, found = 0;
    mr_ps *ps;
    mr_ps_table *table;
    TEST_CHILD_CHECK(starts(world, MR_PS_ASP));
    TEST_CHILD_CHECK(mr_ps_connect(mr_ps_address(deployment), 0, PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_table_create(ps, "t", &MR_OPTIONS(mr_ps_table_options, .dim = 1), PATIENCE_US, &table) ==
                     MR_OK);
    TEST_CHILD_CHECK(mr_ps_begin(ps, PATIENCE_US, &step) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_push(table, &key, 1, &one, NULL, NULL, NULL) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_pull(table, &key, 1, &found, NULL, NULL, NULL) == MR_OK && found == 1);
    for (int i = MR_PS_THE_SCHEDULER; i < SERVERS; i++) {
        TEST_CHILD_CHECK(mr_ps_pid(mr, deployment, i, PATIENCE_US, &pids[i + 1]) == MR_OK && pids[i + 1] != getpid());
        for (int k = 0; k <= i; k++) TEST_CHILD_CHECK(pids[k] != pids[i + 1]);
    }
    int natives[SERVERS + 2];
    TEST_CHILD_CHECK(runtime_fixture_find(world, "MINIRAY_BOOT=native", natives, SERVERS + 2) == SERVERS + 1);
    TEST_CHILD_CHECK(mr_ps_pid(mr, deployment, SERVERS, PATIENCE_US, &pids[0]) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(starts_of("/scheduler", "miniray.PsScheduler") == 1);
    TEST_CHILD_CHECK(starts_of("/server-2", "miniray.PsServer") == 1);
    mr_ps_stop(mr, deployment);
    TEST_CHILD_CHECK(mr_ps_pull(table, &key, 1, &found, NULL, NULL, NULL) == MR_PEER_DIED);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "has ended: its scheduler (process ") != NULL);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    TEST_CHILD_CHECK(starts_of("/scheduler", "miniray.PsScheduler") == -1);
    for (int64_t until = runtime_fixture_now_ms() + PATIENCE_US / 1000; kill(pids[SERVERS], 0) == 0; usleep(1000))
        TEST_CHILD_CHECK(runtime_fixture_now_ms() < until);
    const mr_ps_scheduler_options shape = shape_of(MR_PS_BSP);
    mr_ps_start_options options =
        MR_OPTIONS(mr_ps_start_options, .scheduler = &shape); /* another deployment in the same driver */
    TEST_CHILD_CHECK(mr_ps_start(mr, &options, PATIENCE_US, &deployment) == MR_OK);
    TEST_CHILD_CHECK(becomes_full(0, 0));
    mr_shutdown(mr); /* the deployment ends with the runtime */
    mr_ps_stop(NULL, deployment);
    return 0;
}

static void it_starts_and_leaves_nothing(void **state) {
    assert_int_equal(test_child_run(start_and_stop, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

/* Pushes ones while servers and the scheduler are killed. Each acknowledged push counts once. */
static int push_under_fire(void *world) {
    uint64_t keys[KEYS], step;
    float ones[KEYS], found[KEYS];
    int pushed = 0;
    mr_ps *ps;
    mr_ps_table *table;
    TEST_CHILD_CHECK(starts(world, MR_PS_ASP));
    TEST_CHILD_CHECK(mr_ps_connect(mr_ps_address(deployment), 0, PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_table_create(ps, "sums", &MR_OPTIONS(mr_ps_table_options, .dim = 1), PATIENCE_US, &table) ==
                     MR_OK);
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = 3 * i + 1;
        ones[i] = 1;
    }
    TEST_CHILD_CHECK(mr_ps_begin(ps, PATIENCE_US, &step) == MR_OK);
    for (int server = MR_PS_THE_SCHEDULER; server < SERVERS; server++) {
        TEST_CHILD_CHECK(becomes_full(0, 0));
        uint64_t dead = server < 0 ? 0 : incarnation_of((uint32_t)server);
        for (int i = 0; i < 5; i++, pushed++)
            TEST_CHILD_CHECK(mr_ps_push(table, keys, KEYS, ones, NULL, NULL, NULL) == MR_OK);
        TEST_CHILD_CHECK(replaces(server));
        for (int i = 0; i < 5; i++, pushed++)
            TEST_CHILD_CHECK(mr_ps_push(table, keys, KEYS, ones, NULL, NULL, NULL) == MR_OK);
        TEST_CHILD_CHECK(becomes_full(server < 0 ? 0 : (uint32_t)server, dead));
        TEST_CHILD_CHECK(mr_ps_pull(table, keys, KEYS, found, NULL, NULL, NULL) == MR_OK);
        for (int i = 0; i < KEYS; i++) TEST_CHILD_CHECK(found[i] == (float)pushed);
    }
    TEST_CHILD_CHECK(starts_of("/scheduler", "miniray.PsScheduler") == 2);
    TEST_CHILD_CHECK(starts_of("/server-1", "miniray.PsServer") == 2);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    mr_ps_stop(mr, deployment);
    mr_shutdown(mr);
    return 0;
}

static void a_killed_process_is_restarted(void **state) {
    assert_int_equal(test_child_run(push_under_fire, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "a parameter server whose processes were killed");
}

/* Two ranks in rounds; their pushes are a function of the pulled values. With `kills` every server dies once. */
static bool trains(bool kills, float weights[KEYS * DIM]) {
    mr_ps *ps[RANKS];
    mr_ps_table *tables[RANKS];
    uint64_t keys[KEYS], step;
    const mr_ps_scheduler_options shape = shape_of(MR_PS_BSP);
    mr_ps_start_options options = MR_OPTIONS(mr_ps_start_options, .scheduler = &shape);
    const mr_ps_table_options rows = MR_OPTIONS(mr_ps_table_options, .dim = DIM, .optimizer = "adagrad", .rate = 0.1f);
    if (mr_ps_start(mr, &options, PATIENCE_US, &deployment) != MR_OK) return false;
    for (uint64_t i = 0; i < KEYS; i++) keys[i] = 5 * i;
    for (int rank = 0; rank < RANKS; rank++)
        if (mr_ps_connect(mr_ps_address(deployment), rank, PATIENCE_US, &ps[rank]) != MR_OK ||
            mr_ps_table_create(ps[rank], "w", &rows, PATIENCE_US, &tables[rank]) != MR_OK)
            return false;
    for (int i = 0; i < STEPS; i++) {
        int victim = i / 10;
        if (kills && i % 10 == 5 && victim < SERVERS && (!becomes_full(0, 0) || !replaces(victim))) return false;
        mr_ps_ticket tickets[RANKS];
        float gradients[RANKS][KEYS * DIM];
        for (int rank = 0; rank < RANKS; rank++) {
            if (mr_ps_begin(ps[rank], PATIENCE_US, &step) != MR_OK || step != (uint64_t)i) return false;
            if (mr_ps_pull(tables[rank], keys, KEYS, gradients[rank], NULL, NULL, NULL) != MR_OK) return false;
            for (int k = 0; k < KEYS * DIM; k++)
                gradients[rank][k] = 0.25f * gradients[rank][k] - (float)(k % 7 + rank + 1) / (float)(i + 3);
            if (mr_ps_push(tables[rank], keys, KEYS, gradients[rank], NULL, NULL, &tickets[rank]) != MR_OK)
                return false;
            if (mr_ps_end(ps[rank]) != MR_OK) return false;
        }
        for (int rank = 0; rank < RANKS; rank++)
            if (mr_ps_wait(ps[rank], tickets[rank], PATIENCE_US) != MR_OK) return false;
    }
    for (int rank = 0; rank < RANKS; rank++)
        if (mr_ps_begin(ps[rank], PATIENCE_US, &step) != MR_OK) return false;
    bool seen = mr_ps_pull(tables[0], keys, KEYS, weights, NULL, NULL, NULL) == MR_OK;
    for (int rank = 0; rank < RANKS; rank++) {
        mr_ps_table_free(tables[rank]);
        mr_ps_close(ps[rank]);
    }
    mr_ps_stop(mr, deployment);
    return seen;
}

static int train_twice(void *world) {
    static float calm[KEYS * DIM], fire[KEYS * DIM];
    TEST_CHILD_CHECK(opens(world));
    TEST_CHILD_CHECK(trains(false, calm));
    TEST_CHILD_CHECK(trains(true, fire));
    TEST_CHILD_CHECK(calm[1] != 0 && memcmp(calm, fire, sizeof calm) == 0);
    mr_shutdown(mr);
    return 0;
}

static void training_under_fire_has_the_same_bits(void **state) {
    assert_int_equal(test_child_run(train_twice, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "training");
}

static int count_resources(void *world) {
    const mr_actor_options server = MR_OPTIONS(mr_actor_options, .num_cpus = 0.5);
    const mr_ps_scheduler_options shape = shape_of(MR_PS_ASP);
    mr_ps_start_options options = MR_OPTIONS(mr_ps_start_options, .scheduler = &shape);
    options.server = &server;
    TEST_CHILD_CHECK(opens(world));
    int64_t before = free_of("cpu");
    TEST_CHILD_CHECK(mr_ps_start(mr, &options, PATIENCE_US, &deployment) == MR_OK);
    TEST_CHILD_CHECK(becomes_full(0, 0));
    TEST_CHILD_CHECK(before == 2000 && free_of("cpu") == before - SERVERS * 500);
    mr_ps_stop(mr, deployment);
    for (int64_t until = runtime_fixture_now_ms() + PATIENCE_US / 1000; free_of("cpu") != before; usleep(1000))
        TEST_CHILD_CHECK(runtime_fixture_now_ms() < until);
    mr_shutdown(mr);
    return 0;
}

static void resources_of_servers_are_counted(void **state) {
    assert_int_equal(test_child_run(count_resources, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

/* A relative path is relative to the driver's folder, wherever its workers run. */
static int go_on_from_a_folder(void *world) {
    uint64_t key = 3, step, number;
    float seven = 7, found = 0;
    TEST_CHILD_CHECK(opens(world));
    TEST_CHILD_CHECK(chdir(((const runtime_fixture *)world)->folder) == 0);
    for (int i = 0; i < 2; i++) {
        mr_ps *ps;
        mr_ps_table *table;
        const mr_ps_scheduler_options shape =
            MR_OPTIONS(mr_ps_scheduler_options, .num_servers = 1, .num_workers = 1, .checkpoint_dir = "kept");
        mr_ps_start_options options = MR_OPTIONS(mr_ps_start_options, .scheduler = &shape);
        TEST_CHILD_CHECK(mr_ps_start(mr, &options, PATIENCE_US, &deployment) == MR_OK);
        TEST_CHILD_CHECK(mr_ps_connect(mr_ps_address(deployment), 0, PATIENCE_US, &ps) == MR_OK);
        TEST_CHILD_CHECK(mr_ps_table_create(ps, "t", &MR_OPTIONS(mr_ps_table_options, .dim = 1), PATIENCE_US, &table) ==
                         MR_OK);
        TEST_CHILD_CHECK(mr_ps_begin(ps, PATIENCE_US, &step) == MR_OK);
        if (i == 0) TEST_CHILD_CHECK(mr_ps_push(table, &key, 1, &seven, NULL, NULL, NULL) == MR_OK);
        TEST_CHILD_CHECK(mr_ps_pull(table, &key, 1, &found, NULL, NULL, NULL) == MR_OK && found == 7);
        TEST_CHILD_CHECK(mr_ps_end(ps) == MR_OK && mr_ps_flush(ps, PATIENCE_US) == MR_OK);
        TEST_CHILD_CHECK(mr_ps_checkpoint(mr_ps_address(deployment), PATIENCE_US, &number) == MR_OK);
        mr_ps_table_free(table);
        mr_ps_close(ps);
        mr_ps_stop(mr, deployment);
    }
    mr_shutdown(mr);
    return system("rm -r kept") == 0 ? 0 : 1;
}

static void a_folder_is_gone_on_from(void **state) {
    assert_int_equal(test_child_run(go_on_from_a_folder, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static bool refuses(const mr_ps_start_options *options, const char *told) {
    mr_ps_deployment *none = NULL;
    mr_status status = mr_ps_start(mr, options, PATIENCE_US, &none);
    bool so = status == MR_INVALID && none == NULL && strstr(mr_last_error(), told) != NULL;
    if (!so) fprintf(stderr, "status %d: '%s', not '%s'\n", status, mr_last_error(), told);
    return so;
}

static int ask_for_what_cannot_be(void *world) {
    const mr_ps_app app = {0};
    TEST_CHILD_CHECK(opens(world));
    mr_ps_scheduler_options shape = MR_OPTIONS(mr_ps_scheduler_options, .num_workers = 1);
    mr_ps_start_options options = MR_OPTIONS(mr_ps_start_options, .scheduler = &shape);
    TEST_CHILD_CHECK(refuses(&options, "servers is 0"));
    shape.num_servers = MR_PS_SERVERS_MAX + 1;
    TEST_CHILD_CHECK(refuses(&options, "servers is 1025"));
    shape.num_servers = 1;
    shape.replicas = 2; /* error of the scheduler's process */
    TEST_CHILD_CHECK(refuses(&options, "2 replicas of each slot"));
    shape.replicas = 1;
    shape.listen = "nowhere";
    TEST_CHILD_CHECK(refuses(&options, "nowhere"));
    shape.listen = NULL;
    shape.apps = &app;
    TEST_CHILD_CHECK(refuses(&options, "apps"));
    TEST_CHILD_CHECK(mr_ps_start(mr, NULL, PATIENCE_US, &deployment) == MR_INVALID);
    TEST_CHILD_CHECK(mr_ps_start(NULL, &options, PATIENCE_US, &deployment) == MR_INVALID);
    shape.apps = NULL;
    TEST_CHILD_CHECK(mr_ps_start(mr, &MR_OPTIONS(mr_ps_start_options, .memory_bytes = 1), PATIENCE_US, &deployment) ==
                     MR_INVALID);
    const mr_actor_options named = MR_OPTIONS(mr_actor_options, .name = "mine");
    options.server = &named;
    TEST_CHILD_CHECK(refuses(&options, "server.name is set"));
    mr_ps_stop(mr, NULL);
    mr_shutdown(mr);
    return 0;
}

static void invalid_options_are_reported(void **state) {
    assert_int_equal(test_child_run(ask_for_what_cannot_be, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

/* The scheduler can listen, but the socket addresses of servers in the same folder are too long. */
static int start_where_servers_cannot(void *world) {
    enum { ROOM = 52 };
    char folder[] = "/tmp/mr-XXXXXX", address[ROOM + 1];
    int pid;
    TEST_CHILD_CHECK(opens(world) && mkdtemp(folder) != NULL);
    memset(address, 's', ROOM);
    address[ROOM] = '\0';
    address[snprintf(address, sizeof address, "unix:%s/", folder)] = 's';
    const mr_ps_scheduler_options shape =
        MR_OPTIONS(mr_ps_scheduler_options, .num_workers = 1, .num_servers = 1, .listen = address);
    mr_ps_start_options options = MR_OPTIONS(mr_ps_start_options, .scheduler = &shape);
    TEST_CHILD_CHECK(mr_ps_start(mr, &options, PATIENCE_US, &deployment) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_pid(mr, deployment, 0, PATIENCE_US, &pid) != MR_OK);
    if (strstr(mr_last_error(), "too long for a socket beside it") == NULL) fprintf(stderr, "%s\n", mr_last_error());
    TEST_CHILD_CHECK(strstr(mr_last_error(), "too long for a socket beside it") != NULL);
    mr_ps_stop(mr, deployment);
    mr_shutdown(mr);
    unlink(address + strlen("unix:"));
    return rmdir(folder);
}

static void a_server_that_cannot_begin_says_why(void **state) {
    assert_int_equal(test_child_run(start_where_servers_cannot, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int wait_to_be_killed(void *world) {
    TEST_CHILD_CHECK(starts(world, MR_PS_ASP));
    TEST_CHILD_CHECK(becomes_full(0, 0));
    TEST_CHILD_CHECK(runtime_fixture_ready(world));
    for (;;) pause();
}

static void a_killed_program_takes_it_along(void **state) {
    pid_t pid = test_child_start(wait_to_be_killed, *state);
    runtime_fixture_await(*state);
    kill(pid, SIGKILL);
    assert_int_equal(test_child_wait(pid, RUNTIME_FIXTURE_CHILD_MS), -SIGKILL);
    runtime_fixture_gone(*state, "kill -9 of the program");
}

static int kill_the_node(void *world) {
    int node;
    TEST_CHILD_CHECK(starts(world, MR_PS_ASP));
    TEST_CHILD_CHECK(becomes_full(0, 0));
    TEST_CHILD_CHECK(runtime_fixture_find(world, "MINIRAY_BOOT=node", &node, 1) == 1 && kill(node, SIGKILL) == 0);
    int64_t until = runtime_fixture_now_ms() + PATIENCE_US / 1000;
    while (runtime_fixture_processes(world) > 0) {
        TEST_CHILD_CHECK(runtime_fixture_now_ms() < until);
        usleep(1000);
    }
    mr_ps_stop(mr, deployment); /* no process is left to be notified */
    mr_shutdown(mr);
    return 0;
}

static void a_killed_node_takes_it_along(void **state) {
    assert_int_equal(test_child_run(kill_the_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "kill -9 of the node");
}

/* Whether the status says that the deployment has ended, and the text has the part. */
static bool says_the_end(mr_status status, const char *part) {
    bool so = status == MR_PEER_DIED && strstr(mr_last_error(), part) != NULL;
    if (!so) fprintf(stderr, "status %d: '%s', not '%s'\n", status, mr_last_error(), part);
    return so;
}

/* A worker that waits for the parameter server, not for the runtime. */
static int await_the_end_of_the_node(void *world) {
    int node;
    uint64_t key = 7, step;
    float one = 1, found = 0;
    char cause[128];
    mr_ps *ps, *other;
    mr_ps_table *table;
    mr_ps_cluster_map *map;
    TEST_CHILD_CHECK(starts(world, MR_PS_ASP));
    TEST_CHILD_CHECK(mr_ps_connect(mr_ps_address(deployment), 0, PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_table_create(ps, "t", &MR_OPTIONS(mr_ps_table_options, .dim = 1), PATIENCE_US, &table) ==
                     MR_OK);
    TEST_CHILD_CHECK(mr_ps_begin(ps, PATIENCE_US, &step) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_push(table, &key, 1, &one, NULL, NULL, NULL) == MR_OK);
    TEST_CHILD_CHECK(runtime_fixture_find(world, "MINIRAY_BOOT=node", &node, 1) == 1 && kill(node, SIGKILL) == 0);
    snprintf(cause, sizeof cause, "the node (process %d), which runs it, was killed by signal 9 (SIGKILL)", node);
    int64_t began = runtime_fixture_now_ms();
    mr_status status = MR_OK;
    while (status == MR_OK)
        status = mr_ps_pull(table, &key, 1, &found, NULL, NULL, NULL); /* until servers are killed */
    TEST_CHILD_CHECK(says_the_end(status, cause));
    TEST_CHILD_CHECK(says_the_end(mr_ps_flush(ps, PATIENCE_US), cause) || mr_ps_flush(ps, PATIENCE_US) == MR_OK);
    TEST_CHILD_CHECK(says_the_end(mr_ps_barrier(ps, "all", MR_PS_WORKERS, PATIENCE_US), cause));
    TEST_CHILD_CHECK(says_the_end(mr_ps_connect(mr_ps_address(deployment), 1, PATIENCE_US, &other), "has ended: "));
    TEST_CHILD_CHECK(says_the_end(mr_ps_cluster_map_get(mr_ps_address(deployment), PATIENCE_US, &map), "has ended: "));
    TEST_CHILD_CHECK(runtime_fixture_now_ms() - began < 10 * 1000); /* ten times the bar */
    mr_ps_table_free(table);
    mr_ps_close(ps);
    mr_ps_stop(mr, deployment);
    mr_shutdown(mr);
    return 0;
}

static void the_end_of_the_node_is_reported_at_once(void **state) {
    assert_int_equal(test_child_run(await_the_end_of_the_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "kill -9 of the node");
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(it_starts_and_leaves_nothing),
        IN_A_WORLD(a_killed_process_is_restarted),
        IN_A_WORLD(training_under_fire_has_the_same_bits),
        IN_A_WORLD(resources_of_servers_are_counted),
        IN_A_WORLD(a_folder_is_gone_on_from),
        IN_A_WORLD(invalid_options_are_reported),
        IN_A_WORLD(a_server_that_cannot_begin_says_why),
        IN_A_WORLD(a_killed_program_takes_it_along),
        IN_A_WORLD(a_killed_node_takes_it_along),
        IN_A_WORLD(the_end_of_the_node_is_reported_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
