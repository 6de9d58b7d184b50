/* ps_world.c — see ps_world.h. */
#include "tests/support/ps_world.h"

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
#include "cluster/sqlite.h"
#include "tests/support/child.h"

enum { PATIENCE_MS = 60000, LOOK_US = 2000000 };
#define ANY UINT32_MAX /* number of a server */

typedef enum model_part { ROWS, VECTORS, ARRAY, PARTS } model_part; /* a table of each kind */
typedef float weights[PARTS][PS_WORLD_KEYS][PS_WORLD_WIDTH];

/* ---- What is computed. */

static bool in_rounds(const ps_world *world, size_t part) {
    return world->consistency == MR_PS_BSP && (!world->mixed || part == ROWS);
}

static void gradient(const ps_world *world, uint32_t rank, uint64_t step, const weights shown, weights out) {
    for (size_t part = 0; part < PARTS; part++)
        for (size_t key = 0; key < PS_WORLD_KEYS; key++)
            for (size_t i = 0; i < PS_WORLD_WIDTH; i++) {
                float target = (float)((part + key * 7 + i * 3 + 1) % 11) / 3.0f;
                float noise = (float)((step * 31 + rank * 17 + i * 5 + key) % 23) / 97.0f;
                float wanted = (target + noise - shown[part][key][i]) * 0.05f / (float)(rank + 1);
                out[part][key][i] = in_rounds(world, part) ? wanted : 1; /* else nobody knows the order */
            }
}

static void add(float *to, const float *more, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += more[i];
}

struct ps_world_page {
    uint64_t progress[PS_WORLD_WORKERS_MAX];
    uint64_t steps;                  /* that there are */
    char address[MR_PS_ADDRESS_MAX]; /* of the scheduler */
    uint32_t listening;              /* 1: it is there */
    int64_t begun_us[PS_WORLD_WORKERS_MAX][PS_WORLD_BEGUN];
};

static uint64_t steps_of(const ps_world *world) { return __atomic_load_n(&world->page->steps, __ATOMIC_ACQUIRE); }

static void reference(const ps_world *world, weights out) {
    const size_t count = sizeof(weights) / sizeof(float);
    memset(out, 0, sizeof(weights));
    for (uint64_t step = 0; step < steps_of(world); step++) {
        weights sum = {0}, part;
        for (uint32_t rank = 0; rank < world->workers; rank++) {
            gradient(world, rank, step, out, part);
            add(&sum[0][0][0], &part[0][0][0], count);
        }
        add(&out[0][0][0], &sum[0][0][0], count);
    }
}

/* ---- Children. */

typedef struct role {
    ps_world world[1]; /* as it was when this one was started */
    uint32_t number;
} role;

_Static_assert(sizeof(role) <= NURSERY_ARGUMENT_MAX, "a role can be given to a child");

static void on_listening(void *context, const char *address) {
    struct ps_world_page *page = ((const role *)context)->world->page;
    snprintf(page->address, sizeof page->address, "%s", address);
    __atomic_store_n(&page->listening, 1, __ATOMIC_RELEASE);
}

static int be_scheduler(void *argument) {
    role *role = argument;
    const ps_world *world = role->world;
    mr_ps_scheduler_options options = {.listen = world->address,
                                       .folder = world->folder,
                                       .workers = world->workers,
                                       .servers = world->servers,
                                       .slots = world->slots,
                                       .copies = world->copies,
                                       .consistency = world->consistency,
                                       .staleness = 2,
                                       .mixed = world->mixed,
                                       .backup = world->backup,
                                       .deadline_us = world->deadline_us,
                                       .checkpoint_us = world->checkpoint_us,
                                       .exact_checkpoints = world->exact,
                                       .balance_us = world->balance_us == 0 ? -1 : world->balance_us,
                                       .on_listening = on_listening,
                                       .context = role,
                                       .apps = world->apps,
                                       .app_count = world->app_count};
    CHILD_CHECK(mr_ps_run_scheduler(&options) == MR_OK);
    return 0;
}

static int be_server(void *argument) {
    const role *role = argument;
    mr_ps_server_options options = {.scheduler = role->world->address,
                                    .number = role->number == ANY ? 0 : 1 + role->number,
                                    .memory_bytes = role->world->memory,
                                    .apps = role->world->apps,
                                    .app_count = role->world->app_count,
                                    .optimizers = role->world->optimizers,
                                    .optimizer_count = role->world->optimizer_count};
    CHILD_CHECK(mr_ps_run_server(&options) == MR_OK);
    return 0;
}

