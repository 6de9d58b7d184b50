/* sandbox_test.c — kernels that lack system calls, sandboxes that forbid them, and unusual surroundings: a driver with
 * tasks, an actor and a large value, a standalone node, and a parameter server work there, or the error names the call.
 *
 * Also: nodes, workers and servers cannot gain privileges.
 *
 * A test process installs a filter (tests/support/syscall_filter.h); the node, the workers, the scheduler and the
 * servers inherit it. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text_file.h"
#include "miniray/admin.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/syscall_filter.h"
#include "tests/support/test_child.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { PEERPIDFD = 77, WAIT_PIDFD = 3, NOEXEC_SEAL = 8 }; /* numbers of the kernel */
#define ALL UINT32_MAX

/* ---- Sandboxes. */

/* Linux 5.0: no pidfds at all. What came later than 5.3 is missing, too. */
static const syscall_rule linux_5_0[] = {
    {SYS_pidfd_open, ENOSYS},
    {SYS_pidfd_send_signal, ENOSYS},
    {SYS_getsockopt, ENOPROTOOPT, 2, ALL, PEERPIDFD},
    {SYS_waitid, EINVAL, 0, ALL, WAIT_PIDFD},
    {SYS_close_range, ENOSYS},
    {SYS_clone3, ENOSYS},
    {SYS_memfd_create, EINVAL, 1, NOEXEC_SEAL, NOEXEC_SEAL},
};

/* A profile that is older than the calls, and forbids what it does not know. */
static const syscall_rule strict[] = {
    {SYS_pidfd_open, EPERM},  {SYS_pidfd_send_signal, EPERM}, {SYS_getsockopt, ENOPROTOOPT, 2, ALL, PEERPIDFD},
    {SYS_close_range, EPERM}, {SYS_clone3, ENOSYS},           {SYS_membarrier, EPERM},
};

/* A kernel that has pidfds of peers, in a sandbox that forbids pidfd_open. */
static const syscall_rule no_pidfd_open[] = {{SYS_pidfd_open, EPERM}};

static const syscall_rule no_flock[] = {{SYS_flock, ENOSYS}}; /* Lustre without the mount option */

static const syscall_rule no_beside[] = {{SYS_clone, EPERM, 0, CLONE_PARENT, CLONE_PARENT}, {SYS_clone3, ENOSYS}};

static const syscall_rule no_memfd[] = {{SYS_memfd_create, EPERM}};

static const syscall_rule no_spawn[] = {{SYS_clone, EPERM, 0, CLONE_VFORK, CLONE_VFORK}, {SYS_clone3, ENOSYS}};

/* What the default profile of Docker forbids a container without capabilities. */
static const syscall_rule docker[] = {
    {SYS_acct, EPERM},
    {SYS_add_key, EPERM},
    {SYS_bpf, EPERM},
    {SYS_clock_adjtime, EPERM},
    {SYS_clock_settime, EPERM},
    {SYS_clone, EPERM, 0, CLONE_NEWUSER, CLONE_NEWUSER},
    {SYS_clone3, ENOSYS},
    {SYS_delete_module, EPERM},
    {SYS_finit_module, EPERM},
    {SYS_get_mempolicy, EPERM},
    {SYS_init_module, EPERM},
    {SYS_kcmp, EPERM},
    {SYS_keyctl, EPERM},
    {SYS_mbind, EPERM},
    {SYS_mount, EPERM},
    {SYS_move_pages, EPERM},
    {SYS_name_to_handle_at, EPERM},
    {SYS_open_by_handle_at, EPERM},
    {SYS_perf_event_open, EPERM},
    {SYS_personality, EPERM},
    {SYS_pivot_root, EPERM},
    {SYS_process_vm_readv, EPERM},
    {SYS_process_vm_writev, EPERM},
    {SYS_ptrace, EPERM},
    {SYS_quotactl, EPERM},
    {SYS_reboot, EPERM},
    {SYS_request_key, EPERM},
    {SYS_set_mempolicy, EPERM},
    {SYS_setns, EPERM},
    {SYS_settimeofday, EPERM},
    {SYS_swapon, EPERM},
    {SYS_swapoff, EPERM},
    {SYS_umount2, EPERM},
    {SYS_unshare, EPERM},
    {SYS_userfaultfd, EPERM},
    {SYS_vhangup, EPERM},
    {SYS_io_uring_setup, EPERM},
    {SYS_io_uring_enter, EPERM},
    {SYS_io_uring_register, EPERM},
};

