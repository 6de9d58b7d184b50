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
#include "cluster/image.h"
#include "cluster/sqlite_import.h"
#include "tests/support/child.h"

enum { PATIENCE_MS = 60000, LOOK_US = 2000000 };
#define ANY UINT32_MAX /* number of a server */

/* ---- What is computed. */

static lesson lesson_of(const ps_world *world) {
    lesson lesson = {.workers = world->workers};
    for (size_t part = 0; part < LESSON_PARTS; part++)
        lesson.rounds[part] = world->consistency == MR_PS_BSP && (!world->mixed || part == LESSON_ROWS);
    return lesson;
}

struct ps_world_page {
    uint64_t progress[PS_WORLD_WORKERS_MAX];
    uint64_t steps;                  /* that there are */
    char address[MR_PS_ADDRESS_MAX]; /* of the scheduler */
    uint32_t listening;              /* 1: it is there */
    lesson_weights seen;             /* by who looked last */
    int64_t begun_us[PS_WORLD_WORKERS_MAX][PS_WORLD_BEGUN];
};

static uint64_t steps_of(const ps_world *world) { return __atomic_load_n(&world->page->steps, __ATOMIC_ACQUIRE); }

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
    mr_ps_scheduler_options options = MR_OPTIONS(
        mr_ps_scheduler_options, .listen = world->address, .checkpoint_dir = world->folder,
        .num_workers = world->workers, .num_servers = world->servers, .slots = world->slots, .replicas = world->copies,
        .consistency = world->consistency, .staleness = 2, .mixed_consistency = world->mixed,
        .backup_workers = world->backup, .deadline_us = world->deadline_us, .checkpoint_us = world->checkpoint_us,
        .consistent_checkpoints = world->exact, .balance_us = world->balance_us == 0 ? -1 : world->balance_us,
        .on_listening = on_listening, .context = role, .apps = world->apps, .app_count = world->app_count);
    CHILD_CHECK(mr_ps_run_scheduler(&options) == MR_OK);
    return 0;
}

static int be_server(void *argument) {
    const role *role = argument;
    mr_ps_server_options options = MR_OPTIONS(
        mr_ps_server_options, .scheduler = role->world->address, .number = role->number == ANY ? 0 : 1 + role->number,
        .memory_bytes = role->world->memory, .apps = role->world->apps, .app_count = role->world->app_count,
        .optimizers = role->world->optimizers, .optimizer_count = role->world->optimizer_count);
    CHILD_CHECK(mr_ps_run_server(&options) == MR_OK);
    return 0;
}

typedef struct model {
    mr_ps_table *tables[LESSON_PARTS];
    uint64_t keys[LESSON_KEYS];
    uint32_t lengths[LESSON_KEYS];
} model;

static mr_status open_model(const ps_world *world, mr_ps *ps, model *model) {
    lesson_table tables[LESSON_PARTS];
    lesson_tables(tables);
    lesson_keys(model->keys, model->lengths);
    if (world->mixed) tables[LESSON_VECTORS].options.consistency = "ssp:1";
    if (world->mixed) tables[LESSON_ARRAY].options.consistency = "asp";
    for (int i = 0; i < LESSON_PARTS; i++)
        MR_TRY(mr_ps_table_create(ps, tables[i].name, &tables[i].options, PS_WORLD_PATIENCE_US, &model->tables[i]));
    return MR_OK;
}

static void close_model(model *model) {
    for (int i = 0; i < LESSON_PARTS; i++) mr_ps_table_free(model->tables[i]);
}

static mr_status pull(const model *model, lesson_weights out, mr_ps_ticket tickets[LESSON_PARTS]) {
    MR_TRY(mr_ps_pull(model->tables[LESSON_ROWS], model->keys, LESSON_KEYS, out[LESSON_ROWS], NULL, NULL,
                      &tickets[LESSON_ROWS]));
    MR_TRY(mr_ps_pull(model->tables[LESSON_VECTORS], model->keys, LESSON_KEYS, out[LESSON_VECTORS], model->lengths,
                      NULL, &tickets[LESSON_VECTORS]));
    return mr_ps_pull_array(model->tables[LESSON_ARRAY], 0, out[LESSON_ARRAY], 0, LESSON_ITEMS, NULL,
                            &tickets[LESSON_ARRAY]);
}

