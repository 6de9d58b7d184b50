/* ps_fixture.c — see ps_fixture.h. */
#include "tests/support/ps_fixture.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/metadata_file.h"
#include "cluster/sqlite_import.h"
#include "tests/support/test_child.h"

enum { PATIENCE_MS = 60000, LOOK_US = 2000000 };
#define ANY UINT32_MAX /* any server number */

/* ---- The workload. */

static kv_workload lesson_of(const ps_fixture *fixture) {
    kv_workload workload = {.workers = fixture->workers};
    for (size_t part = 0; part < KV_WORKLOAD_PARTS; part++)
        workload.rounds[part] = fixture->consistency == MR_PS_BSP && (!fixture->mixed || part == KV_WORKLOAD_ROWS);
    return workload;
}

struct ps_fixture_page {
    uint64_t progress[PS_FIXTURE_WORKERS_MAX];
    uint64_t steps;                  /* number of steps */
    char address[MR_PS_ADDRESS_MAX]; /* address of the scheduler */
    uint32_t listening;              /* 1: the scheduler listens */
    kv_workload_weights seen;        /* weights of the last check */
    int64_t begun_us[PS_FIXTURE_WORKERS_MAX][PS_FIXTURE_BEGUN];
};

static uint64_t steps_of(const ps_fixture *fixture) { return __atomic_load_n(&fixture->page->steps, __ATOMIC_ACQUIRE); }

/* ---- Children. */

typedef struct role {
    ps_fixture fixture[1]; /* state at the start of this child */
    uint32_t number;
} role;

_Static_assert(sizeof(role) <= FORK_SERVER_ARGUMENT_MAX, "a role can be given to a child");

static void on_listening(void *context, const char *address) {
    struct ps_fixture_page *page = ((const role *)context)->fixture->page;
    snprintf(page->address, sizeof page->address, "%s", address);
    __atomic_store_n(&page->listening, 1, __ATOMIC_RELEASE);
}

static int be_scheduler(void *argument) {
    role *role = argument;
    const ps_fixture *fixture = role->fixture;
    mr_ps_scheduler_options options = MR_OPTIONS(
        mr_ps_scheduler_options, .listen = fixture->address, .checkpoint_dir = fixture->folder,
        .num_workers = fixture->workers, .num_servers = fixture->servers, .slots = fixture->slots,
        .replicas = fixture->copies, .consistency = fixture->consistency, .staleness = 2, .readers = fixture->readers,
        .mixed_consistency = fixture->mixed, .backup_workers = fixture->backup, .deadline_us = fixture->deadline_us,
        .checkpoint_us = fixture->checkpoint_us, .consistent_checkpoints = fixture->exact,
        .balance_us = fixture->balance_us == 0 ? -1 : fixture->balance_us, .on_listening = on_listening,
        .context = role, .apps = fixture->apps, .app_count = fixture->app_count);
    TEST_CHILD_CHECK(mr_ps_run_scheduler(&options) == MR_OK);
    return 0;
}

static int be_server(void *argument) {
    const role *role = argument;
    mr_ps_server_options options = MR_OPTIONS(
        mr_ps_server_options, .scheduler = role->fixture->address, .number = role->number == ANY ? 0 : 1 + role->number,
        .memory_bytes = role->fixture->memory, .apps = role->fixture->apps, .app_count = role->fixture->app_count,
        .optimizers = role->fixture->optimizers, .optimizer_count = role->fixture->optimizer_count);
    TEST_CHILD_CHECK(mr_ps_run_server(&options) == MR_OK);
    return 0;
}

typedef struct model {
    mr_ps_table *tables[KV_WORKLOAD_PARTS];
    uint64_t keys[KV_WORKLOAD_KEYS];
    uint32_t lengths[KV_WORKLOAD_KEYS];
} model;