typedef struct sandbox {
    const char *name;
    const syscall_rule *rules;
    size_t count;
} sandbox;

#define SANDBOX(rules) \
    { #rules, rules, sizeof(rules) / sizeof *(rules) }
static const sandbox usable[] = {SANDBOX(linux_5_0), SANDBOX(strict),    SANDBOX(no_pidfd_open),
                                 SANDBOX(no_flock),  SANDBOX(no_beside), SANDBOX(docker)};
static const sandbox without_pidfds = SANDBOX(linux_5_0);
static const sandbox without_memfd = SANDBOX(no_memfd), without_spawn = SANDBOX(no_spawn);
enum { USABLE = sizeof usable / sizeof *usable };

typedef struct entry { /* of a test process into a sandbox */
    const sandbox *sandbox;
    const runtime_fixture *fixture;
} entry;

static bool filter(const entry *entry) {
    if (syscall_filter_install(entry->sandbox->rules, entry->sandbox->count)) return true;
    perror("syscall_filter_install");
    return false;
}

static bool enter(const entry *entry) {
    runtime_fixture_enter(entry->fixture);
    return filter(entry);
}

static int run(test_child_fn *fn, const sandbox *sandbox, const runtime_fixture *fixture) {
    return test_child_run(fn, &(entry){sandbox, fixture}, RUNTIME_FIXTURE_CHILD_MS);
}

/* Runs the function in every usable sandbox. */
static void run_in_all(test_child_fn *fn, const runtime_fixture *fixture, int expected) {
    size_t failed = 0;
    for (size_t i = 0; i < USABLE; i++) {
        int code = run(fn, &usable[i], fixture);
        bool good = code == expected && runtime_fixture_gone_after_ms(fixture, runtime_fixture_now_ms()) >= 0;
        print_message("    %s: %s (%d)\n", usable[i].name, good ? "works" : "FAILS", code);
        failed += !good;
    }
    assert_int_equal(failed, 0);
}

/* ---- The runtime. */

static mr_context *mr;
static const mr_fork hooks = {0};

MR_TASK(crash) {
    raise(SIGKILL);
    return MR_OK;
}

MR_CREATE(Counter) {
    int64_t *self = calloc(1, sizeof *self);
    return mr_set_self(call, self, free);
}
MR_METHOD(Counter, next) { return mr_return(call, mr_int(++*(int64_t *)mr_self(call))); }

static mr_status init(mr_context **out) {
    return mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64 << 20, .fork = &hooks), out);
}

static bool a_large_value_comes_back(void) {
    enum { COUNT = 1 << 18 };
    mr_ref ref;
    mr_value value;
    mr_tensor tensor;
    float *data = malloc(COUNT * sizeof *data);
    for (size_t i = 0; i < COUNT; i++) data[i] = (float)i;
    mr_status status = mr_put(mr, mr_vector(data, COUNT), &ref);
    free(data);
    if (status != MR_OK || mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) != MR_OK) return false;
    bool same = mr_value_tensor(&value, &tensor) == MR_OK && ((const float *)tensor.data)[COUNT - 1] == COUNT - 1;
    mr_value_release(&value);
    mr_release(mr, ref);
    return same;
}

static bool a_death_is_reported(void) { /* by the cause, not by a timeout */
    mr_ref ref;
    mr_value value;
    if (mr_task_submit(mr, "crash", &MR_OPTIONS(mr_task_options, .max_retries = -1), NULL, 0, &ref) != MR_OK)
        return false;
    mr_status status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    if (status != MR_WORKER_DIED || strstr(mr_last_error(), "SIGKILL") == NULL)
        fprintf(stderr, "%s: %s\n", mr_status_name(status), mr_last_error());
    bool told = status == MR_WORKER_DIED && strstr(mr_last_error(), "SIGKILL") != NULL;
    mr_release(mr, ref);
    return told;
}

static bool an_actor_counts(void) {
    mr_actor counter;
    mr_ref ref;
    if (mr_new_actor(mr, "Counter", &counter) != MR_OK) return false;
    for (int64_t i = 1; i < 4; i++)
        if (mr_call_actor(mr, counter, "next", &ref) != MR_OK || !runtime_gives(mr, ref, i)) return false;
    return true;
}

