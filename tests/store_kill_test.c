/* store_kill_test.c — SIGKILL of processes that create or read objects, at every step: no other process is harmed.
 *
 * A host (broker, store server and spilling), a maker and a reader in processes of their own use all operations on
 * objects; this process is the witness, which takes a hold of each object that is shown. A dry run finds the failpoints
 * of the store that maker and reader pass. Then, for each of those, the run is repeated with the process killed there:
 * at the first visit and at the middle one.
 *
 * Checked afterwards: the bytes of the witness's objects are right, whichever process made them; the other process
 * ended normally; the host has no object, extent, table or file left, and every byte of the arena is free. Needs a
 * build with failpoints; without them it runs once undisturbed and skips the rest. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "bench/store_bench_host.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

enum {
    SHOWN = 6,
    ARENA_BYTES = 48 << 20,
    POINTS_MAX = 512,
    PATIENCE_US = 20 * 1000 * 1000,
    CODE_LATE = 4,
};

typedef enum role { MAKER, READER, ROLES } role;
static const char *const role_names[ROLES] = {"maker", "reader"};
static const uint64_t sizes[SHOWN] = {100, 50 * 1024, 3 << 20, 2000, 0, 300 * 1024};

typedef struct shared {
    _Atomic uint32_t published, witnessed, read, over;
    object_ref refs[SHOWN];
    uint32_t visits[ROLES][POINTS_MAX];
} shared;

static shared *process_table;

static void note_visits(role role) {
    for (size_t i = 0; i < failpoint_count() && i < POINTS_MAX; i++)
        process_table->visits[role][i] = failpoint_at(i)->visits;
}

static uint8_t byte_at(unsigned which, uint64_t at) { return (uint8_t)(which * 41 + at * 13 + (at >> 9)); }

static bool is_whole(unsigned which, const uint8_t *data, uint64_t size) {
    if (size != sizes[which]) return false;
    for (uint64_t i = 0; i < size; i++)
        if (data[i] != byte_at(which, i)) return false;
    return true;
}

typedef struct part { /* arguments of a child */
    const char *broker;
    const char *failpoint;
} part;

static bool wait_until(visitor *visitor, _Atomic uint32_t *counter, uint32_t value) {
    int64_t deadline = clock_now_us(clock_real()) + PATIENCE_US;
    while (atomic_load(counter) < value && !atomic_load(&process_table->over)) {
        if (clock_now_us(clock_real()) > deadline) return false;
        visitor_drive(visitor, 200);
    }
    return true;
}

/* ---- The maker. */

static int make_and_show(visitor *visitor, unsigned which) {
    store_client_object *object;
    void *data;
    TEST_CHILD_CHECK(visitor_create(visitor, sizes[which], &object, &data) == MR_OK);
    for (uint64_t i = 0; i < sizes[which]; i++) ((uint8_t *)data)[i] = byte_at(which, i);
    store_client_seal(visitor->store, object);
    store_client_ref(visitor->store, object, &process_table->refs[which]);
    atomic_store(&process_table->published, which + 1);
    if (!wait_until(visitor, &process_table->witnessed, which + 1)) return CODE_LATE;
    store_client_drop(visitor->store, object); /* the receiver has confirmed its hold */
    return 0;
}

static int make_for_itself(visitor *visitor) {
    store_client_object *object, *many[300];
    void *data;
    for (unsigned i = 0; i < 300; i++) {
        TEST_CHILD_CHECK(visitor_create(visitor, 64, &many[i], &data) == MR_OK);
        store_client_seal(visitor->store, many[i]);
    }
    for (unsigned i = 0; i < 300; i++) store_client_drop(visitor->store, many[i]);
    TEST_CHILD_CHECK(visitor_create(visitor, 100 * 1024, &object, &data) == MR_OK);
    store_client_abort(visitor->store, object);
    TEST_CHILD_CHECK(visitor_create(visitor, 16 << 20, &object, &data) == MR_OK);
    store_client_seal(visitor->store, object);
    /* Kept as a spare, which must be freed to make room for the next object. */
    store_client_drop(visitor->store, object);
    TEST_CHILD_CHECK(visitor_create(visitor, 22 << 20, &object, &data) == MR_OK);
    store_client_seal(visitor->store, object);
    uint64_t size;
    TEST_CHILD_CHECK(visitor_view(visitor, object, &data, &size) == MR_OK);
    store_client_unview(visitor->store, object);
    store_client_delete(visitor->store, object);
    store_client_drop(visitor->store, object);
    return 0;
}

