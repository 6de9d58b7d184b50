/* hold_house.c — see hold_house.h. */
#include "sim/runtime/hold_house.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "store/vault_books.h"

enum {
    SERVE_US = 15,
    STEP_US = 60,
    ROUND_US = 250,
    DISK_US = 200,
    GONE_BYTE = 0xdd,
    SPILL_BYTES = 200000,
    ARENA_BYTES = 2 << 20
};

typedef struct house_letter {
    list place;
    hold_house *house;
    house_letter_kind kind;
    uint64_t process;
    store_request request;
} house_letter;

typedef struct house_job { /* a save or a load */
    list place;
    bool load;
    uint64_t ticket, file, size;
    uint64_t slot; /* of a load: whose file it is */
    uint8_t *data; /* in the arena */
} house_job;

typedef struct house_file {
    list place;
    uint64_t name, size;
    uint8_t *bytes; /* owned */
} house_file;

static int64_t draw(hold_house *house, int64_t most) { return rng_between(sim_rng(house->sim), 1, most); }

static int64_t now_of(hold_house *house) {
    virtual_clock_advance(&house->clock, sim_now_us(house->sim));
    return sim_now_us(house->sim);
}

/* ---- Memory. */

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return extents_alloc(((hold_house *)context)->extents, size, out);
}

static void extent_free(void *context, extent extent) {
    hold_house *house = context;
    memset(arena_at(&house->arena, extent.offset), GONE_BYTE, extent.size);
    extents_free(house->extents, extent);
}

/* ---- The disk. */

static void disk_work(void *context, uint64_t unused);

static void disk_add(hold_house *house, house_job job) {
    house_job *added = xmalloc(sizeof *added);
    *added = job;
    bool idle = list_empty(&house->jobs);
    list_push_back(&house->jobs, &added->place);
    if (idle) sim_after(house->sim, draw(house, DISK_US), disk_work, house, 0);
}

static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    hold_house *house = context;
    uint64_t offset = (uint64_t)((const uint8_t *)data - house->arena.base);
    if (rng_chance(sim_rng(house->sim), house->disk_errors)) return error_set(MR_IO, "no descriptor for a file");
    disk_add(house, (house_job){.ticket = ticket, .size = size, .data = arena_at(&house->arena, offset)});
    return MR_OK;
}

static house_file *find_file(const hold_house *house, uint64_t name) {
    list_for_each (at, &house->files) {
        house_file *file = container_of(at, house_file, place);
        if (file->name == name) return file;
    }
    return NULL;
}

static uint64_t slot_of_file(const hold_house *house, uint64_t name) {
    map_slot found;
    for (size_t at = 0; (at = map_next(&house->vault->files, at, &found)) != 0;)
        if (((file_book *)found.value)->file == name) return found.key;
    return 0;
}

static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    hold_house *house = context;
    disk_add(house, (house_job){.load = true,
                                .ticket = ticket,
                                .file = file,
                                .size = size,
                                .slot = slot_of_file(house, file),
                                .data = data});
    return MR_OK;
}

static void file_free(house_file *file) {
    list_remove(&file->place);
    free(file->bytes);
    free(file);
}

static void forget(void *context, uint64_t name) {
    hold_house *house = context;
    house_file *file = find_file(house, name);
    if (file == NULL)
        sim_violation(house->sim, "the vault forgets file %" PRIu64 ", which is not there", name);
    else
        file_free(file);
}

static mr_status run_load(hold_house *house, const house_job *job) {
    const house_file *file = find_file(house, job->file);
    bool lost = rng_chance(sim_rng(house->sim), house->files_lost);
    if (file != NULL && !lost) {
        memcpy(job->data, file->bytes, job->size);
        return MR_OK;
    }
    if (file == NULL) return error_set(MR_CORRUPT, "the file was forgotten"); /* and so was the object */
    sim_count(house->sim, "files lost", 1);
    house->events->file_lost(house->context, job->slot);
    return error_set(MR_CORRUPT, "the file has other bytes");
}