static mr_status open_model(const ps_fixture *fixture, mr_ps *ps, model *model) {
    kv_workload_table tables[KV_WORKLOAD_PARTS];
    kv_workload_tables(tables);
    kv_workload_keys(model->keys, model->lengths);
    if (fixture->mixed) tables[KV_WORKLOAD_VECTORS].options.consistency = "ssp:1";
    if (fixture->mixed) tables[KV_WORKLOAD_ARRAY].options.consistency = "asp";
    for (int i = 0; i < KV_WORKLOAD_PARTS; i++)
        MR_TRY(mr_ps_table_create(ps, tables[i].name, &tables[i].options, PS_FIXTURE_PATIENCE_US, &model->tables[i]));
    return MR_OK;
}

static void close_model(model *model) {
    for (int i = 0; i < KV_WORKLOAD_PARTS; i++) mr_ps_table_free(model->tables[i]);
}

static mr_status pull(const model *model, kv_workload_weights out, mr_ps_ticket tickets[KV_WORKLOAD_PARTS]) {
    MR_TRY(mr_ps_pull(model->tables[KV_WORKLOAD_ROWS], model->keys, KV_WORKLOAD_KEYS, out[KV_WORKLOAD_ROWS], NULL, NULL,
                      &tickets[KV_WORKLOAD_ROWS]));
    MR_TRY(mr_ps_pull(model->tables[KV_WORKLOAD_VECTORS], model->keys, KV_WORKLOAD_KEYS, out[KV_WORKLOAD_VECTORS],
                      model->lengths, NULL, &tickets[KV_WORKLOAD_VECTORS]));
    return mr_ps_pull_array(model->tables[KV_WORKLOAD_ARRAY], 0, out[KV_WORKLOAD_ARRAY], 0, KV_WORKLOAD_ITEMS, NULL,
                            &tickets[KV_WORKLOAD_ARRAY]);
}

static mr_status push(const ps_fixture *fixture, const model *model, uint32_t rank, uint64_t step,
                      const kv_workload_weights parts, mr_ps_ticket tickets[KV_WORKLOAD_PARTS]) {
    const kv_workload workload = lesson_of(fixture);
    const mr_ps_request_options rows = MR_OPTIONS(mr_ps_request_options,
                                                  .rate = kv_workload_rate(&workload, KV_WORKLOAD_ROWS, rank, step)),
                                array = MR_OPTIONS(mr_ps_request_options,
                                                   .rate = kv_workload_rate(&workload, KV_WORKLOAD_ARRAY, rank, step));
    MR_TRY(mr_ps_push(model->tables[KV_WORKLOAD_ROWS], model->keys, KV_WORKLOAD_KEYS, parts[KV_WORKLOAD_ROWS], NULL,
                      &rows, &tickets[KV_WORKLOAD_ROWS]));
    if (fixture->gap_us != 0) usleep((useconds_t)fixture->gap_us);
    MR_TRY(mr_ps_push(model->tables[KV_WORKLOAD_VECTORS], model->keys, KV_WORKLOAD_KEYS, parts[KV_WORKLOAD_VECTORS],
                      model->lengths, NULL, &tickets[KV_WORKLOAD_VECTORS]));
    if (fixture->gap_us != 0) usleep((useconds_t)fixture->gap_us);
    return mr_ps_push_array(model->tables[KV_WORKLOAD_ARRAY], 0, parts[KV_WORKLOAD_ARRAY], 0, KV_WORKLOAD_ITEMS, &array,
                            &tickets[KV_WORKLOAD_ARRAY]);
}

static mr_status wait_for(mr_ps *ps, const mr_ps_ticket tickets[KV_WORKLOAD_PARTS]) {
    for (int i = 0; i < KV_WORKLOAD_PARTS; i++) MR_TRY(mr_ps_wait(ps, tickets[i], PS_FIXTURE_PATIENCE_US));
    return MR_OK;
}

/* Whether the tables without rounds contain all pushes of earlier steps. Beside tables with rounds they must, since a
 * rank has pushed everything before it ends a round. */
static bool has_all(const ps_fixture *fixture, uint64_t step, const kv_workload_weights shown) {
    const float *values = &shown[KV_WORKLOAD_VECTORS][0][0];
    for (size_t i = 0; fixture->mixed && i < sizeof(kv_workload_weights) / sizeof(float) / KV_WORKLOAD_PARTS * 2; i++)
        if (values[i] < (float)(step * fixture->workers)) return false;
    return true;
}

