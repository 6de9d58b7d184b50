/* ps_world.c — see ps_world.h. */
#include "tests/support/ps_world.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/child.h"

enum { PATIENCE_MS = 60000, LOOK_US = 2000000 };

typedef float weights[PS_WORLD_SLOTS_MAX][PS_WORLD_WIDTH];

/* ---- What is computed. */

static void gradient(const ps_world *world, uint32_t rank, uint64_t step, uint32_t slot, const float *shown,
                     float *out) {
    for (size_t i = 0; i < PS_WORLD_WIDTH; i++) {
        if (world->consistency != MR_PS_BSP) {
            out[i] = 1; /* where nobody knows the order, everything is counted */
            continue;
        }
        float target = (float)((slot * 7 + i * 3 + 1) % 11) / 3.0f;
        float noise = (float)((step * 31 + rank * 17 + i * 5 + slot) % 23) / 97.0f;
        out[i] = (target + noise - shown[i]) * 0.05f / (float)(rank + 1);
    }
}

static void reference(const ps_world *world, weights out) {
    memset(out, 0, sizeof(weights));
    for (uint64_t step = 0; step < world->steps; step++)
        for (uint32_t slot = 0; slot < world->slots; slot++) {
            float sum[PS_WORLD_WIDTH] = {0}, part[PS_WORLD_WIDTH];
            for (uint32_t rank = 0; rank < world->workers; rank++) {
                gradient(world, rank, step, slot, out[slot], part);
                for (size_t i = 0; i < PS_WORLD_WIDTH; i++) sum[i] += part[i];
            }
            for (size_t i = 0; i < PS_WORLD_WIDTH; i++) out[slot][i] += sum[i];
        }
}

/* ---- Children. */

typedef struct role {
    ps_world *world;
    uint32_t number;
    int pipe; /* where the scheduler writes its address */
} role;

static void on_listening(void *context, const char *address) {
    const role *role = context;
    char text[MR_PS_ADDRESS_MAX] = {0};
    snprintf(text, sizeof text, "%s", address);
    if (write(role->pipe, text, sizeof text) != (ssize_t)sizeof text) _exit(99);
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
                                       .checkpoint_us = world->checkpoint_us,
                                       .on_listening = on_listening,
                                       .context = role};
    CHILD_CHECK(mr_ps_run_scheduler(&options) == MR_OK);
    return 0;
}

static int be_server(void *argument) {
    const role *role = argument;
    mr_ps_server_options options = {.scheduler = role->world->address, .number = 1 + role->number};
    CHILD_CHECK(mr_ps_run_server(&options) == MR_OK);
    return 0;
}

/* A step; MR_STALE: it has to be played again, or another one. */
static mr_status play(const ps_world *world, mr_ps *ps, uint32_t rank, uint64_t step) {
    weights shown, parts;
    mr_ps_ticket pulls[PS_WORLD_SLOTS_MAX], pushes[PS_WORLD_SLOTS_MAX];
    for (uint32_t i = 0; i < world->slots; i++) MR_TRY(mr_ps_pull(ps, i, shown[i], PS_WORLD_WIDTH, &pulls[i]));
    for (uint32_t i = 0; i < world->slots; i++) MR_TRY(mr_ps_wait(ps, pulls[i], PS_WORLD_PATIENCE_US));
    if (world->step_us != 0) usleep((useconds_t)world->step_us);
    for (uint32_t i = 0; i < world->slots; i++) {
        gradient(world, rank, step, i, shown[i], parts[i]);
        MR_TRY(mr_ps_push(ps, i, parts[i], PS_WORLD_WIDTH, &pushes[i]));
    }
    MR_TRY(mr_ps_end(ps));
    for (uint32_t i = 0; i < world->slots; i++) MR_TRY(mr_ps_wait(ps, pushes[i], PS_WORLD_PATIENCE_US));
    return MR_OK;
}

static mr_status compare(const ps_world *world, mr_ps *ps, bool *same) {
    weights shown, expected;
    reference(world, expected);
    for (uint32_t i = 0; i < world->slots; i++) MR_TRY(mr_ps_pull(ps, i, shown[i], PS_WORLD_WIDTH, NULL));
    *same = memcmp(shown, expected, world->slots * sizeof *shown) == 0;
    if (*same || world->consistency == MR_PS_BSP) return MR_OK;
    for (uint32_t i = 0; i < world->slots; i++)
        if (shown[i][0] > expected[i][0]) return MR_OK; /* something was counted twice */
    usleep(2000);
    return MR_BUSY; /* others are not done yet */
}

static int be_worker(void *argument) {
    const role *role = argument;
    const ps_world *world = role->world;
    mr_ps *ps;
    mr_status status = mr_ps_connect(world->address, (int)role->number, PS_WORLD_PATIENCE_US, &ps);
    if (status != MR_OK) fprintf(stderr, "rank %u cannot connect: %s\n", role->number, mr_last_error());
    CHILD_CHECK(status == MR_OK);
    bool over = false, same = false;
    while (!over) {
        uint64_t step;
        status = mr_ps_begin(ps, PS_WORLD_PATIENCE_US, &step);
        if (status == MR_OK) world->progress[role->number] = step;
        if (status == MR_OK && step < world->steps)
            status = play(world, ps, role->number, step);
        else if (status == MR_OK)
            over = compare(world, ps, &same) == MR_OK;
        if (status != MR_OK && status != MR_STALE) {
            fprintf(stderr, "rank %u: %s\n", role->number, mr_last_error());
            return 102;
        }
    }
    CHILD_CHECK(same);
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
    world->progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return world->progress != MAP_FAILED;
}

bool ps_world_start_scheduler(ps_world *world) {
    int ends[2];
    char address[MR_PS_ADDRESS_MAX];
    if (pipe(ends) != 0) return false;
    role role = {world, 0, ends[1]};
    world->scheduler = child_start(be_scheduler, &role);
    close(ends[1]);
    bool there = read(ends[0], address, sizeof address) == (ssize_t)sizeof address;
    close(ends[0]);
    if (there) memcpy(world->address, address, sizeof address);
    return there;
}

void ps_world_start_server(ps_world *world, uint32_t number) {
    role role = {world, number, -1};
    world->server[number] = child_start(be_server, &role);
}

void ps_world_start_worker(ps_world *world, uint32_t rank) {
    role role = {world, rank, -1};
    world->worker[rank] = child_start(be_worker, &role);
}

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

uint64_t ps_world_generation(ps_world *world) {
    mr_ps_chart *chart = NULL;
    if (mr_ps_chart_get(world->address, PS_WORLD_PATIENCE_US, &chart) != MR_OK) return 0;
    uint64_t generation = chart->generation;
    mr_ps_chart_free(chart);
    return generation;
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

static bool begins(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

/* The files that a scheduler keeps, and the sockets of those that were killed; nothing else. */
static bool sweep(ps_world *world) {
    DIR *folder = opendir(world->folder);
    if (folder == NULL) return false;
    uint32_t sockets = 0;
    for (struct dirent *item; (item = readdir(folder)) != NULL;) {
        bool kept = begins(item->d_name, "coordinator.db") || begins(item->d_name, "shard-") ||
                    begins(item->d_name, "manifest");
        bool is_socket = begins(item->d_name, "s.");
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
    munmap(world->progress, 4096);
    return sweep(world) && good;
}