static mr_status run_save(hold_house *house, const house_job *job) {
    if (house->saves_left == 0 || rng_chance(sim_rng(house->sim), house->disk_errors))
        return error_set(MR_NOMEM, "the disk is full");
    house->saves_left--;
    house_file *file = xcalloc(1, sizeof *file);
    *file = (house_file){.name = job->ticket, .size = job->size, .bytes = xmalloc(job->size)};
    memcpy(file->bytes, job->data, job->size);
    list_push_back(&house->files, &file->place);
    return MR_OK;
}

static void disk_work(void *context, uint64_t unused) {
    hold_house *house = context;
    if (house->stopped || list_empty(&house->jobs)) return;
    if (house->round != 0) { /* the loop is busy: the answer waits */
        sim_after(house->sim, STEP_US, disk_work, house, 0);
        return;
    }
    house_job *job = container_of(house->jobs.next, house_job, place);
    mr_status status = job->load ? run_load(house, job) : run_save(house, job);
    sim_note(house->sim, NULL, "%s %" PRIu64 ": %s", job->load ? "load" : "save", job->ticket, mr_status_name(status));
    uint64_t ticket = job->ticket;
    list_remove(&job->place);
    free(job);
    vault_moved(house->vault, ticket, status, now_of(house));
    house->events->changed(house->context);
    if (!list_empty(&house->jobs)) sim_after(house->sim, draw(house, DISK_US), disk_work, house, 0);
}

static void nudge(void *context, uint64_t process) { sim_count(((hold_house *)context)->sim, "nudges", 1); }

static const vault_ops ops = {extent_alloc, extent_free, save, load, forget, nudge};

/* ---- The line of requests. */

static void serve(void *context, uint64_t unused);

static void send(hold_house *house, house_letter letter) {
    house_letter *sent = xmalloc(sizeof *sent);
    *sent = letter;
    sent->house = house;
    list_push_back(&house->letters, &sent->place);
    if (house->serving) return;
    house->serving = true;
    sim_after(house->sim, draw(house, SERVE_US), serve, house, 0);
}

void hold_house_join(hold_house *house, uint64_t process) {
    send(house, (house_letter){.kind = LETTER_JOIN, .process = process});
}

void hold_house_ask(hold_house *house, uint64_t process, const store_request *request) {
    send(house, (house_letter){.kind = LETTER_ASK, .process = process, .request = *request});
}

void hold_house_leave(hold_house *house, uint64_t process) {
    send(house, (house_letter){.kind = LETTER_LEAVE, .process = process});
}

static void restored(void *argument, mr_status status) {
    house_letter *letter = argument;
    hold_house *house = letter->house;
    if (!house->stopped)
        house->events->answered(house->context, letter->process, &letter->request, status, (extent){0}, 0);
    free(letter);
}

static void lend(hold_house *house, house_letter *letter, lease_kind kind, uint64_t size) {
    extent extent = {0};
    int64_t retry_us = 0;
    mr_status status = vault_lease(house->vault, letter->process, kind, size, now_of(house), &extent, &retry_us);
    letter->request.kind = kind;
    house->events->answered(house->context, letter->process, &letter->request, status, extent, retry_us);
}

/* True: the letter is still needed. */
static bool serve_letter(hold_house *house, house_letter *letter) {
    switch (letter->kind) {
    case LETTER_JOIN: lend(house, letter, LEASE_DESK, 0); return false;
    case LETTER_LEAVE: vault_leave(house->vault, letter->process); return false;
    case LETTER_ASK: break;
    }
    switch (letter->request.ask) {
    case STORE_LEASE: lend(house, letter, letter->request.kind, letter->request.size); return false;
    case STORE_GIVE_BACK:
        if (vault_give_back(house->vault, letter->process, letter->request.extent) != MR_OK)
            sim_violation(house->sim, "process %" PRIu64 " gives back what the vault did not lend it", letter->process);
        return false;
    case STORE_COLLECT:
        vault_collect(house->vault);
        house->events->answered(house->context, letter->process, &letter->request, MR_OK, (extent){0}, 0);
        return false;
    case STORE_RESTORE:
        vault_restore(house->vault, letter->process, &letter->request.ref, now_of(house), restored, letter);
        return true;
    }
    return false;
}