typedef struct model {
    mr_ps_table *tables[PARTS];
    uint64_t keys[PS_WORLD_KEYS];
    uint32_t lengths[PS_WORLD_KEYS];
} model;

/* In blocks that are shorter than rows, so that many slots have some. */
static mr_status open_model(const ps_world *world, mr_ps *ps, model *model) {
    static const char *const names[] = {"rows", "vectors", "array"};
    const mr_ps_array array = {.name = "weights", .dims = 2, .shape = {PS_WORLD_KEYS, PS_WORLD_WIDTH}};
    mr_ps_table_options options[] = {{.kind = MR_PS_SPARSE, .dim = PS_WORLD_WIDTH},
                                     {.kind = MR_PS_VECTORS},
                                     {.kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = 3}};
    if (world->mixed) options[VECTORS].consistency = "ssp:1";
    if (world->mixed) options[ARRAY].consistency = "asp";
    for (int i = 0; i < PS_WORLD_KEYS; i++) {
        model->keys[i] = (uint64_t)i * i + 3;
        model->lengths[i] = PS_WORLD_WIDTH;
    }
    for (int i = 0; i < PARTS; i++)
        MR_TRY(mr_ps_table_create(ps, names[i], &options[i], PS_WORLD_PATIENCE_US, &model->tables[i]));
    return MR_OK;
}

static void close_model(model *model) {
    for (int i = 0; i < PARTS; i++) mr_ps_table_free(model->tables[i]);
}

static mr_status pull(const model *model, weights out, mr_ps_ticket tickets[PARTS]) {
    const size_t items = PS_WORLD_KEYS * PS_WORLD_WIDTH;
    MR_TRY(mr_ps_pull(model->tables[ROWS], model->keys, PS_WORLD_KEYS, out[ROWS], NULL, NULL, &tickets[ROWS]));
    MR_TRY(mr_ps_pull(model->tables[VECTORS], model->keys, PS_WORLD_KEYS, out[VECTORS], model->lengths, NULL,
                      &tickets[VECTORS]));
    return mr_ps_pull_array(model->tables[ARRAY], 0, out[ARRAY], 0, items, NULL, &tickets[ARRAY]);
}

static mr_status push(const ps_world *world, const model *model, const weights parts, mr_ps_ticket tickets[PARTS]) {
    const size_t items = PS_WORLD_KEYS * PS_WORLD_WIDTH;
    MR_TRY(mr_ps_push(model->tables[ROWS], model->keys, PS_WORLD_KEYS, parts[ROWS], NULL, NULL, &tickets[ROWS]));
    if (world->gap_us != 0) usleep((useconds_t)world->gap_us);
    MR_TRY(mr_ps_push(model->tables[VECTORS], model->keys, PS_WORLD_KEYS, parts[VECTORS], model->lengths, NULL,
                      &tickets[VECTORS]));
    if (world->gap_us != 0) usleep((useconds_t)world->gap_us);
    return mr_ps_push_array(model->tables[ARRAY], 0, parts[ARRAY], 0, items, NULL, &tickets[ARRAY]);
}

static mr_status wait_for(mr_ps *ps, const mr_ps_ticket tickets[PARTS]) {
    for (int i = 0; i < PARTS; i++) MR_TRY(mr_ps_wait(ps, tickets[i], PS_WORLD_PATIENCE_US));
    return MR_OK;
}

/* Beside rounds all have pushed everything before they ended the round. */
static bool has_all(const ps_world *world, uint64_t step, const weights shown) {
    const float *values = &shown[VECTORS][0][0];
    for (size_t i = 0; world->mixed && i < sizeof(weights) / sizeof(float) / PARTS * 2; i++)
        if (values[i] < (float)(step * world->workers)) return false;
    return true;
}

/* A step; MR_STALE: it has to be played again, or another one. */
static mr_status play(const ps_world *world, mr_ps *ps, const model *model, uint32_t rank, uint64_t step) {
    weights shown, parts;
    mr_ps_ticket tickets[PARTS];
    MR_TRY(pull(model, shown, tickets));
    MR_TRY(wait_for(ps, tickets));
    if (!has_all(world, step, shown)) {
        fprintf(stderr, "rank %u is not shown in step %llu what was pushed before it\n", rank,
                (unsigned long long)step);
        return MR_CORRUPT;
    }
    if (world->step_us != 0) usleep((useconds_t)world->step_us);
    gradient(world, rank, step, shown, parts);
    MR_TRY(push(world, model, parts, tickets));
    MR_TRY(mr_ps_end(ps));
    return wait_for(ps, tickets);
}

