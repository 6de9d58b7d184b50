/* runtime_chaos_test.c — processes die at random under a mixed load (tests/support/chaos_load.h): every result is right
 * or its error names the cause, and at the end nothing is left: no process, file, descriptor, object, byte of the
 * arena.
 *
 *   workers_die             a driver with a private node and a small store; a worker is killed every 50 ms
 *   programs_and_nodes_die  drivers join a standalone node and leave; workers, drivers and the node itself are killed
 *   private_nodes_die       a driver is killed, interrupted, or loses its node, at any moment of its life
 *
 * Each lasts some seconds, or MINIRAY_CHAOS_SECONDS. Random choices come from MINIRAY_CHAOS_SEED, or a new seed, which
 * is printed: the same seed gives the same plan, though not the same timing.
 *
 * The drivers are children of this process, which has no threads, kills processes, and checks for remains. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "runtime/process/context.h"
#include "tests/support/chaos_load.h"
#include "tests/support/object_listing.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

enum {
    SECONDS_DEFAULT = 4,
    THREADS = 4,
    PROGRAMS = 3,
    KILL_EVERY_MS = 50,
    STORE_BYTES = 24 << 20, /* the loads keep about twice as many bytes */
    VICTIMS_MAX = 64,
    NODE_GONE = 3,                                 /* exit status of a driver that lost its node */
    ARENA_KEPT_MAX = STORE_BYTES / 16 + (1 << 20), /* bytes kept: event rings, and headers for the next objects */
    GROWTH_KB_MAX = 16 * 1024,
    FLAT_SECONDS_MIN = 20, /* a shorter run proves nothing about memory */
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

typedef struct totals {
    uint64_t right, lost, cancelled, acts;
} totals;

typedef struct program {
    const runtime_fixture *fixture;
    const char *address; /* NULL: a private node */
    uint64_t seed;
    int64_t until_ms;
    int threads;
    bool node_may_die;
    int told[2]; /* pipe for the driver's totals */
    pid_t pid;
} program;

static mr_context *mr;

static int seconds(void) {
    const char *text = getenv("MINIRAY_CHAOS_SECONDS");
    return text != NULL ? atoi(text) : SECONDS_DEFAULT;
}

static uint64_t seed(void) {
    const char *text = getenv("MINIRAY_CHAOS_SEED");
    uint64_t drawn = text != NULL ? strtoull(text, NULL, 0) : rng_system_seed() % 1000000;
    print_message("    MINIRAY_CHAOS_SEED=%" PRIu64 " MINIRAY_CHAOS_SECONDS=%d\n", drawn, seconds());
    return drawn;
}

static long anonymous_kb(int pid) {
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "RssAnon: %ld kB", &kb) == 1) break;
    if (file != NULL) fclose(file);
    return kb;
}

/* ---- A driver. */

typedef struct load_thread {
    pthread_t thread;
    chaos_load load;
    _Atomic bool *over;
    chaos_end end;
} load_thread;

static void *run_load(void *argument) {
    load_thread *self = argument;
    self->end = chaos_load_run(&self->load, self->over);
    if (self->end != CHAOS_DONE) atomic_store(self->over, true);
    return NULL;
}

/* Runs the driver's loads until the time is over; returns the worst result. */
static chaos_end run_loads(const program *program, totals *totals) {
    static load_thread threads[THREADS];
    _Atomic bool over = false;
    chaos_end end = CHAOS_DONE;
    for (int i = 0; i < program->threads; i++) {
        chaos_load_init(&threads[i].load, mr, program->seed * THREADS + (uint64_t)i);
        threads[i].load.node_may_die = program->node_may_die;
        threads[i].over = &over;
        if (pthread_create(&threads[i].thread, NULL, run_load, &threads[i]) != 0) abort();
    }
    while (runtime_fixture_now_ms() < program->until_ms && !atomic_load(&over)) poll(NULL, 0, 20);
    atomic_store(&over, true);
    for (int i = 0; i < program->threads; i++) {
        pthread_join(threads[i].thread, NULL);
        const chaos_load *load = &threads[i].load;
        totals->right += load->right;
        totals->lost += load->lost;
        totals->cancelled += load->cancelled;
        totals->acts += load->acts;
        if (threads[i].end == CHAOS_WRONG || (end == CHAOS_DONE && threads[i].end != CHAOS_DONE)) end = threads[i].end;
    }
    return end;
}

static mr_status open_runtime(const program *program) {
    mr_options options = MR_OPTIONS(mr_options, .address = program->address, .name_space = "chaos");
    if (program->address == NULL) options.num_workers = 3, options.store_bytes = STORE_BYTES;
    return mr_init(&options, &mr);
}