/* Runs a step; MR_STALE: the step must be repeated, or another one begun. */
static mr_status play(const ps_fixture *fixture, mr_ps *ps, const model *model, uint32_t rank, uint64_t step) {
    kv_workload_weights shown, parts;
    mr_ps_ticket tickets[KV_WORKLOAD_PARTS];
    MR_TRY(pull(model, shown, tickets));
    MR_TRY(wait_for(ps, tickets));
    if (!has_all(fixture, step, shown)) {
        fprintf(stderr, "rank %u is not shown in step %llu what was pushed before it\n", rank,
                (unsigned long long)step);
        return MR_CORRUPT;
    }
    if (fixture->step_us != 0) usleep((useconds_t)fixture->step_us);
    kv_workload workload = lesson_of(fixture);
    kv_workload_gradient(&workload, rank, step, shown, parts);
    MR_TRY(push(fixture, model, rank, step, parts, tickets));
    MR_TRY(mr_ps_end(ps));
    return wait_for(ps, tickets);
}

static mr_status compare(const ps_fixture *fixture, mr_ps *ps, const model *model, bool *same) {
    kv_workload_weights shown, expected;
    mr_ps_ticket tickets[KV_WORKLOAD_PARTS];
    kv_workload workload = lesson_of(fixture);
    kv_workload_reference(&workload, steps_of(fixture), expected);
    MR_TRY(pull(model, shown, tickets));
    MR_TRY(wait_for(ps, tickets));
    *same = memcmp(shown, expected, sizeof shown) == 0;
    if (*same || (fixture->consistency == MR_PS_BSP && !fixture->mixed)) return MR_OK;
    size_t first = workload.rounds[KV_WORKLOAD_ROWS] ? 1 : 0,
           count = (KV_WORKLOAD_PARTS - first) * (sizeof shown / sizeof(float) / KV_WORKLOAD_PARTS);
    const float *all = &shown[first][0][0], *most = &expected[first][0][0];
    for (size_t i = 0; i < count; i++)
        if (all[i] > most[i]) return MR_OK; /* a push was counted twice */
    usleep(2000);
    return MR_BUSY; /* other ranks are not done yet */
}

static void note_begun(const ps_fixture *fixture, uint32_t rank, uint64_t step) {
    struct ps_fixture_page *page = fixture->page;
    __atomic_store_n(&page->begun_us[rank][step % PS_FIXTURE_BEGUN], clock_now_us(clock_real()), __ATOMIC_RELAXED);
    __atomic_store_n(&page->progress[rank], step, __ATOMIC_RELEASE);
}

static int be_worker(void *argument) {
    const role *role = argument;
    const ps_fixture *fixture = role->fixture;
    mr_ps *ps;
    mr_status status = mr_ps_connect(fixture->address, (int)role->number, PS_FIXTURE_PATIENCE_US, &ps);
    if (status != MR_OK) fprintf(stderr, "rank %u cannot connect: %s\n", role->number, mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK);
    model model;
    status = open_model(fixture, ps, &model);
    if (status != MR_OK) fprintf(stderr, "rank %u has no tables: %s\n", role->number, mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK);
    bool over = false, same = false;
    while (!over) {
        uint64_t step;
        status = mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step);
        if (status == MR_OK) note_begun(fixture, role->number, step);
        if (status == MR_OK && step < steps_of(fixture))
            status = play(fixture, ps, &model, role->number, step);
        else if (status == MR_OK)
            over = compare(fixture, ps, &model, &same) == MR_OK;
        /* A wait inside a step would block a quiesce, and so all ranks. */
        if (status == MR_OK && !over && step >= steps_of(fixture) && fixture->exact) status = mr_ps_end(ps);
        if (status != MR_OK && status != MR_STALE) {
            fprintf(stderr, "rank %u: %s\n", role->number, mr_last_error());
            return 102;
        }
    }
    TEST_CHILD_CHECK(same);
    close_model(&model);
    mr_ps_close(ps);
    return 0;
}