static mr_status push(const ps_world *world, const model *model, const lesson_weights parts,
                      mr_ps_ticket tickets[LESSON_PARTS]) {
    MR_TRY(mr_ps_push(model->tables[LESSON_ROWS], model->keys, LESSON_KEYS, parts[LESSON_ROWS], NULL, NULL,
                      &tickets[LESSON_ROWS]));
    if (world->gap_us != 0) usleep((useconds_t)world->gap_us);
    MR_TRY(mr_ps_push(model->tables[LESSON_VECTORS], model->keys, LESSON_KEYS, parts[LESSON_VECTORS], model->lengths,
                      NULL, &tickets[LESSON_VECTORS]));
    if (world->gap_us != 0) usleep((useconds_t)world->gap_us);
    return mr_ps_push_array(model->tables[LESSON_ARRAY], 0, parts[LESSON_ARRAY], 0, LESSON_ITEMS, NULL,
                            &tickets[LESSON_ARRAY]);
}

static mr_status wait_for(mr_ps *ps, const mr_ps_ticket tickets[LESSON_PARTS]) {
    for (int i = 0; i < LESSON_PARTS; i++) MR_TRY(mr_ps_wait(ps, tickets[i], PS_WORLD_PATIENCE_US));
    return MR_OK;
}

/* Beside rounds all have pushed everything before they ended the round. */
static bool has_all(const ps_world *world, uint64_t step, const lesson_weights shown) {
    const float *values = &shown[LESSON_VECTORS][0][0];
    for (size_t i = 0; world->mixed && i < sizeof(lesson_weights) / sizeof(float) / LESSON_PARTS * 2; i++)
        if (values[i] < (float)(step * world->workers)) return false;
    return true;
}

/* A step; MR_STALE: it has to be played again, or another one. */
static mr_status play(const ps_world *world, mr_ps *ps, const model *model, uint32_t rank, uint64_t step) {
    lesson_weights shown, parts;
    mr_ps_ticket tickets[LESSON_PARTS];
    MR_TRY(pull(model, shown, tickets));
    MR_TRY(wait_for(ps, tickets));
    if (!has_all(world, step, shown)) {
        fprintf(stderr, "rank %u is not shown in step %llu what was pushed before it\n", rank,
                (unsigned long long)step);
        return MR_CORRUPT;
    }
    if (world->step_us != 0) usleep((useconds_t)world->step_us);
    lesson lesson = lesson_of(world);
    lesson_gradient(&lesson, rank, step, shown, parts);
    MR_TRY(push(world, model, parts, tickets));
    MR_TRY(mr_ps_end(ps));
    return wait_for(ps, tickets);
}

static mr_status compare(const ps_world *world, mr_ps *ps, const model *model, bool *same) {
    lesson_weights shown, expected;
    mr_ps_ticket tickets[LESSON_PARTS];
    lesson lesson = lesson_of(world);
    lesson_reference(&lesson, steps_of(world), expected);
    MR_TRY(pull(model, shown, tickets));
    MR_TRY(wait_for(ps, tickets));
    *same = memcmp(shown, expected, sizeof shown) == 0;
    if (*same || (world->consistency == MR_PS_BSP && !world->mixed)) return MR_OK;
    size_t first = lesson.rounds[LESSON_ROWS] ? 1 : 0,
           count = (LESSON_PARTS - first) * (sizeof shown / sizeof(float) / LESSON_PARTS);
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
    mr_ps_ticket tickets[LESSON_PARTS];
    uint64_t step;
    CHILD_CHECK(mr_ps_connect(role->world->address, 0, PS_WORLD_PATIENCE_US, &ps) == MR_OK);
    CHILD_CHECK(open_model(role->world, ps, &model) == MR_OK);
    CHILD_CHECK(mr_ps_begin(ps, PS_WORLD_PATIENCE_US, &step) == MR_OK);
    CHILD_CHECK(pull(&model, role->world->page->seen, tickets) == MR_OK && wait_for(ps, tickets) == MR_OK);
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
    image image = {0};
    if (disk_open(world->folder, &image.disk) != MR_OK) return false;
    archive archive = image_archive(&image);
    bool good = archive.ops->begin(archive.self, generation) == MR_OK;
    disk_close(image.disk);
    return good;
}