static mr_status compare(const ps_world *world, mr_ps *ps, const model *model, bool *same) {
    weights shown, expected;
    mr_ps_ticket tickets[PARTS];
    reference(world, expected);
    MR_TRY(pull(model, shown, tickets));
    MR_TRY(wait_for(ps, tickets));
    *same = memcmp(shown, expected, sizeof shown) == 0;
    if (*same || (world->consistency == MR_PS_BSP && !world->mixed)) return MR_OK;
    size_t first = in_rounds(world, ROWS) ? 1 : 0, count = (PARTS - first) * (sizeof shown / sizeof(float) / PARTS);
    const float *all = &shown[first][0][0], *most = &expected[first][0][0];
    for (size_t i = 0; i < count; i++)
        if (all[i] > most[i]) return MR_OK; /* something was counted twice */
    usleep(2000);
    return MR_BUSY; /* others are not done yet */
}

static void note_begun(const ps_world *world, uint32_t rank, uint64_t step) {
    struct ps_world_page *page = world->page;
    __atomic_store_n(&page->begun_us[rank][step % PS_WORLD_BEGUN], clock_now_us(clock_real()), __ATOMIC_RELAXED);
    __atomic_store_n(&page->progress[rank], step, __ATOMIC_RELEASE);
}

static int be_worker(void *argument) {
    const role *role = argument;
    const ps_world *world = role->world;
    mr_ps *ps;
    mr_status status = mr_ps_connect(world->address, (int)role->number, PS_WORLD_PATIENCE_US, &ps);
    if (status != MR_OK) fprintf(stderr, "rank %u cannot connect: %s\n", role->number, mr_last_error());
    CHILD_CHECK(status == MR_OK);
    model model;
    status = open_model(world, ps, &model);
    if (status != MR_OK) fprintf(stderr, "rank %u has no tables: %s\n", role->number, mr_last_error());
    CHILD_CHECK(status == MR_OK);
    bool over = false, same = false;
    while (!over) {
        uint64_t step;
        status = mr_ps_begin(ps, PS_WORLD_PATIENCE_US, &step);
        if (status == MR_OK) note_begun(world, role->number, step);
        if (status == MR_OK && step < steps_of(world))
            status = play(world, ps, &model, role->number, step);
        else if (status == MR_OK)
            over = compare(world, ps, &model, &same) == MR_OK;
        if (status == MR_OK && !over && step >= steps_of(world) && world->exact)
            status = mr_ps_end(ps); /* who waits within a step for others would hold up a pause, and the pause them */
        if (status != MR_OK && status != MR_STALE) {
            fprintf(stderr, "rank %u: %s\n", role->number, mr_last_error());
            return 102;
        }
    }
    CHILD_CHECK(same);
    close_model(&model);
    mr_ps_close(ps);
    return 0;
}

static int look(void *argument) {
    const role *role = argument;
    mr_ps *ps;
    model model;
    weights shown;
    mr_ps_ticket tickets[PARTS];
    uint64_t step;
    CHILD_CHECK(mr_ps_connect(role->world->address, 0, PS_WORLD_PATIENCE_US, &ps) == MR_OK);
    CHILD_CHECK(open_model(role->world, ps, &model) == MR_OK);
    CHILD_CHECK(mr_ps_begin(ps, PS_WORLD_PATIENCE_US, &step) == MR_OK);
    CHILD_CHECK(pull(&model, shown, tickets) == MR_OK && wait_for(ps, tickets) == MR_OK);
    const float *all = &shown[0][0][0];
    for (size_t i = 1; i < sizeof shown / sizeof *all; i++) CHILD_CHECK(all[i] == all[0] && all[0] != 0);
    close_model(&model);
    mr_ps_close(ps);
    return 0;
}

/* ---- The world. */

bool ps_world_init(ps_world *world) {
    if (!temp_folder(world->folder)) return false;
    if (world->tcp)
        strcpy(world->address, "tcp:127.0.0.1:0");
    else if (snprintf(world->address, sizeof world->address, "unix:%s/s", world->folder) >= MR_PS_ADDRESS_MAX - 16)
        return false;
    world->page = mmap(NULL, sizeof *world->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world->page == MAP_FAILED) return false;
    world->page->steps = world->steps == 0 ? UINT64_MAX : world->steps;
    world->progress = world->page->progress;
    return nursery_open(&world->nursery);
}

static pid_t start(const ps_world *world, child_fn *fn, uint32_t number) {
    role role = {.number = number};
    role.world[0] = *world;
    return nursery_start(&world->nursery, fn, &role, sizeof role);
}