static int look(void *argument) {
    const role *role = argument;
    mr_ps *ps;
    model model;
    mr_ps_ticket tickets[KV_WORKLOAD_PARTS];
    uint64_t step;
    TEST_CHILD_CHECK(mr_ps_connect(role->fixture->address, 0, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(open_model(role->fixture, ps, &model) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step) == MR_OK);
    TEST_CHILD_CHECK(pull(&model, role->fixture->page->seen, tickets) == MR_OK && wait_for(ps, tickets) == MR_OK);
    close_model(&model);
    mr_ps_close(ps);
    return 0;
}

/* ---- The fixture. */

bool ps_fixture_init(ps_fixture *fixture) {
    if (!temp_dir_folder(fixture->folder)) return false;
    if (fixture->tcp)
        strcpy(fixture->address, "tcp:127.0.0.1:0");
    else if (snprintf(fixture->address, sizeof fixture->address, "unix:%s/s", fixture->folder) >=
             MR_PS_ADDRESS_MAX - 16)
        return false;
    fixture->page = mmap(NULL, sizeof *fixture->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fixture->page == MAP_FAILED) return false;
    fixture->page->steps = fixture->steps == 0 ? UINT64_MAX : fixture->steps;
    fixture->progress = fixture->page->progress;
    return fork_server_open(&fixture->fork_server);
}

static pid_t start(const ps_fixture *fixture, test_child_fn *fn, uint32_t number) {
    role role = {.number = number};
    role.fixture[0] = *fixture;
    return fork_server_start(&fixture->fork_server, fn, &role, sizeof role);
}

/* Waits until the process listens; false: the process has ended, or time is up. */
static bool awaits(const ps_fixture *fixture, pid_t pid, int64_t until_us) {
    siginfo_t info = {0};
    if (__atomic_load_n(&fixture->page->listening, __ATOMIC_ACQUIRE) != 0) return false;
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) return false;
    return clock_now_us(clock_real()) < until_us;
}

bool ps_fixture_age(ps_fixture *fixture, uint64_t generation) {
    metadata_file file = {0};
    if (disk_open(fixture->folder, &file.disk) != MR_OK) return false;
    metadata_storage storage = metadata_file_storage(&file);
    bool good = storage.ops->begin(storage.self, generation) == MR_OK;
    disk_close(file.disk);
    return good;
}