static int live(void *argument) {
    program *program = argument;
    totals totals = {0};
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL); /* shells start background processes with SIGINT ignored */
    runtime_fixture_enter(program->fixture);
    if (open_runtime(program) != MR_OK) {
        bool told = program->node_may_die && strstr(mr_last_error(), "node") != NULL;
        if (!told) fprintf(stderr, "mr_init: %s\n", mr_last_error());
        return told ? NODE_GONE : 1;
    }
    chaos_end end = run_loads(program, &totals);
    TEST_CHILD_CHECK(write(program->told[1], &totals, sizeof totals) == sizeof totals);
    TEST_CHILD_CHECK(end != CHAOS_WRONG);
    mr_shutdown(mr);
    return end == CHAOS_NODE_GONE ? NODE_GONE : 0;
}

/* Starts a driver, which lives at most this long. */
static void program_start(program *program, rng *rng, int64_t life_ms) {
    program->seed = rng_next(rng);
    program->until_ms = runtime_fixture_now_ms() + life_ms;
    program->pid = test_child_start(live, program);
    assert_true(program->pid > 0);
    setpgid(program->pid, program->pid); /* parent and child both call it: the first call counts */
}

static bool program_has_ended(const program *program) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)program->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == program->pid;
}

/* Waits for the driver's exit, as test_child_wait. At the timeout, other processes such as its node are dumped
 * first. */
static int program_end(const program *program) {
    int64_t start = runtime_fixture_now_ms();
    while (!program_has_ended(program) && runtime_fixture_now_ms() - start < RUNTIME_FIXTURE_GONE_MS) poll(NULL, 0, 1);
    if (!program_has_ended(program)) runtime_fixture_tell(program->fixture);
    return test_child_wait(program->pid, 0);
}

/* ---- Killing. */

/* Kills a random process of the role. Returns its pid, or 0 if there was none. */
static int kill_one(const runtime_fixture *fixture, const char *role, rng *rng) {
    int pids[VICTIMS_MAX];
    size_t count = runtime_fixture_find(fixture, role, pids, VICTIMS_MAX);
    if (count == 0) return 0;
    int pid = pids[rng_below(rng, count)];
    kill(pid, SIGKILL);
    return pid;
}

static int node_of(const runtime_fixture *fixture) {
    int pid = 0;
    return runtime_fixture_find(fixture, "MINIRAY_BOOT=node", &pid, 1) == 1 ? pid : 0;
}

static int parent_of(int pid) {
    char path[64], text[200] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC), parent = 0;
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0) {
        const char *name_end = strrchr(text, ')');
        if (name_end != NULL) sscanf(name_end, ") %*c %d", &parent);
    }
    if (fd >= 0) close(fd);
    return parent;
}

/* Returns the node started by this driver. Another node may run, of a driver that was killed while it started its
 * node. */
static int node_of_program(const program *program) {
    int pids[VICTIMS_MAX];
    size_t count = runtime_fixture_find(program->fixture, "MINIRAY_BOOT=node", pids, VICTIMS_MAX);
    for (size_t i = 0; i < count; i++)
        if (parent_of(pids[i]) == program->pid) return pids[i];
    return 0;
}

/* ---- Workers die. */

static int live_and_look(void *argument) { /* runs loads, and checks that nothing is left in the runtime */
    program *program = argument;
    totals totals = {0};
    runtime_fixture_enter(program->fixture);
    TEST_CHILD_CHECK(open_runtime(program) == MR_OK);
    mr_shutdown(mr); /* descriptors that a process opens only once are open by now */
    size_t fds = temp_dir_entries("/proc/self/fd"), tasks = temp_dir_entries("/proc/self/task");
    TEST_CHILD_CHECK(open_runtime(program) == MR_OK);
    TEST_CHILD_CHECK(runtime_fixture_ready(program->fixture));
    chaos_end end = run_loads(program, &totals);
    TEST_CHILD_CHECK(write(program->told[1], &totals, sizeof totals) == sizeof totals);
    TEST_CHILD_CHECK(end == CHAOS_DONE);
    context_lock(mr);
    size_t objects = mr->worker.objects.count, open = mr->worker.tasks.slab.taken;
    context_unlock(mr);
    TEST_CHILD_CHECK(open == 0);
    TEST_CHILD_CHECK(objects == 0);
    TEST_CHILD_CHECK(object_listing_settles(mr, 0)); /* no object is left in the store */
    node_store_stats stats = object_listing_of(mr);
    fprintf(stderr, "    %" PRIu64 " values went to disk, %" PRIu64 " came back\n", stats.spilled, stats.restored);
    TEST_CHILD_CHECK(stats.spilled > 0);
    mr_shutdown(mr);
    TEST_CHILD_CHECK(temp_dir_entries("/proc/self/fd") == fds);
    TEST_CHILD_CHECK(temp_dir_entries("/proc/self/task") == tasks);
    TEST_CHILD_CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    return 0;
}

