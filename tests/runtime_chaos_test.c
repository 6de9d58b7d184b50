/* runtime_chaos_test.c — workers die at random under a mixed load: every result is right or says why there is none.
 *
 * Four threads submit tasks, nested tasks, actor calls and large values, while another one kills a random worker every
 * 50 ms. It lasts some seconds, or MINIRAY_SOAK_SECONDS. At the end no process, descriptor, folder or byte of the
 * program's objects may be left. The program is a child of this process, which looks after it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

#include "base/clock.h"
#include "base/rng.h"
#include "runtime/context.h"
#include "tests/support/child.h"
#include "tests/support/inventory.h"
#include "tests/support/temp.h"

enum {
    PATIENCE_US = 60 * 1000 * 1000, /* a result that takes longer hangs */
    SECONDS_DEFAULT = 4,
    THREADS = 4,
    KILL_EVERY_MS = 50,
    VICTIMS = 16,
    LARGE_COUNT = 300 * 1000, /* floats: more than fits a message */
    BATCH = 12,
};

static mr_context *mr;
static _Atomic bool over;
static _Atomic int victims[VICTIMS]; /* workers that were seen at work */
static _Atomic uint64_t right, lost, kills;

/* ---- What workers do. */

MR_TASK(square) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    return mr_return(call, mr_int(number * number));
}

MR_TASK(who) { return mr_return(call, mr_int(getpid())); }

MR_TASK(linger) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    poll(NULL, 0, 10);
    return mr_return(call, mr_int(number));
}

MR_TASK(nested) { /* depth: as many levels below, each of which adds one */
    int64_t depth, below = 0;
    mr_ref ref;
    mr_value value;
    mr_context *here = mr_call_context(call);
    MR_TRY(mr_arg_int(call, 0, &depth));
    if (depth > 0) {
        MR_TRY(mr_call_task(here, "nested", &ref, mr_int(depth - 1)));
        mr_status status = mr_get(here, ref, MR_FOREVER, &value);
        mr_release(here, ref);
        MR_TRY(status);
        status = mr_value_int(&value, &below);
        mr_value_release(&value);
        MR_TRY(status);
    }
    return mr_return(call, mr_int(below + 1));
}

MR_TASK(enlarge) { /* every item one more than it was */
    mr_tensor tensor;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    size_t count = tensor.bytes / sizeof(float);
    float *data = malloc(tensor.bytes + 1);
    for (size_t i = 0; i < count; i++) data[i] = ((const float *)tensor.data)[i] + 1;
    mr_status status = mr_return(call, mr_vector(data, count));
    free(data);
    return status;
}

MR_CREATE(Tally) { return mr_set_self(call, calloc(1, sizeof(int64_t)), free); }
MR_METHOD(Tally, next) {
    poll(NULL, 0, 5);
    return mr_return(call, mr_int(++*(int64_t *)mr_self(call)));
}
MR_METHOD(Tally, who) { return mr_return(call, mr_int(getpid())); }

/* ---- The load. Each returns false if something is wrong, which is more than a worker's death. */

static bool is_named_death(mr_status status) {
    const char *text = mr_last_error();
    if ((status == MR_WORKER_DIED || status == MR_ACTOR_DIED) && strstr(text, "SIGKILL") != NULL) {
        atomic_fetch_add(&lost, 1);
        return true;
    }
    fprintf(stderr, "%s: %s\n", mr_status_name(status), text);
    return false;
}

/* True: right, or lost for a reason that it names. `got` is false in the second case. */
static bool take_int(mr_ref ref, int64_t *number, bool *got) {
    mr_value value;
    mr_status status = mr_get(mr, ref, PATIENCE_US, &value);
    mr_release(mr, ref);
    *got = status == MR_OK;
    if (!*got) return is_named_death(status);
    status = mr_value_int(&value, number);
    mr_value_release(&value);
    atomic_fetch_add(&right, 1);
    return status == MR_OK;
}

static bool expect_int(mr_ref ref, int64_t expected) {
    int64_t number = 0;
    bool got;
    if (!take_int(ref, &number, &got)) return false;
    if (got && number != expected) fprintf(stderr, "%lld, not %lld\n", (long long)number, (long long)expected);
    return !got || number == expected;
}

static void offer_victim(mr_ref ref, rng *rng) {
    int64_t pid;
    bool got;
    if (take_int(ref, &pid, &got) && got) atomic_store(&victims[rng_below(rng, VICTIMS)], (int)pid);
}