/* Makes an object that is shown and dropped: the store server collects it, and the maker reuses its memory. */
static int make_in_passing(visitor *visitor) {
    store_client_object *object;
    void *data;
    object_ref ref;
    TEST_CHILD_CHECK(visitor_create(visitor, 10, &object, &data) == MR_OK);
    store_client_seal(visitor->store, object);
    store_client_ref(visitor->store, object, &ref);
    store_client_drop(visitor->store, object);
    int64_t deadline = clock_now_us(clock_real()) + PATIENCE_US;
    uint32_t before = store_client_stats_now(visitor->store).objects;
    while (store_client_stats_now(visitor->store).objects >= before) {
        if (clock_now_us(clock_real()) > deadline) return CODE_LATE;
        visitor_drive(visitor, 5000);
        store_client_poll(visitor->store);
    }
    return 0;
}

static int run_maker(void *argument) {
    part *part = argument;
    visitor visitor;
    if (part->failpoint != NULL) TEST_CHILD_CHECK(failpoint_arm(part->failpoint) == MR_OK);
    TEST_CHILD_CHECK(visitor_open(&visitor, part->broker, "maker") == MR_OK);
    int code = 0;
    for (unsigned i = 0; i < SHOWN && code == 0; i++) code = make_and_show(&visitor, i);
    if (code == 0) code = make_for_itself(&visitor);
    if (code == 0) code = make_in_passing(&visitor);
    visitor_close(&visitor);
    note_visits(MAKER);
    return code;
}

/* ---- The reader. */

static int read_one(visitor *visitor, unsigned which) {
    store_client_object *object, *again;
    void *data;
    uint64_t size;
    TEST_CHILD_CHECK(visitor_take(visitor, &process_table->refs[which], &object) == MR_OK);
    TEST_CHILD_CHECK(visitor_take(visitor, &process_table->refs[which], &again) == MR_OK && again == object);
    TEST_CHILD_CHECK(visitor_view(visitor, object, &data, &size) == MR_OK);
    TEST_CHILD_CHECK(is_whole(which, data, size));
    if (size > 0) memset(data, 0xee, size); /* writes to the private copy */
    store_client_unview(visitor->store, object);
    store_client_drop(visitor->store, again);
    store_client_drop(visitor->store, object);
    return 0;
}

static int run_reader(void *argument) {
    part *part = argument;
    visitor visitor;
    if (part->failpoint != NULL) TEST_CHILD_CHECK(failpoint_arm(part->failpoint) == MR_OK);
    TEST_CHILD_CHECK(visitor_open(&visitor, part->broker, "reader") == MR_OK);
    int code = 0;
    for (unsigned i = 0; i < SHOWN && code == 0; i++) {
        if (!wait_until(&visitor, &process_table->witnessed, i + 1)) code = CODE_LATE;
        if (atomic_load(&process_table->witnessed) < i + 1) break; /* the maker has ended */
        if (code == 0) code = read_one(&visitor, i);
        atomic_store(&process_table->read, i + 1);
    }
    visitor_close(&visitor);
    note_visits(READER);
    return code;
}

/* ---- The host. */

typedef struct store_host {
    char folder[TEMP_DIR_FOLDER_MAX], broker[TEMP_DIR_FOLDER_MAX + 8], spill[TEMP_DIR_FOLDER_MAX + 8];
    int ready[2], stop[2];
    pid_t pid;
} store_host;

static int serve(void *argument) {
    store_host *store_host = argument;
    close(store_host->stop[1]);
    return store_bench_host_run(&(store_bench_host_options){.broker = store_host->broker,
                                                            .folder = store_host->spill,
                                                            .arena_bytes = ARENA_BYTES,
                                                            .ready_fd = store_host->ready[1],
                                                            .stop_fd = store_host->stop[0],
                                                            .check = true});
}

static void store_host_start(store_host *store_host) {
    char byte;
    assert_true(temp_dir_folder(store_host->folder));
    snprintf(store_host->broker, sizeof store_host->broker, "%s/hub", store_host->folder);
    snprintf(store_host->spill, sizeof store_host->spill, "%s/spill", store_host->folder);
    assert_int_equal(pipe(store_host->ready), 0);
    assert_int_equal(pipe(store_host->stop), 0);
    store_host->pid = test_child_start(serve, store_host);
    close(store_host->ready[1]);
    close(store_host->stop[0]);
    assert_int_equal(read(store_host->ready[0], &byte, 1), 1);
    close(store_host->ready[0]);
}

static int store_host_stop(store_host *store_host) {
    close(store_host->stop[1]);
    int code = test_child_wait(store_host->pid, 30 * 1000);
    /* both folders must be empty */
    if (rmdir(store_host->spill) != 0 || rmdir(store_host->folder) != 0) code = code != 0 ? code : 90;
    return code;
}

/* ---- A run. */