static void totals_add(totals *sum, int fd) { /* results that drivers have reported so far */
    totals one;
    while (read(fd, &one, sizeof one) == sizeof one) {
        sum->right += one.right;
        sum->lost += one.lost;
        sum->cancelled += one.cancelled;
        sum->acts += one.acts;
    }
}

static void tell(const totals *totals, const char *killed, ...) {
    char text[200];
    va_list args;
    va_start(args, killed);
    vsnprintf(text, sizeof text, killed, args);
    va_end(args);
    print_message("    %" PRIu64 " acts: %" PRIu64 " results right, %" PRIu64 " lost with a cause, %" PRIu64
                  " cancelled; killed: %s\n",
                  totals->acts, totals->right, totals->lost, totals->cancelled, text);
}

static void workers_die(void **state) {
    runtime_fixture *fixture = *state;
    program program = {.fixture = fixture, .threads = THREADS};
    rng rng;
    totals totals = {0};
    uint64_t kills = 0;
    rng_init(&rng, seed());
    assert_int_equal(pipe2(program.told, O_CLOEXEC | O_NONBLOCK), 0);
    int64_t now = runtime_fixture_now_ms(), warm = now + seconds() * 250;
    program.until_ms = now + seconds() * 1000;
    program.seed = rng_next(&rng);
    program.pid = test_child_start(live_and_look, &program);
    runtime_fixture_await(fixture);
    int node = node_of(fixture);
    long before[2] = {0}, after[2] = {0};
    while (!program_has_ended(&program) && runtime_fixture_now_ms() < program.until_ms) {
        poll(NULL, 0, KILL_EVERY_MS);
        kills += kill_one(fixture, "MINIRAY_BOOT=worker", &rng) != 0;
        long *at = runtime_fixture_now_ms() < warm ? before : after;
        at[0] = anonymous_kb(program.pid), at[1] = anonymous_kb(node);
    }
    assert_int_equal(test_child_wait(program.pid, RUNTIME_FIXTURE_CHILD_MS), 0);
    totals_add(&totals, program.told[0]);
    tell(&totals, "%" PRIu64 " workers", kills);
    assert_true(totals.right > 0 && kills > 0);
    print_message("    memory of the program %ld → %ld KB, of the node %ld → %ld KB\n", before[0], after[0], before[1],
                  after[1]);
    if (!SANITIZED && seconds() >= FLAT_SECONDS_MIN) {
        assert_true(after[0] - before[0] < GROWTH_KB_MAX);
        assert_true(after[1] - before[1] < GROWTH_KB_MAX);
    }
    close(program.told[0]), close(program.told[1]);
    runtime_fixture_gone(fixture, "mr_shutdown");
}

/* ---- Drivers and nodes die. */

static int start_node(void *argument) {
    mr_node_info node;
    runtime_fixture_enter(argument);
    mr_node_options options = MR_OPTIONS(mr_node_options, .num_cpus = 3, .store_bytes = STORE_BYTES);
    mr_status status = mr_node_start(&options, &node);
    for (int i = 0; i < 1000 && status == MR_EXISTS; i++) { /* until the previous, killed node has ended */
        poll(NULL, 0, 10);
        status = mr_node_start(&options, &node);
    }
    if (status != MR_OK) fprintf(stderr, "mr_node_start: %s\n", mr_last_error());
    return status;
}

static int stop_node(void *argument) {
    mr_node_info node;
    runtime_fixture_enter(argument);
    return mr_node_stop(NULL, &node);
}

static int bury_the_shared_actor(void *argument) { /* kills the actor that outlives its drivers */
    mr_actor actor;
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = "auto", .name_space = "chaos"), &mr) == MR_OK);
    if (mr_actor_find(mr, "chaos", NULL, &actor) == MR_OK) TEST_CHILD_CHECK(mr_actor_kill(mr, actor) == MR_OK);
    TEST_CHILD_CHECK(object_listing_settles(mr, 0));
    mr_shutdown(mr);
    return 0;
}

static int64_t fact(const mr_value *status, const char *name) {
    mr_value facts, value;
    int64_t number = -1;
    if (mr_value_field(status, "node", &facts) != MR_OK || mr_value_field(&facts, name, &value) != MR_OK ||
        mr_value_int(&value, &number) != MR_OK)
        return -1;
    return number;
}