static bool all_works(void) {
    return runtime_works(mr) && an_actor_counts() && a_large_value_comes_back() && a_death_is_reported() &&
           runtime_works(mr);
}

static int drive(void *argument) {
    TEST_CHILD_CHECK(enter(argument));
    mr_status status = init(&mr);
    if (status != MR_OK) fprintf(stderr, "mr_init: %s\n", mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK && all_works());
    mr_shutdown(mr);
    return 0;
}

static void a_driver_works(void **state) { run_in_all(drive, *state, 0); }

static int die_driving(void *argument) {
    TEST_CHILD_CHECK(enter(argument));
    TEST_CHILD_CHECK(init(&mr) == MR_OK && runtime_works(mr));
    raise(SIGKILL);
    return 0;
}

static void a_driver_that_dies_leaves_nothing(void **state) { run_in_all(die_driving, *state, -SIGKILL); }

static int use_lasting_node(void *argument) {
    mr_node_info node;
    TEST_CHILD_CHECK(enter(argument));
    mr_status status = mr_node_start(&MR_OPTIONS(mr_node_options, .num_cpus = 2, .store_bytes = 64 << 20), &node);
    if (status != MR_OK) fprintf(stderr, "mr_node_start: %s\n", mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = "auto"), &mr) == MR_OK && all_works());
    mr_shutdown(mr);
    TEST_CHILD_CHECK(mr_node_stop(NULL, &node) == MR_OK);
    return 0;
}

static void a_lasting_node_works(void **state) { run_in_all(use_lasting_node, *state, 0); }

/* ---- Calls without which no node starts. */

static int miss(void *argument) {
    const entry *entry = argument;
    TEST_CHILD_CHECK(enter(entry));
    TEST_CHILD_CHECK(init(&mr) != MR_OK);
    fprintf(stderr, "%s\n", mr_last_error());
    const char *call = entry->sandbox == &without_memfd ? "memfd_create" : "posix_spawn";
    TEST_CHILD_CHECK(strstr(mr_last_error(), call) != NULL && strchr(mr_last_error(), '\n') == NULL);
    return 0;
}

static void a_call_that_a_node_needs_is_named(void **state) {
    assert_int_equal(run(miss, &without_memfd, *state), 0);
    runtime_fixture_gone(*state, "no memfd_create");
    assert_int_equal(run(miss, &without_spawn, *state), 0);
    runtime_fixture_gone(*state, "no posix_spawn");
}

/* ---- Surroundings. */

enum { VARIABLES = 15, VARIABLE_BYTES = 100000 }; /* together near the kernel's usual limit, 2 MB */

MR_TASK(count_environment) {
    int64_t bytes = 0;
    char name[32];
    for (int i = 0; i < VARIABLES; i++) {
        snprintf(name, sizeof name, "MINIRAY_TEST_%d", i);
        const char *text = getenv(name);
        bytes += text == NULL ? 0 : (int64_t)strlen(text);
    }
    return mr_return(call, mr_int(bytes));
}

static void fill_environment(void) {
    char *text = malloc(VARIABLE_BYTES + 1), name[32];
    memset(text, 'x', VARIABLE_BYTES);
    text[VARIABLE_BYTES] = '\0';
    for (int i = 0; i < VARIABLES; i++) {
        snprintf(name, sizeof name, "MINIRAY_TEST_%d", i);
        setenv(name, text, 1);
    }
    free(text);
}

static bool workers_have_the_environment(void) {
    mr_ref ref;
    return mr_call_task(mr, "count_environment", &ref) == MR_OK &&
           runtime_gives(mr, ref, (int64_t)VARIABLES * VARIABLE_BYTES);
}

static int bring_a_large_environment(void *argument) {
    mr_node_info node;
    runtime_fixture_enter(argument);
    mr_status status = mr_node_start(&MR_OPTIONS(mr_node_options, .num_cpus = 2, .store_bytes = 64 << 20), &node);
    TEST_CHILD_CHECK(status == MR_OK);
    fill_environment();
    status = mr_init(&MR_OPTIONS(mr_options, .address = "auto", .fork = &hooks), &mr);
    if (status != MR_OK) fprintf(stderr, "mr_init: %s\n", mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK && workers_have_the_environment());
    mr_shutdown(mr);
    TEST_CHILD_CHECK(mr_node_stop(NULL, &node) == MR_OK);
    TEST_CHILD_CHECK(init(&mr) == MR_OK && workers_have_the_environment()); /* with a private node */
    mr_shutdown(mr);
    return 0;
}