static void serve(void *context, uint64_t unused) {
    hold_house *house = context;
    house->serving = false;
    if (house->stopped || list_empty(&house->letters)) return;
    if (house->round == 0) {
        house_letter *letter = container_of(list_pop_front(&house->letters), house_letter, place);
        if (!serve_letter(house, letter)) free(letter);
        house->events->changed(house->context);
    }
    if (list_empty(&house->letters) || house->serving) return;
    house->serving = true;
    sim_after(house->sim, draw(house, SERVE_US), serve, house, 0);
}

/* ---- Rounds. */

/* 1: read the tables. 2: condemn, or choose. 3: read again. 4: decide, or send. */
static void round_step(hold_house *house) {
    switch (house->round) {
    case 1: vault_mark(house->vault); break;
    case 2:
        if (house->spilling)
            vault_spill_choose(house->vault, SPILL_BYTES);
        else if (!vault_condemn(house->vault))
            house->round = 4; /* nothing to decide */
        break;
    case 3:
        if (!MUTATED("no-second-mark")) vault_mark(house->vault);
        break;
    case 4:
        if (house->spilling)
            vault_spill_send(house->vault, now_of(house));
        else
            vault_decide(house->vault);
        break;
    default: MR_UNREACHABLE();
    }
    house->round = house->round >= 4 ? 0 : house->round + 1;
}

void hold_house_step(hold_house *house) {
    if (house->stopped) return;
    if (house->round == 0) {
        house->round = 1;
        house->spilling = rng_chance(sim_rng(house->sim), 0.4);
        sim_count(house->sim, house->spilling ? "spill rounds" : "collect rounds", 1);
    }
    round_step(house);
    house->events->changed(house->context);
}

static void go_round(void *context, uint64_t unused) {
    hold_house *house = context;
    if (house->stopped) return;
    hold_house_step(house);
    sim_after(house->sim, draw(house, house->round == 0 ? ROUND_US : STEP_US), go_round, house, 0);
}

void hold_house_collect_now(hold_house *house) {
    MR_ASSERT(house->round == 0);
    now_of(house);
    vault_collect(house->vault);
    house->events->changed(house->context);
}

/* ---- Life. */

void hold_house_init(hold_house *house, sim *sim, uint64_t bytes, const hold_house_events *events, void *context) {
    *house = (hold_house){.sim = sim, .events = events, .context = context, .saves_left = UINT64_MAX};
    list_init(&house->letters);
    list_init(&house->jobs);
    list_init(&house->files);
    mr_status status = arena_create(ARENA_EXTENTS_OFFSET + ARENA_BYTES, &house->arena);
    MR_ASSERT(status == MR_OK && bytes <= ARENA_BYTES);
    house->extents = extents_create(ARENA_EXTENTS_OFFSET, ARENA_EXTENTS_OFFSET + bytes);
    house->vault = vault_open(&house->arena, &ops, house, NULL);
    sim_after(sim, draw(house, ROUND_US), go_round, house, 0);
}

bool hold_house_is_quiet(const hold_house *house) {
    return list_empty(&house->letters) && list_empty(&house->jobs) && house->round == 0;
}

size_t hold_house_file_count(const hold_house *house) {
    size_t count = 0;
    list_for_each (at, &house->files) count++;
    return count;
}

void hold_house_close(hold_house *house) {
    house->stopped = true;
    vault_close(house->vault);
    if (!sim_failed(house->sim) && extents_stats_now(house->extents).used != 0)
        sim_violation(house->sim, "the vault is closed, but %" PRIu64 " bytes are lent",
                      extents_stats_now(house->extents).used);
    extents_destroy(house->extents);
    for (list *at; (at = list_pop_front(&house->letters)) != NULL;) free(container_of(at, house_letter, place));
    for (list *at; (at = list_pop_front(&house->jobs)) != NULL;) free(container_of(at, house_job, place));
    while (!list_empty(&house->files)) file_free(container_of(house->files.next, house_file, place));
    arena_unmap(&house->arena);
}