static bool some_tasks(rng *rng) {
    mr_ref refs[BATCH], first, second;
    int64_t base = (int64_t)(rng_below(rng, 1000));
    for (int i = 0; i < BATCH; i++) {
        const char *name = i % 4 == 0 ? "linger" : "square";
        mr_task_options options = {.max_retries = i % 3 == 0 ? -1 : 0};
        if (mr_task_submit(mr, name, &options, MR_ARGS(mr_int(base + i)), &refs[i]) != MR_OK) return false;
    }
    if (mr_call_task(mr, "square", &first, mr_int(base)) != MR_OK) return false;
    if (mr_call_task(mr, "square", &second, mr_future(first)) != MR_OK) return false;
    bool fine = true;
    for (int64_t i = 0; i < BATCH; i++)
        fine = expect_int(refs[i], i % 4 == 0 ? base + i : (base + i) * (base + i)) && fine;
    mr_release(mr, first);
    return expect_int(second, base * base * base * base) && fine;
}

static bool some_nested(rng *rng) {
    mr_ref ref;
    int64_t depth = (int64_t)(rng_below(rng, 4));
    return mr_call_task(mr, "nested", &ref, mr_int(depth)) == MR_OK && expect_int(ref, depth + 1);
}

static bool some_large(rng *rng) {
    float *data = malloc(LARGE_COUNT * sizeof *data), start = (float)(rng_below(rng, 1000));
    for (int i = 0; i < LARGE_COUNT; i++) data[i] = start + (float)(i % 7);
    mr_ref one, two;
    mr_value value;
    mr_tensor tensor;
    mr_status status = mr_call_task(mr, "enlarge", &one, mr_vector(data, LARGE_COUNT));
    free(data);
    if (status != MR_OK || mr_call_task(mr, "enlarge", &two, mr_future(one)) != MR_OK) return false;
    status = mr_get(mr, two, PATIENCE_US, &value);
    mr_release(mr, one);
    mr_release(mr, two);
    if (status != MR_OK) return is_named_death(status);
    bool fine = mr_value_tensor(&value, &tensor) == MR_OK && tensor.bytes == LARGE_COUNT * sizeof(float);
    for (int i = 0; fine && i < LARGE_COUNT; i++) fine = ((const float *)tensor.data)[i] == start + (float)(i % 7) + 2;
    mr_value_release(&value);
    atomic_fetch_add(&right, 1);
    return fine;
}

/* What an actor counts goes up by one with every call, but begins again when it was started again. */
static bool some_actor(rng *rng) {
    mr_actor tally;
    mr_ref refs[BATCH], ref;
    int64_t before = 0, number;
    bool got;
    mr_task_options options = {.max_restarts = (int)(rng_below(rng, 3))};
    if (mr_actor_create(mr, "Tally", &options, NULL, 0, &tally) != MR_OK) return false;
    if (mr_call_actor(mr, tally, "who", &ref) != MR_OK) return false;
    for (int i = 0; i < BATCH; i++)
        if (mr_call_actor(mr, tally, "next", &refs[i]) != MR_OK) return false;
    offer_victim(ref, rng);
    bool fine = true;
    for (int i = 0; i < BATCH; i++) {
        fine = take_int(refs[i], &number, &got) && fine;
        if (!got) continue;
        fine = fine && (number == before + 1 || number == 1);
        before = number;
    }
    mr_status status = mr_actor_kill(mr, tally);
    if (status != MR_OK) fprintf(stderr, "kill: %s\n", mr_last_error());
    return fine && status == MR_OK;
}

static void *load(void *argument) {
    static int failed;
    rng rng;
    rng_init(&rng, (uint64_t)(uintptr_t)argument + 1);
    while (!atomic_load(&over)) {
        mr_ref ref;
        if (mr_call_task(mr, "who", &ref) != MR_OK) return &failed;
        offer_victim(ref, &rng);
        bool fine = true;
        switch (rng_below(&rng, 6)) {
        case 0: fine = some_large(&rng); break;
        case 1: fine = some_actor(&rng); break;
        case 2: fine = some_nested(&rng); break;
        default: fine = some_tasks(&rng); break;
        }
        if (!fine) {
            atomic_store(&over, true);
            return &failed;
        }
    }
    return NULL;
}

/* ---- Killing. */