static bool has_ended(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

typedef struct outcome {
    int codes[ROLES];
    int host;
    unsigned broken; /* objects of the witness whose bytes have changed */
} outcome;

/* Takes the objects that are shown until the maker has ended. */
static unsigned recorder(visitor *visitor, pid_t maker_pid, store_client_object **held) {
    unsigned count = 0;
    int64_t deadline = clock_now_us(clock_real()) + PATIENCE_US;
    while (!has_ended(maker_pid) && clock_now_us(clock_real()) < deadline) {
        visitor_drive(visitor, 200);
        if (atomic_load(&process_table->published) <= count) continue;
        assert_int_equal(visitor_take(visitor, &process_table->refs[count], &held[count]), MR_OK);
        atomic_store(&process_table->witnessed, ++count);
    }
    return count;
}

static outcome play(role victim, const char *failpoint) {
    store_host store_host;
    visitor visitor;
    store_client_object *held[SHOWN];
    outcome outcome = {0};
    memset(process_table, 0, offsetof(shared, visits));
    store_host_start(&store_host);
    part parts[ROLES] = {{store_host.broker, victim == MAKER ? failpoint : NULL},
                         {store_host.broker, victim == READER ? failpoint : NULL}};
    pid_t reader_pid = test_child_start(run_reader, &parts[READER]);
    pid_t maker_pid = test_child_start(run_maker, &parts[MAKER]);
    assert_int_equal(visitor_open(&visitor, store_host.broker, "witness"), MR_OK);
    unsigned count = recorder(&visitor, maker_pid, held);
    outcome.codes[MAKER] = test_child_wait(maker_pid, 1000);
    atomic_store(&process_table->over, 1);
    outcome.codes[READER] = test_child_wait(reader_pid, PATIENCE_US / 1000);
    for (unsigned i = 0; i < count; i++) {
        void *data;
        uint64_t size;
        if (visitor_view(&visitor, held[i], &data, &size) != MR_OK || !is_whole(i, data, size)) {
            outcome.broken++;
            continue;
        }
        store_client_unview(visitor.store, held[i]);
        store_client_drop(visitor.store, held[i]);
    }
    visitor_close(&visitor);
    outcome.host = store_host_stop(&store_host);
    return outcome;
}

/* ---- The tests. */

static int set_up(void **state) {
    process_table = mmap(NULL, sizeof *process_table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return process_table == MAP_FAILED;
}

static void undisturbed_everything_ends_well(void **state) {
    outcome outcome = play(ROLES, NULL);
    for (int i = 0; i < ROLES; i++) assert_int_equal(outcome.codes[i], 0);
    assert_int_equal(outcome.host, 0);
    assert_int_equal(outcome.broken, 0);
    assert_int_equal(atomic_load(&process_table->read), SHOWN);
}

typedef struct totals {
    unsigned scenes, bad, points;
} totals;

static bool kill_at(role victim, const char *name, unsigned nth, totals *totals) {
    char failpoint[128];
    snprintf(failpoint, sizeof failpoint, "%s=kill@%u", name, nth);
    outcome outcome = play(victim, failpoint);
    bool killed = outcome.codes[victim] == -SIGKILL;
    role other = victim == MAKER ? READER : MAKER;
    totals->scenes++;
    if ((killed || outcome.codes[victim] == 0) && outcome.codes[other] == 0 && outcome.host == 0 && outcome.broken == 0)
        return killed;
    totals->bad++;
    print_message("%s killed at %s: maker %d, reader %d, host %d, %u objects broken\n", role_names[victim], failpoint,
                  outcome.codes[MAKER], outcome.codes[READER], outcome.host, outcome.broken);
    return killed;
}

static void sweep(role victim, unsigned points_min) {
    if (failpoint_count() == 0) skip();
    outcome dry = play(ROLES, NULL);
    assert_int_equal(dry.host, 0);
    totals totals = {0};
    for (size_t i = 0; i < failpoint_count() && i < POINTS_MAX; i++) {
        const char *name = failpoint_at(i)->name;
        uint32_t visits = process_table->visits[victim][i];
        if (visits == 0 || strncmp(name, "store.", 6) != 0) continue;
        if (kill_at(victim, name, 1, &totals)) totals.points++;
        if (visits > 2) kill_at(victim, name, visits / 2 + 1, &totals);
    }
    print_message("%s: killed at %u points in %u scenes\n", role_names[victim], totals.points, totals.scenes);
    assert_int_equal(totals.bad, 0);
    assert_true(totals.points >= points_min);
}

static void the_maker_is_killed_at_every_step(void **state) { sweep(MAKER, 15); }
static void the_reader_is_killed_at_every_step(void **state) { sweep(READER, 8); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undisturbed_everything_ends_well),
        cmocka_unit_test(the_maker_is_killed_at_every_step),
        cmocka_unit_test(the_reader_is_killed_at_every_step),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