/* It has not ended, and listens or will. */
static bool awaits(const ps_world *world, pid_t pid, int64_t until_us) {
    siginfo_t info = {0};
    if (__atomic_load_n(&world->page->listening, __ATOMIC_ACQUIRE) != 0) return false;
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) return false;
    return clock_now_us(clock_real()) < until_us;
}

bool ps_world_age(ps_world *world, uint64_t generation) {
    char path[TEMP_FOLDER_MAX + 32];
    sqlite *sqlite;
    snprintf(path, sizeof path, "%s/coordinator.db", world->folder);
    if (sqlite_open(path, &sqlite) != MR_OK) return false;
    archive archive = sqlite_archive(sqlite);
    bool good = archive.ops->begin(archive.self, generation) == MR_OK;
    sqlite_close(sqlite);
    return good;
}

static bool begins(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

void ps_world_forget(ps_world *world) {
    DIR *folder = opendir(world->folder);
    if (folder == NULL) return;
    for (struct dirent *item; (item = readdir(folder)) != NULL;)
        if (begins(item->d_name, "coordinator.db")) unlinkat(dirfd(folder), item->d_name, 0);
    closedir(folder);
}

bool ps_world_start_scheduler(ps_world *world) {
    int64_t until_us = clock_now_us(clock_real()) + PS_WORLD_PATIENCE_US;
    world->page->listening = 0;
    world->scheduler = start(world, be_scheduler, 0);
    while (world->scheduler > 0 && awaits(world, world->scheduler, until_us)) usleep(1000);
    bool there = __atomic_load_n(&world->page->listening, __ATOMIC_ACQUIRE) != 0;
    if (there) memcpy(world->address, world->page->address, sizeof world->address);
    return there;
}

void ps_world_start_server(ps_world *world, uint32_t number) {
    world->server[number] = start(world, be_server, number);
}

pid_t ps_world_start_another(ps_world *world) { return start(world, be_server, ANY); }

void ps_world_start_worker(ps_world *world, uint32_t rank) { world->worker[rank] = start(world, be_worker, rank); }

bool ps_world_start(ps_world *world) {
    if (!ps_world_start_scheduler(world)) return false;
    for (uint32_t i = 0; i < world->servers; i++) ps_world_start_server(world, i);
    for (uint32_t i = 0; i < world->workers; i++) ps_world_start_worker(world, i);
    return true;
}

void ps_world_kill(ps_world *world, pid_t *pid) {
    world->killed++;
    kill(*pid, SIGKILL);
    (void)child_wait(*pid, PATIENCE_MS);
    *pid = 0;
}

/* ---- Looking on. */

static bool is_full(const mr_ps_chart *chart, uint64_t past, const mr_ps_copy *dead) {
    if (chart->number == 0 || chart->generation == past) return false;
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        const mr_ps_slot *slot = &chart->slots[i];
        if (slot->count < chart->info.copies) return false;
        for (uint32_t k = 0; dead != NULL && k < slot->count; k++)
            if (slot->copies[k].server == dead->server && slot->copies[k].incarnation == dead->incarnation)
                return false;
    }
    return true;
}

bool ps_world_full(ps_world *world, uint64_t past, const mr_ps_copy *dead) {
    int64_t until_us = clock_now_us(clock_real()) + PS_WORLD_PATIENCE_US;
    bool full = false;
    while (!full && clock_now_us(clock_real()) < until_us) {
        mr_ps_chart *chart = NULL;
        if (mr_ps_chart_get(world->address, LOOK_US, &chart) == MR_OK) full = is_full(chart, past, dead);
        mr_ps_chart_free(chart);
        if (!full) usleep(10000);
    }
    return full;
}

mr_ps_copy ps_world_process(ps_world *world, uint32_t server) {
    mr_ps_chart *chart = NULL;
    mr_ps_copy process = {.server = server};
    if (mr_ps_chart_get(world->address, PS_WORLD_PATIENCE_US, &chart) != MR_OK) return process;
    for (uint32_t i = 0; i < chart->info.servers; i++)
        if (chart->servers[i].number == server) process.incarnation = chart->servers[i].incarnation;
    mr_ps_chart_free(chart);
    return process;
}

mr_ps *ps_world_connect(const ps_world *world, int rank) {
    mr_ps *ps = NULL;
    if (mr_ps_connect(world->address, rank, PS_WORLD_PATIENCE_US, &ps) != MR_OK)
        fprintf(stderr, "%s\n", mr_last_error());
    return ps;
}