static void a_large_environment_reaches_the_workers(void **state) {
    assert_int_equal(test_child_run(bring_a_large_environment, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int drive_from_nowhere(void *argument) {
    const runtime_fixture *fixture = argument;
    char folder[TEMP_DIR_FOLDER_MAX + 8];
    mr_node_info node;
    runtime_fixture_enter(fixture);
    snprintf(folder, sizeof folder, "%s/here", fixture->folder);
    TEST_CHILD_CHECK(mkdir(folder, 0700) == 0 && chdir(folder) == 0 && rmdir(folder) == 0);
    TEST_CHILD_CHECK(init(&mr) == MR_OK && all_works());
    mr_shutdown(mr);
    TEST_CHILD_CHECK(mr_node_start(&MR_OPTIONS(mr_node_options, .num_cpus = 2, .store_bytes = 64 << 20), &node) ==
                     MR_OK);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = "auto"), &mr) == MR_OK && all_works());
    mr_shutdown(mr);
    TEST_CHILD_CHECK(mr_node_stop(NULL, &node) == MR_OK);
    return 0;
}

static void a_removed_working_directory_is_none(void **state) {
    assert_int_equal(test_child_run(drive_from_nowhere, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int drive_without_tmpdir(void *argument) {
    const runtime_fixture *fixture = argument;
    char folder[TEMP_DIR_FOLDER_MAX + 8];
    runtime_fixture_enter(fixture);
    snprintf(folder, sizeof folder, "%s/none", fixture->folder);
    setenv("TMPDIR", folder, 1);
    TEST_CHILD_CHECK(init(&mr) == MR_OK && all_works());
    mr_shutdown(mr);
    return 0;
}

static void a_missing_tmpdir_is_replaced(void **state) {
    assert_int_equal(test_child_run(drive_without_tmpdir, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

/* ---- The parameter server. */

static bool trains(ps_fixture *fixture) {
    enum { COUNT = 1 << 16 };
    static float ones[COUNT], pulled[COUNT];
    const mr_ps_array array = {.name = "a", .dims = 1, .shape = {COUNT}};
    mr_ps_table *table;
    mr_ps *ps = ps_fixture_connect(fixture, 0);
    for (size_t i = 0; i < COUNT; i++) ones[i] = 1;
    if (ps == NULL) return false;
    mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .optimizer = "add");
    mr_status status = mr_ps_table_create(ps, "t", &options, PS_FIXTURE_PATIENCE_US, &table);
    for (int i = 0; i < 3 && status == MR_OK; i++) status = mr_ps_push_array(table, 0, ones, 0, COUNT, NULL, NULL);
    if (status == MR_OK) status = mr_ps_pull_array(table, 0, pulled, 0, COUNT, NULL, NULL);
    if (status != MR_OK) fprintf(stderr, "%s: %s\n", mr_status_name(status), mr_last_error());
    mr_ps_table_free(table);
    mr_ps_close(ps);
    return status == MR_OK && pulled[0] == 3 && pulled[COUNT - 1] == 3;
}

static int serve(void *argument) {
    static ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .consistency = MR_PS_ASP};
    TEST_CHILD_CHECK(filter(argument));
    TEST_CHILD_CHECK(ps_fixture_init(&fixture) && ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    TEST_CHILD_CHECK(trains(&fixture));
    fixture.workers = 0; /* the test itself was the worker */
    TEST_CHILD_CHECK(ps_fixture_fini(&fixture));
    return 0;
}

static void a_parameter_server_works(void **state) {
    size_t failed = 0;
    for (size_t i = 0; i < USABLE; i++) {
        int code = run(serve, &usable[i], *state);
        print_message("    %s: %s (%d)\n", usable[i].name, code == 0 ? "works" : "FAILS", code);
        failed += code != 0;
    }
    assert_int_equal(failed, 0);
    print_message("    %s\n", without_memfd.name); /* without pipes in shared memory */
    assert_int_equal(run(serve, &without_memfd, *state), 0);
    runtime_fixture_gone(*state, "a parameter server");
}

static int stay(void *argument) { return pause(); }

/* `miniray ps local --parent-pid` ends with a process that is not its parent. */
static int serve_with_another(void *argument) {
    char path[4096], number[16], byte;
    int lines[2];
    TEST_CHILD_CHECK(enter(argument) && pipe2(lines, O_CLOEXEC) == 0);
    snprintf(path, sizeof path, "%s/miniray", getenv("MINIRAY_TEST_BUILD"));
    pid_t other = test_child_start(stay, NULL), local = fork();
    if (local == 0) {
        dup2(lines[1], STDOUT_FILENO);
        snprintf(number, sizeof number, "%d", (int)other);
        execl(path, "miniray", "ps", "local", "--num-servers=1", "--num-workers=1", "--parent-pid", number, NULL);
        _exit(126);
    }
    TEST_CHILD_CHECK(read(lines[0], &byte, 1) == 1); /* the address: the scheduler listens */
    kill(other, SIGKILL);
    TEST_CHILD_CHECK(test_child_wait(other, RUNTIME_FIXTURE_CHILD_MS) == -SIGKILL);
    TEST_CHILD_CHECK(test_child_wait(local, RUNTIME_FIXTURE_CHILD_MS) == 0);
    return 0;
}

static void servers_end_with_their_program(void **state) {
    assert_int_equal(run(serve_with_another, &without_pidfds, *state), 0);
    runtime_fixture_gone(*state, "miniray ps local");
}

/* ---- Privileges. */

MR_TASK(has_no_new_privs) { return mr_return(call, mr_int(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))); }
MR_METHOD(Counter, has_no_new_privs) { return mr_return(call, mr_int(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))); }

static bool workers_gain_nothing(void) {
    mr_ref ref;
    mr_actor counter;
    return mr_call_task(mr, "has_no_new_privs", &ref) == MR_OK && runtime_gives(mr, ref, 1) &&
           mr_new_actor(mr, "Counter", &counter) == MR_OK &&
           mr_call_actor(mr, counter, "has_no_new_privs", &ref) == MR_OK && runtime_gives(mr, ref, 1);
}

static int ask_workers(void *argument) {
    runtime_fixture_enter(argument);
    int before = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    TEST_CHILD_CHECK(init(&mr) == MR_OK && workers_gain_nothing()); /* forked from a zygote */
    mr_shutdown(mr);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 64 << 20), &mr) == MR_OK);
    TEST_CHILD_CHECK(workers_gain_nothing()); /* started by exec */
    mr_shutdown(mr);
    TEST_CHILD_CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == before); /* the driver is the user's */
    return 0;
}