static int look_at_the_arena(void *argument) {
    mr_inspect *inspect;
    mr_value status;
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(mr_inspect_open(NULL, &inspect) == MR_OK);
    TEST_CHILD_CHECK(mr_inspect_ask(inspect, "status", NULL, 100, &status) == MR_OK);
    int64_t exported = fact(&status, "arena_lent"), rings = fact(&status, "arena_rings");
    fprintf(stderr, "    of the arena %" PRId64 " KB are slots and events, %" PRId64 " KB are our rings\n",
            exported / 1024, rings / 1024);
    TEST_CHILD_CHECK(exported >= 0 && exported <= ARENA_KEPT_MAX);
    TEST_CHILD_CHECK(rings >= 0 && rings <= ARENA_KEPT_MAX);
    mr_value_release(&status);
    mr_inspect_close(inspect);
    return 0;
}

typedef struct scene { /* a standalone node and its drivers */
    runtime_fixture *fixture;
    rng rng;
    program programs[PROGRAMS];
    int node;
    int64_t until_ms, worst_ms;
    totals totals;
    uint64_t workers, drivers, nodes; /* number of killed processes */
} scene;

static void start_one(scene *scene, program *program) {
    int64_t left_ms = scene->until_ms - runtime_fixture_now_ms(), life_ms = rng_between(&scene->rng, 100, 3000);
    program_start(program, &scene->rng, life_ms < left_ms ? life_ms : left_ms > 0 ? left_ms : 0);
}

static void start_all(scene *scene) {
    assert_int_equal(test_child_run(start_node, scene->fixture, RUNTIME_FIXTURE_CHILD_MS), 0);
    scene->node = node_of(scene->fixture);
    assert_true(scene->node > 0);
    for (int i = 0; i < PROGRAMS; i++) start_one(scene, &scene->programs[i]);
}

/* Kills the node. Every driver ends soon and reports the loss of the node; no process is left. */
static void lose_the_node(scene *scene) {
    int64_t start = runtime_fixture_now_ms();
    kill(scene->node, SIGKILL);
    scene->nodes++;
    for (int i = 0; i < PROGRAMS; i++) {
        int code = program_end(&scene->programs[i]);
        if (code != 0) assert_int_equal(code, NODE_GONE); /* 0: the driver had ended before */
    }
    while (runtime_fixture_processes(scene->fixture) > 0 && runtime_fixture_now_ms() - start < RUNTIME_FIXTURE_GONE_MS)
        poll(NULL, 0, 2);
    if (runtime_fixture_processes(scene->fixture) > 0) runtime_fixture_tell(scene->fixture);
    assert_int_equal(runtime_fixture_processes(scene->fixture), 0);
    int64_t took = runtime_fixture_now_ms() - start;
    if (took > scene->worst_ms) scene->worst_ms = took;
    start_all(scene);
}

static void lose_a_program(scene *scene) {
    program *program = &scene->programs[rng_below(&scene->rng, PROGRAMS)];
    kill(program->pid, SIGKILL);
    int code = program_end(program);
    if (code != 0) assert_int_equal(code, -SIGKILL);
    scene->drivers += code != 0;
    start_one(scene, program);
}

static void replace_those_that_ended(scene *scene) {
    for (int i = 0; i < PROGRAMS; i++) {
        if (!program_has_ended(&scene->programs[i])) continue;
        assert_int_equal(program_end(&scene->programs[i]), 0);
        start_one(scene, &scene->programs[i]);
    }
}

static void strike(scene *scene) {
    uint64_t what = rng_below(&scene->rng, 100);
    if (what < 2)
        lose_the_node(scene);
    else if (what < 10)
        lose_a_program(scene);
    else
        scene->workers += kill_one(scene->fixture, "MINIRAY_BOOT=worker", &scene->rng) != 0;
}

static void wait_until_alone(const scene *scene) {
    int64_t start = runtime_fixture_now_ms();
    while (runtime_fixture_processes(scene->fixture) > RUNTIME_FIXTURE_LASTING &&
           runtime_fixture_now_ms() - start < RUNTIME_FIXTURE_GONE_MS)
        poll(NULL, 0, 2);
    assert_int_equal(runtime_fixture_processes(scene->fixture), RUNTIME_FIXTURE_LASTING);
}