uint64_t ps_world_generation(ps_world *world) {
    mr_ps_chart *chart = NULL;
    if (mr_ps_chart_get(world->address, PS_WORLD_PATIENCE_US, &chart) != MR_OK) return 0;
    uint64_t generation = chart->generation;
    mr_ps_chart_free(chart);
    return generation;
}

uint64_t ps_world_checkpoint(const ps_world *world) {
    mr_ps_chart *chart = NULL;
    if (mr_ps_chart_get(world->address, PS_WORLD_PATIENCE_US, &chart) != MR_OK) return 0;
    uint64_t checkpoint = chart->checkpoint;
    mr_ps_chart_free(chart);
    return checkpoint;
}

static bool all_reached(const ps_world *world, uint64_t step) {
    for (uint32_t i = 0; i < world->workers; i++)
        if (__atomic_load_n(&world->progress[i], __ATOMIC_RELAXED) < step) return false;
    return true;
}

bool ps_world_reaches(ps_world *world, uint64_t step) {
    int64_t until_us = clock_now_us(clock_real()) + PS_WORLD_PATIENCE_US;
    while (!all_reached(world, step) && clock_now_us(clock_real()) < until_us) usleep(5000);
    return all_reached(world, step);
}

bool ps_world_even(ps_world *world) {
    int code = child_wait(start(world, look, 0), PATIENCE_MS);
    if (code != 0) fprintf(stderr, "whoever looked ended with %d\n", code);
    return code == 0;
}

/* Whoever is furthest has begun few steps since it said so: this one is ahead of all. */
void ps_world_stop(ps_world *world) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < world->workers; i++) {
        uint64_t step = __atomic_load_n(&world->progress[i], __ATOMIC_ACQUIRE);
        if (step > last) last = step;
    }
    __atomic_store_n(&world->page->steps, last + 20, __ATOMIC_RELEASE);
}

int64_t ps_world_begun_us(const ps_world *world, uint32_t rank, uint64_t step) {
    return __atomic_load_n(&world->page->begun_us[rank][step % PS_WORLD_BEGUN], __ATOMIC_RELAXED);
}

bool ps_world_trained(ps_world *world) {
    bool good = true;
    for (uint32_t i = 0; i < world->workers; i++) {
        int code = child_wait(world->worker[i], PATIENCE_MS);
        if (code != 0) fprintf(stderr, "worker %u ended with %d\n", i, code);
        good = good && code == 0;
        world->worker[i] = 0;
    }
    return good;
}

static bool end(pid_t *pid) {
    if (*pid == 0) return true;
    kill(*pid, SIGTERM);
    int code = child_wait(*pid, PATIENCE_MS);
    *pid = 0;
    if (code != 0) fprintf(stderr, "a process ended with %d\n", code);
    return code == 0;
}

/* The files that a scheduler and ranks keep, and the sockets of those that were killed; nothing else. */
static bool sweep(ps_world *world) {
    DIR *folder = opendir(world->folder);
    if (folder == NULL) return false;
    uint32_t sockets = 0;
    for (struct dirent *item; (item = readdir(folder)) != NULL;) {
        bool kept = begins(item->d_name, "coordinator.db") || begins(item->d_name, "shard-") ||
                    begins(item->d_name, "manifest") || begins(item->d_name, "s.rank-");
        bool is_socket = !kept && begins(item->d_name, "s.");
        sockets += is_socket;
        if (kept || is_socket) unlinkat(dirfd(folder), item->d_name, 0);
    }
    closedir(folder);
    return rmdir(world->folder) == 0 && sockets <= world->killed;
}

bool ps_world_fini(ps_world *world) {
    bool good = true;
    for (uint32_t i = 0; i < PS_WORLD_WORKERS_MAX; i++)
        if (world->worker[i] != 0) ps_world_kill(world, &world->worker[i]);
    for (uint32_t i = 0; i < PS_WORLD_SERVERS_MAX; i++) good = end(&world->server[i]) && good;
    good = end(&world->scheduler) && good;
    nursery_close(&world->nursery);
    munmap(world->page, sizeof *world->page);
    return sweep(world) && good;
}

bool ps_world_status(const ps_world *world, const char *arguments, char *text, size_t room) {
    char line[PATH_MAX];
    snprintf(line, sizeof line, "%s/miniray ps status --scheduler %s %s 2>&1", getenv("MINIRAY_TEST_BUILD"),
             world->address, arguments);
    FILE *pipe = popen(line, "r");
    text[pipe == NULL ? 0 : fread(text, 1, room - 1, pipe)] = '\0';
    int code = pipe == NULL ? -1 : pclose(pipe);
    if (code != 0) fprintf(stderr, "%s\n", text);
    return code == 0;
}