static void workers_gain_no_privileges(void **state) {
    assert_int_equal(test_child_run(ask_workers, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static bool process_gains_nothing(pid_t pid) {
    char path[40], text[4096];
    uint64_t set = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return text_file_read(path, text, sizeof text) && text_file_number(text, "NoNewPrivs:", &set) && set == 1;
}

static void servers_gain_no_privileges(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .consistency = MR_PS_ASP};
    assert_true(ps_fixture_init(&fixture) && ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    assert_true(process_gains_nothing(fixture.scheduler));
    assert_true(process_gains_nothing(fixture.server[0]));
    fixture.workers = 0;
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(&MR_OPTIONS(mr_options, .fork = &hooks), &mr) != MR_OK;
    unsetenv("XDG_RUNTIME_DIR");
#define TEST(name) cmocka_unit_test_setup_teardown(name, runtime_fixture_make, runtime_fixture_unmake)
    const struct CMUnitTest tests[] = {
        TEST(a_driver_works),
        TEST(a_driver_that_dies_leaves_nothing),
        TEST(a_lasting_node_works),
        TEST(a_call_that_a_node_needs_is_named),
        TEST(a_large_environment_reaches_the_workers),
        TEST(a_removed_working_directory_is_none),
        TEST(a_missing_tmpdir_is_replaced),
        TEST(a_parameter_server_works),
        TEST(servers_end_with_their_program),
        TEST(workers_gain_no_privileges),
        TEST(servers_gain_no_privileges),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
