/* hold_server.c — see hold_server.h. */
#include "sim/runtime/hold_server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "store/server_internal.h"

enum {
    SERVE_US = 15,
    STEP_US = 60,
    ROUND_US = 250,
    DISK_US = 200,
    GONE_BYTE = 0xdd,
    SPILL_BYTES = 200000,
    ARENA_BYTES = 2 << 20
};

typedef struct server_message {
    list place;
    hold_server *server;
    server_message_kind kind;
    uint64_t process;
    store_client_request request;
} server_message;

typedef struct disk_job { /* a save or a load */
    list place;
    bool load;
    uint64_t ticket, file, size;
    uint64_t slot; /* of a load: object of the file */
    uint8_t *data; /* in the arena */
} disk_job;

typedef struct disk_file {
    list place;
    uint64_t name, size;
    uint8_t *bytes; /* owned */
} disk_file;

static int64_t draw(hold_server *server, int64_t most) { return rng_between(sim_rng(server->sim), 1, most); }

static int64_t now_of(hold_server *server) {
    virtual_clock_advance(&server->clock, sim_now_us(server->sim));
    return sim_now_us(server->sim);
}

/* ---- Memory. */

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return extent_allocator_alloc(((hold_server *)context)->allocator, size, out);
}

static void extent_free(void *context, extent extent) {
    hold_server *server = context;
    memset(arena_at(&server->arena, extent.offset), GONE_BYTE, extent.size);
    extent_allocator_free(server->allocator, extent);
}

/* ---- The disk. */

static void disk_work(void *context, uint64_t unused);

static void disk_add(hold_server *server, disk_job job) {
    disk_job *added = xmalloc(sizeof *added);
    *added = job;
    bool idle = list_empty(&server->jobs);
    list_push_back(&server->jobs, &added->place);
    if (idle) sim_after(server->sim, draw(server, DISK_US), disk_work, server, 0);
}

static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    hold_server *server = context;
    uint64_t offset = (uint64_t)((const uint8_t *)data - server->arena.base);
    if (rng_chance(sim_rng(server->sim), server->disk_errors)) return error_set(MR_IO, "no descriptor for a file");
    disk_add(server, (disk_job){.ticket = ticket, .size = size, .data = arena_at(&server->arena, offset)});
    return MR_OK;
}

static disk_file *find_file(const hold_server *server, uint64_t name) {
    list_for_each (at, &server->files) {
        disk_file *file = container_of(at, disk_file, place);
        if (file->name == name) return file;
    }
    return NULL;
}

static uint64_t slot_of_file(const hold_server *server, uint64_t name) {
    map_entry found;
    for (size_t at = 0; (at = map_next(&server->server->files, at, &found)) != 0;)
        if (((file_book *)found.value)->file == name) return found.key;
    return 0;
}

static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    hold_server *server = context;
    disk_add(server, (disk_job){.load = true,
                                .ticket = ticket,
                                .file = file,
                                .size = size,
                                .slot = slot_of_file(server, file),
                                .data = data});
    return MR_OK;
}

static void file_free(disk_file *file) {
    list_remove(&file->place);
    free(file->bytes);
    free(file);
}

static void forget(void *context, uint64_t name) {
    hold_server *server = context;
    disk_file *file = find_file(server, name);
    if (file == NULL)
        sim_violation(server->sim, "the vault forgets file %" PRIu64 ", which is not there", name);
    else
        file_free(file);
}

static mr_status run_load(hold_server *server, const disk_job *job) {
    const disk_file *file = find_file(server, job->file);
    bool lost = rng_chance(sim_rng(server->sim), server->files_lost);
    if (file != NULL && !lost) {
        memcpy(job->data, file->bytes, job->size);
        return MR_OK;
    }
    if (file == NULL) return error_set(MR_CORRUPT, "the file was forgotten"); /* the object was forgotten, too */
    sim_count(server->sim, "files lost", 1);
    server->events->file_lost(server->context, job->slot);
    return error_set(MR_CORRUPT, "the file has other bytes");
}