static int parent_of(int pid) {
    char path[64], bytes[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC), parent = 0;
    if (fd < 0) return 0;
    ssize_t size = read(fd, bytes, sizeof bytes - 1);
    close(fd);
    bytes[size > 0 ? size : 0] = '\0';
    const char *at = strrchr(bytes, ')');
    return at != NULL && sscanf(at + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static void *kill_workers(void *argument) {
    rng rng;
    rng_init(&rng, 4711);
    while (!atomic_load(&over)) {
        poll(NULL, 0, KILL_EVERY_MS);
        size_t first = rng_below(&rng, VICTIMS);
        for (size_t i = 0; i < VICTIMS; i++) {
            int pid = atomic_exchange(&victims[(first + i) % VICTIMS], 0);
            if (pid == 0 || parent_of(pid) != mr->node_pid) continue;
            kill(pid, SIGKILL);
            atomic_fetch_add(&kills, 1);
            break;
        }
    }
    return NULL;
}

/* ---- The program. */

static size_t entries_of(const char *path) {
    DIR *folder = opendir(path);
    size_t count = 0;
    while (folder != NULL && readdir(folder) != NULL) count++;
    if (folder != NULL) closedir(folder);
    return count;
}

/* What a sanitizer finds in the node or a worker goes into the folder too, where it does not go unseen. */
static void report_into(const char *folder, const char *variable) {
    char options[512];
    const char *before = getenv(variable);
    snprintf(options, sizeof options, "%s:symbolize=0:log_path=%s/report", before == NULL ? "" : before, folder);
    setenv(variable, options, 1);
}

static void enter(const char *folder) {
    setenv("TMPDIR", folder, 1);
    report_into(folder, "ASAN_OPTIONS");
    report_into(folder, "UBSAN_OPTIONS");
    report_into(folder, "TSAN_OPTIONS");
}

static mr_status open_runtime(void) { return mr_init(&(mr_options){.num_workers = 3, .store_bytes = 256 << 20}, &mr); }

static int live_through_chaos(void *argument) {
    const char *soak = getenv("MINIRAY_SOAK_SECONDS");
    int seconds = soak != NULL ? atoi(soak) : SECONDS_DEFAULT;
    pthread_t threads[THREADS], killer;
    void *failed;
    bool fine = true;
    enter(argument);
    CHILD_CHECK(open_runtime() == MR_OK);
    mr_shutdown(mr); /* what a process opens once is open now */
    size_t fds = entries_of("/proc/self/fd"), tasks = entries_of("/proc/self/task");
    CHILD_CHECK(open_runtime() == MR_OK);
    for (int i = 0; i < THREADS; i++) CHILD_CHECK(pthread_create(&threads[i], NULL, load, (void *)(uintptr_t)i) == 0);
    CHILD_CHECK(pthread_create(&killer, NULL, kill_workers, NULL) == 0);
    for (int64_t end_ns = clock_ns() + seconds * INT64_C(1000000000); clock_ns() < end_ns && !atomic_load(&over);)
        poll(NULL, 0, 20);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        fine = fine && failed == NULL;
    }
    pthread_join(killer, NULL);
    CHILD_CHECK(fine);
    context_lock(mr);
    size_t objects = mr->client.objects.count, open = mr->client.tasks.open;
    context_unlock(mr);
    fprintf(stderr, "    %llu results were right, %llu lost with a cause, %llu workers killed\n",
            (unsigned long long)right, (unsigned long long)lost, (unsigned long long)kills);
    CHILD_CHECK(open == 0);
    CHILD_CHECK(objects == 0);
    CHILD_CHECK(right > 0 && kills > 0);
    CHILD_CHECK(inventory_settles(mr, 0)); /* nor in the store */
    mr_shutdown(mr);
    CHILD_CHECK(entries_of("/proc/self/fd") == fds);
    CHILD_CHECK(entries_of("/proc/self/task") == tasks);
    CHILD_CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    return 0;
}

static void every_result_is_right_or_names_its_cause(void **state) {
    const char *soak = getenv("MINIRAY_SOAK_SECONDS");
    char folder[TEMP_FOLDER_MAX];
    assert_true(temp_folder(folder));
    assert_int_equal(child_run(live_through_chaos, folder, (soak != NULL ? atoi(soak) : 0) * 1000 + 200 * 1000), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing was left in it */
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* a worker: serves here */
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_result_is_right_or_names_its_cause)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