static bool begins(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

void ps_world_forget(ps_world *world) {
    DIR *folder = opendir(world->folder);
    if (folder == NULL) return;
    for (struct dirent *item; (item = readdir(folder)) != NULL;)
        if (begins(item->d_name, IMAGE_FILE)) unlinkat(dirfd(folder), item->d_name, 0);
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

bool ps_world_terminate(pid_t *pid) {
    if (*pid == 0) return true;
    kill(*pid, SIGTERM);
    int code = child_wait(*pid, PATIENCE_MS);
    *pid = 0;
    if (code != 0) fprintf(stderr, "a process ended with %d\n", code);
    return code == 0;
}

/* ---- Looking on. */

static bool is_full(const mr_ps_cluster_map *chart, uint64_t past, const mr_ps_replica *dead) {
    if (chart->number == 0 || chart->generation == past) return false;
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        const mr_ps_slot *slot = &chart->slots[i];
        if (slot->count < chart->info.replicas) return false;
        for (uint32_t k = 0; dead != NULL && k < slot->count; k++)
            if (slot->replicas[k].server == dead->server && slot->replicas[k].incarnation == dead->incarnation)
                return false;
    }
    return true;
}

bool ps_world_full(ps_world *world, uint64_t past, const mr_ps_replica *dead) {
    int64_t until_us = clock_now_us(clock_real()) + PS_WORLD_PATIENCE_US;
    bool full = false;
    while (!full && clock_now_us(clock_real()) < until_us) {
        mr_ps_cluster_map *chart = NULL;
        if (mr_ps_cluster_map_get(world->address, LOOK_US, &chart) == MR_OK) full = is_full(chart, past, dead);
        mr_ps_cluster_map_free(chart);
        if (!full) usleep(10000);
    }
    return full;
}

mr_ps_replica ps_world_process(ps_world *world, uint32_t server) {
    mr_ps_cluster_map *chart = NULL;
    mr_ps_replica process = {.server = server};
    if (mr_ps_cluster_map_get(world->address, PS_WORLD_PATIENCE_US, &chart) != MR_OK) return process;
    for (uint32_t i = 0; i < chart->info.servers; i++)
        if (chart->servers[i].number == server) process.incarnation = chart->servers[i].incarnation;
    mr_ps_cluster_map_free(chart);
    return process;
}

mr_ps *ps_world_connect(const ps_world *world, int rank) {
    mr_ps *ps = NULL;
    if (mr_ps_connect(world->address, rank, PS_WORLD_PATIENCE_US, &ps) != MR_OK)
        fprintf(stderr, "%s\n", mr_last_error());
    return ps;
}

uint64_t ps_world_generation(ps_world *world) {
    mr_ps_cluster_map *chart = NULL;
    if (mr_ps_cluster_map_get(world->address, PS_WORLD_PATIENCE_US, &chart) != MR_OK) return 0;
    uint64_t generation = chart->generation;
    mr_ps_cluster_map_free(chart);
    return generation;
}

uint64_t ps_world_checkpoint(const ps_world *world) {
    mr_ps_cluster_map *chart = NULL;
    if (mr_ps_cluster_map_get(world->address, PS_WORLD_PATIENCE_US, &chart) != MR_OK) return 0;
    uint64_t checkpoint = chart->checkpoint;
    mr_ps_cluster_map_free(chart);
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

bool ps_world_weights(ps_world *world, lesson_weights out) {
    int code = child_wait(start(world, look, 0), PATIENCE_MS);
    if (code != 0) fprintf(stderr, "whoever looked ended with %d\n", code);
    memcpy(out, world->page->seen, sizeof world->page->seen);
    return code == 0;
}

bool ps_world_even(ps_world *world) {
    lesson_weights seen;
    if (!ps_world_weights(world, seen)) return false;
    const float *all = &seen[0][0][0];
    for (size_t i = 0; i < sizeof seen / sizeof *all; i++)
        if (all[i] != all[0] || all[0] == 0) return false;
    return true;
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

/* The files that a scheduler and ranks keep, and the sockets of those that were killed; nothing else. */
static bool sweep(ps_world *world) {
    DIR *folder = opendir(world->folder);
    if (folder == NULL) return false;
    uint32_t sockets = 0;
    for (struct dirent *item; (item = readdir(folder)) != NULL;) {
        bool kept = begins(item->d_name, IMAGE_FILE) || begins(item->d_name, SQLITE_IMPORT_FILE) ||
                    begins(item->d_name, "scheduler.lock") || begins(item->d_name, "shard-") ||
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
    for (uint32_t i = 0; i < PS_WORLD_SERVERS_MAX; i++) good = ps_world_terminate(&world->server[i]) && good;
    good = ps_world_terminate(&world->scheduler) && good;
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