static mr_status run_save(hold_server *server, const disk_job *job) {
    if (server->saves_left == 0 || rng_chance(sim_rng(server->sim), server->disk_errors))
        return error_set(MR_NOMEM, "the disk is full");
    server->saves_left--;
    disk_file *file = xcalloc(1, sizeof *file);
    *file = (disk_file){.name = job->ticket, .size = job->size, .bytes = xmalloc(job->size)};
    memcpy(file->bytes, job->data, job->size);
    list_push_back(&server->files, &file->place);
    return MR_OK;
}

static void disk_work(void *context, uint64_t unused) {
    hold_server *server = context;
    if (server->stopped || list_empty(&server->jobs)) return;
    if (server->round != 0) { /* the round in progress delays the answer */
        sim_after(server->sim, STEP_US, disk_work, server, 0);
        return;
    }
    disk_job *job = container_of(server->jobs.next, disk_job, place);
    mr_status status = job->load ? run_load(server, job) : run_save(server, job);
    sim_note(server->sim, NULL, "%s %" PRIu64 ": %s", job->load ? "load" : "save", job->ticket, mr_status_name(status));
    uint64_t ticket = job->ticket;
    list_remove(&job->place);
    free(job);
    store_server_moved(server->server, ticket, status, now_of(server));
    server->events->changed(server->context);
    if (!list_empty(&server->jobs)) sim_after(server->sim, draw(server, DISK_US), disk_work, server, 0);
}

static void nudge(void *context, uint64_t process) { sim_count(((hold_server *)context)->sim, "nudges", 1); }

static const store_server_ops ops = {extent_alloc, extent_free, save, load, forget, nudge};

/* ---- The queue of requests. */

static void serve(void *context, uint64_t unused);

static void send(hold_server *server, server_message message) {
    server_message *sent = xmalloc(sizeof *sent);
    *sent = message;
    sent->server = server;
    list_push_back(&server->messages, &sent->place);
    if (server->serving) return;
    server->serving = true;
    sim_after(server->sim, draw(server, SERVE_US), serve, server, 0);
}

void hold_server_join(hold_server *server, uint64_t process) {
    send(server, (server_message){.kind = MESSAGE_JOIN, .process = process});
}

void hold_server_ask(hold_server *server, uint64_t process, const store_client_request *request) {
    send(server, (server_message){.kind = MESSAGE_ASK, .process = process, .request = *request});
}

void hold_server_leave(hold_server *server, uint64_t process) {
    send(server, (server_message){.kind = MESSAGE_LEAVE, .process = process});
}

static void restored(void *argument, mr_status status) {
    server_message *message = argument;
    hold_server *server = message->server;
    if (!server->stopped)
        server->events->answered(server->context, message->process, &message->request, status, (extent){0}, 0);
    free(message);
}

static void lend(hold_server *server, server_message *message, lease_kind kind, uint64_t size) {
    extent extent = {0};
    int64_t retry_us = 0;
    mr_status status =
        store_server_lease(server->server, message->process, kind, size, now_of(server), &extent, &retry_us);
    message->request.kind = kind;
    server->events->answered(server->context, message->process, &message->request, status, extent, retry_us);
}

/* Returns true if the message must not be freed yet. */
static bool serve_message(hold_server *server, server_message *message) {
    switch (message->kind) {
    case MESSAGE_JOIN: lend(server, message, LEASE_PAGE, 0); return false;
    case MESSAGE_LEAVE: store_server_leave(server->server, message->process); return false;
    case MESSAGE_ASK: break;
    }
    switch (message->request.ask) {
    case STORE_CLIENT_LEASE: lend(server, message, message->request.kind, message->request.size); return false;
    case STORE_CLIENT_GIVE_BACK:
        if (store_server_give_back(server->server, message->process, message->request.extent) != MR_OK)
            sim_violation(server->sim, "process %" PRIu64 " gives back what the vault did not lend it",
                          message->process);
        return false;
    case STORE_CLIENT_COLLECT:
        store_server_collect(server->server);
        server->events->answered(server->context, message->process, &message->request, MR_OK, (extent){0}, 0);
        return false;
    case STORE_CLIENT_RESTORE:
        store_server_restore(server->server, message->process, &message->request.ref, now_of(server), restored,
                             message);
        return true;
    }
    return false;
}