static void end_scene(scene *scene, size_t fds) {
    for (int i = 0; i < PROGRAMS; i++)
        assert_int_equal(test_child_wait(scene->programs[i].pid, RUNTIME_FIXTURE_CHILD_MS), 0);
    totals_add(&scene->totals, scene->programs[0].told[0]);
    tell(&scene->totals, "%" PRIu64 " workers, %" PRIu64 " programs, %" PRIu64 " nodes (all gone after %" PRId64 " ms)",
         scene->workers, scene->drivers, scene->nodes, scene->worst_ms);
    assert_int_equal(test_child_run(bury_the_shared_actor, scene->fixture, RUNTIME_FIXTURE_CHILD_MS), 0);
    wait_until_alone(scene);
    assert_int_equal(test_child_run(look_at_the_arena, scene->fixture, RUNTIME_FIXTURE_CHILD_MS), 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", scene->node);
    /* the last driver may be about to end */
    for (int i = 0; i < 1000 && temp_dir_entries(path) > fds; i++) poll(NULL, 0, 10);
    print_message("    the node has %zu descriptors, %zu at first, and %ld KB\n", temp_dir_entries(path), fds,
                  anonymous_kb(scene->node));
    assert_true(temp_dir_entries(path) <= fds);
    assert_int_equal(test_child_run(stop_node, scene->fixture, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(scene->fixture, "miniray stop");
}

static void programs_and_nodes_die(void **state) {
    scene scene = {.fixture = *state, .until_ms = runtime_fixture_now_ms() + seconds() * 1000};
    int told[2];
    char path[64];
    rng_init(&scene.rng, seed());
    assert_int_equal(pipe2(told, O_CLOEXEC | O_NONBLOCK), 0);
    for (int i = 0; i < PROGRAMS; i++)
        scene.programs[i] = (program){.fixture = scene.fixture,
                                      .address = "auto",
                                      .threads = 2,
                                      .node_may_die = true,
                                      .told = {told[0], told[1]}};
    assert_int_equal(test_child_run(start_node, scene.fixture, RUNTIME_FIXTURE_CHILD_MS), 0);
    snprintf(path, sizeof path, "/proc/%d/fd", node_of(scene.fixture));
    /* the actor may not exist yet */
    assert_int_equal(test_child_run(bury_the_shared_actor, scene.fixture, RUNTIME_FIXTURE_CHILD_MS), 0);
    wait_until_alone(&scene);
    size_t fds = temp_dir_entries(path);
    assert_int_equal(test_child_run(stop_node, scene.fixture, RUNTIME_FIXTURE_CHILD_MS), 0);
    start_all(&scene);
    while (runtime_fixture_now_ms() < scene.until_ms) {
        poll(NULL, 0, KILL_EVERY_MS);
        replace_those_that_ended(&scene);
        strike(&scene);
        totals_add(&scene.totals, told[0]);
    }
    end_scene(&scene, fds);
    close(told[0]), close(told[1]);
}

/* ---- Private nodes and their drivers, at any moment of their life. */

static void private_nodes_die(void **state) {
    runtime_fixture *fixture = *state;
    program program = {.fixture = fixture, .threads = 2, .node_may_die = true};
    rng rng;
    totals totals = {0};
    uint64_t killed[3] = {0};
    int64_t worst_ms = 0, until_ms = runtime_fixture_now_ms() + seconds() * 1000;
    rng_init(&rng, seed());
    assert_int_equal(pipe2(program.told, O_CLOEXEC | O_NONBLOCK), 0);
    while (runtime_fixture_now_ms() < until_ms) {
        program_start(&program, &rng, RUNTIME_FIXTURE_LONG_MS);
        poll(NULL, 0, (int)rng_below(&rng, rng_chance(&rng, 0.5) ? 30 : 500));
        int node = rng_chance(&rng, 0.4) ? node_of_program(&program) : 0,
            signal = rng_chance(&rng, 0.5) ? SIGINT : SIGKILL;
        int64_t start = runtime_fixture_now_ms();
        if (node > 0)
            kill(node, SIGKILL);
        else
            kill(signal == SIGINT ? -program.pid : program.pid, signal);
        assert_int_equal(program_end(&program), node > 0 ? NODE_GONE : -signal);
        killed[node > 0 ? 0 : signal == SIGINT ? 1 : 2]++;
        int64_t took = runtime_fixture_gone_after_ms(fixture, start);
        assert_true(took >= 0);
        if (took > worst_ms) worst_ms = took;
        totals_add(&totals, program.told[0]);
    }
    tell(&totals,
         "%" PRIu64 " nodes, %" PRIu64 " programs by Ctrl-C, %" PRIu64 " otherwise; all gone %" PRId64 " ms later",
         killed[0], killed[1], killed[2], worst_ms);
    close(program.told[0]), close(program.told[1]);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(workers_die),
        IN_A_WORLD(programs_and_nodes_die),
        IN_A_WORLD(private_nodes_die),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