static bool begins(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

void ps_fixture_forget(ps_fixture *fixture) {
    DIR *folder = opendir(fixture->folder);
    if (folder == NULL) return;
    for (struct dirent *item; (item = readdir(folder)) != NULL;)
        if (begins(item->d_name, METADATA_FILE_FILE)) unlinkat(dirfd(folder), item->d_name, 0);
    closedir(folder);
}

bool ps_fixture_start_scheduler(ps_fixture *fixture) {
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    fixture->page->listening = 0;
    fixture->scheduler = start(fixture, be_scheduler, 0);
    while (fixture->scheduler > 0 && awaits(fixture, fixture->scheduler, until_us)) usleep(1000);
    bool there = __atomic_load_n(&fixture->page->listening, __ATOMIC_ACQUIRE) != 0;
    if (there) memcpy(fixture->address, fixture->page->address, sizeof fixture->address);
    return there;
}

void ps_fixture_start_server(ps_fixture *fixture, uint32_t number) {
    fixture->server[number] = start(fixture, be_server, number);
}

pid_t ps_fixture_start_another(ps_fixture *fixture) { return start(fixture, be_server, ANY); }

void ps_fixture_start_worker(ps_fixture *fixture, uint32_t rank) {
    fixture->worker[rank] = start(fixture, be_worker, rank);
}

bool ps_fixture_start(ps_fixture *fixture) {
    if (!ps_fixture_start_scheduler(fixture)) return false;
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_start_server(fixture, i);
    for (uint32_t i = 0; i < fixture->workers; i++) ps_fixture_start_worker(fixture, i);
    return true;
}

void ps_fixture_kill(ps_fixture *fixture, pid_t *pid) {
    fixture->killed++;
    kill(*pid, SIGKILL);
    (void)test_child_wait(*pid, PATIENCE_MS);
    *pid = 0;
}

bool ps_fixture_terminate(pid_t *pid) {
    if (*pid == 0) return true;
    kill(*pid, SIGTERM);
    int code = test_child_wait(*pid, PATIENCE_MS);
    *pid = 0;
    if (code != 0) fprintf(stderr, "a process ended with %d\n", code);
    return code == 0;
}

/* ---- Observing. */

static bool is_full(const mr_ps_cluster_map *map, uint64_t past, const mr_ps_replica *dead) {
    if (map->number == 0 || map->generation == past) return false;
    for (uint32_t i = 0; i < map->slot_count; i++) {
        const mr_ps_slot *slot = &map->slots[i];
        if (slot->count < map->info.replicas) return false;
        for (uint32_t k = 0; dead != NULL && k < slot->count; k++)
            if (slot->replicas[k].server == dead->server && slot->replicas[k].incarnation == dead->incarnation)
                return false;
    }
    return true;
}

bool ps_fixture_full(ps_fixture *fixture, uint64_t past, const mr_ps_replica *dead) {
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    bool full = false;
    while (!full && clock_now_us(clock_real()) < until_us) {
        mr_ps_cluster_map *map = NULL;
        if (mr_ps_cluster_map_get(fixture->address, LOOK_US, &map) == MR_OK) full = is_full(map, past, dead);
        mr_ps_cluster_map_free(map);
        if (!full) usleep(10000);
    }
    return full;
}

mr_ps_replica ps_fixture_process(ps_fixture *fixture, uint32_t server) {
    mr_ps_cluster_map *map = NULL;
    mr_ps_replica process = {.server = server};
    if (mr_ps_cluster_map_get(fixture->address, PS_FIXTURE_PATIENCE_US, &map) != MR_OK) return process;
    for (uint32_t i = 0; i < map->info.servers; i++)
        if (map->servers[i].number == server) process.incarnation = map->servers[i].incarnation;
    mr_ps_cluster_map_free(map);
    return process;
}

mr_ps *ps_fixture_connect(const ps_fixture *fixture, int rank) {
    mr_ps *ps = NULL;
    if (mr_ps_connect(fixture->address, rank, PS_FIXTURE_PATIENCE_US, &ps) != MR_OK)
        fprintf(stderr, "%s\n", mr_last_error());
    return ps;
}

uint64_t ps_fixture_generation(ps_fixture *fixture) {
    mr_ps_cluster_map *map = NULL;
    if (mr_ps_cluster_map_get(fixture->address, PS_FIXTURE_PATIENCE_US, &map) != MR_OK) return 0;
    uint64_t generation = map->generation;
    mr_ps_cluster_map_free(map);
    return generation;
}

uint64_t ps_fixture_checkpoint(const ps_fixture *fixture) {
    mr_ps_cluster_map *map = NULL;
    if (mr_ps_cluster_map_get(fixture->address, PS_FIXTURE_PATIENCE_US, &map) != MR_OK) return 0;
    uint64_t checkpoint = map->checkpoint;
    mr_ps_cluster_map_free(map);
    return checkpoint;
}

static bool all_reached(const ps_fixture *fixture, uint64_t step) {
    for (uint32_t i = 0; i < fixture->workers; i++)
        if (__atomic_load_n(&fixture->progress[i], __ATOMIC_RELAXED) < step) return false;
    return true;
}

bool ps_fixture_reaches(ps_fixture *fixture, uint64_t step) {
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    while (!all_reached(fixture, step) && clock_now_us(clock_real()) < until_us) usleep(5000);
    return all_reached(fixture, step);
}

bool ps_fixture_weights(ps_fixture *fixture, kv_workload_weights out) {
    int code = test_child_wait(start(fixture, look, 0), PATIENCE_MS);
    if (code != 0) fprintf(stderr, "whoever looked ended with %d\n", code);
    memcpy(out, fixture->page->seen, sizeof fixture->page->seen);
    return code == 0;
}

bool ps_fixture_even(ps_fixture *fixture) {
    kv_workload_weights seen;
    if (!ps_fixture_weights(fixture, seen)) return false;
    const float *all = &seen[0][0][0];
    for (size_t i = 0; i < sizeof seen / sizeof *all; i++)
        if (all[i] != all[0] || all[0] == 0) return false;
    return true;
}

/* Chooses the step with which all ranks end. The step is ahead of all ranks, which have begun few steps since their
 * last report. */
void ps_fixture_stop(ps_fixture *fixture) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < fixture->workers; i++) {
        uint64_t step = __atomic_load_n(&fixture->progress[i], __ATOMIC_ACQUIRE);
        if (step > last) last = step;
    }
    __atomic_store_n(&fixture->page->steps, last + 20, __ATOMIC_RELEASE);
}