static void serve(void *context, uint64_t unused) {
    hold_server *server = context;
    server->serving = false;
    if (server->stopped || list_empty(&server->messages)) return;
    if (server->round == 0) {
        server_message *message = container_of(list_pop_front(&server->messages), server_message, place);
        if (!serve_message(server, message)) free(message);
        server->events->changed(server->context);
    }
    if (list_empty(&server->messages) || server->serving) return;
    server->serving = true;
    sim_after(server->sim, draw(server, SERVE_US), serve, server, 0);
}

/* ---- Rounds of the store server. */

/* 1: read the tables. 2: condemn, or choose. 3: read again. 4: decide, or send. */
static void round_step(hold_server *server) {
    switch (server->round) {
    case 1: store_server_mark(server->server); break;
    case 2:
        if (server->spilling)
            store_server_spill_choose(server->server, SPILL_BYTES);
        else if (!store_server_condemn(server->server))
            server->round = 4; /* nothing to decide */
        break;
    case 3:
        if (!MUTATED("no-second-mark")) store_server_mark(server->server);
        break;
    case 4:
        if (server->spilling)
            store_server_spill_send(server->server, now_of(server));
        else
            store_server_decide(server->server);
        break;
    default: MR_UNREACHABLE();
    }
    server->round = server->round >= 4 ? 0 : server->round + 1;
}

void hold_server_step(hold_server *server) {
    if (server->stopped) return;
    if (server->round == 0) {
        server->round = 1;
        server->spilling = rng_chance(sim_rng(server->sim), 0.4);
        sim_count(server->sim, server->spilling ? "spill rounds" : "collect rounds", 1);
    }
    round_step(server);
    server->events->changed(server->context);
}

static void go_round(void *context, uint64_t unused) {
    hold_server *server = context;
    if (server->stopped) return;
    hold_server_step(server);
    sim_after(server->sim, draw(server, server->round == 0 ? ROUND_US : STEP_US), go_round, server, 0);
}

void hold_server_collect_now(hold_server *server) {
    MR_ASSERT(server->round == 0);
    now_of(server);
    store_server_collect(server->server);
    server->events->changed(server->context);
}

/* ---- Creating and destroying. */

void hold_server_init(hold_server *server, sim *sim, uint64_t bytes, const hold_server_events *events, void *context) {
    *server = (hold_server){.sim = sim, .events = events, .context = context, .saves_left = UINT64_MAX};
    list_init(&server->messages);
    list_init(&server->jobs);
    list_init(&server->files);
    mr_status status = arena_create(ARENA_EXTENTS_OFFSET + ARENA_BYTES, &server->arena);
    MR_ASSERT(status == MR_OK && bytes <= ARENA_BYTES);
    server->allocator = extent_allocator_create(ARENA_EXTENTS_OFFSET, ARENA_EXTENTS_OFFSET + bytes);
    server->server = store_server_open(&server->arena, &ops, server, NULL);
    sim_after(sim, draw(server, ROUND_US), go_round, server, 0);
}

bool hold_server_is_quiet(const hold_server *server) {
    return list_empty(&server->messages) && list_empty(&server->jobs) && server->round == 0;
}

size_t hold_server_file_count(const hold_server *server) {
    size_t count = 0;
    list_for_each (at, &server->files) count++;
    return count;
}

void hold_server_close(hold_server *server) {
    server->stopped = true;
    store_server_close(server->server);
    if (!sim_failed(server->sim) && extent_allocator_stats_now(server->allocator).used != 0)
        sim_violation(server->sim, "the vault is closed, but %" PRIu64 " bytes are lent",
                      extent_allocator_stats_now(server->allocator).used);
    extent_allocator_destroy(server->allocator);
    for (list *at; (at = list_pop_front(&server->messages)) != NULL;) free(container_of(at, server_message, place));
    for (list *at; (at = list_pop_front(&server->jobs)) != NULL;) free(container_of(at, disk_job, place));
    while (!list_empty(&server->files)) file_free(container_of(server->files.next, disk_file, place));
    arena_unmap(&server->arena);
}