int64_t ps_fixture_begun_us(const ps_fixture *fixture, uint32_t rank, uint64_t step) {
    return __atomic_load_n(&fixture->page->begun_us[rank][step % PS_FIXTURE_BEGUN], __ATOMIC_RELAXED);
}

bool ps_fixture_trained(ps_fixture *fixture) {
    bool good = true;
    for (uint32_t i = 0; i < fixture->workers; i++) {
        int code = test_child_wait(fixture->worker[i], PATIENCE_MS);
        if (code != 0) fprintf(stderr, "worker %u ended with %d\n", i, code);
        good = good && code == 0;
        fixture->worker[i] = 0;
    }
    return good;
}

/* Removes the files of schedulers and ranks, and the sockets of killed processes, but no other files. */
static bool sweep(ps_fixture *fixture) {
    DIR *folder = opendir(fixture->folder);
    if (folder == NULL) return false;
    uint32_t sockets = 0;
    for (struct dirent *item; (item = readdir(folder)) != NULL;) {
        bool kept = begins(item->d_name, METADATA_FILE_FILE) || begins(item->d_name, SQLITE_IMPORT_FILE) ||
                    begins(item->d_name, "scheduler.lock") || begins(item->d_name, "shard-") ||
                    begins(item->d_name, "manifest") || begins(item->d_name, "s.rank-") ||
                    begins(item->d_name, "tables-") || strcmp(item->d_name, "token") == 0;
        bool is_socket = !kept && begins(item->d_name, "s.");
        sockets += is_socket;
        if (kept || is_socket) unlinkat(dirfd(folder), item->d_name, 0);
    }
    closedir(folder);
    return rmdir(fixture->folder) == 0 && sockets <= fixture->killed;
}

bool ps_fixture_fini(ps_fixture *fixture) {
    bool good = true;
    for (uint32_t i = 0; i < PS_FIXTURE_WORKERS_MAX; i++)
        if (fixture->worker[i] != 0) ps_fixture_kill(fixture, &fixture->worker[i]);
    for (uint32_t i = 0; i < PS_FIXTURE_SERVERS_MAX; i++) good = ps_fixture_terminate(&fixture->server[i]) && good;
    good = ps_fixture_terminate(&fixture->scheduler) && good;
    fork_server_close(&fixture->fork_server);
    munmap(fixture->page, sizeof *fixture->page);
    return sweep(fixture) && good;
}

bool ps_fixture_status(const ps_fixture *fixture, const char *arguments, char *text, size_t room) {
    char line[PATH_MAX];
    snprintf(line, sizeof line, "%s/miniray ps status --scheduler %s %s 2>&1", getenv("MINIRAY_TEST_BUILD"),
             fixture->address, arguments);
    FILE *pipe = popen(line, "r");
    text[pipe == NULL ? 0 : fread(text, 1, room - 1, pipe)] = '\0';
    int code = pipe == NULL ? -1 : pclose(pipe);
    if (code != 0) fprintf(stderr, "%s\n", text);
    return code == 0;
}
