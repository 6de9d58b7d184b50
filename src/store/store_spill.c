/* store_spill.c — eviction of objects to the spill file and their restoration, when memory is short; see
 * store_server.h. Tested by src/store/store_client_test.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/invariants.h"
#include "base/log.h"
#include "base/mutation.h"
#include "base/plural.h"
#include "store/server_internal.h"

enum { SPILL_BYTES_MIN = 64 * 1024 }; /* smaller objects are not spilled */

/* ---- Files. */

void store_server_file_forget(store_server *server, uint64_t slot) {
    file_book *file = map_remove(&server->files, slot);
    if (file == NULL) return;
    MR_ASSERT(server->stats.spilled_bytes >= file->size);
    server->stats.spilled_bytes -= file->size;
    if (!MUTATED("no-file-end")) server->ops->forget(server->context, file->file);
    free(file);
}

static move_book *move_add(store_server *server, page_book *page, uint32_t index, uint64_t sequence, uint64_t size) {
    MR_ASSERT(page != NULL && index < OBJECT_HEADERS_PER_PAGE && size > 0);
    move_book *move = XNEW(move_book, .ticket = server->next_ticket++, .sequence = sequence, .page = page,
                           .index = index, .size = size);
    list_init(&move->waiters);
    list_push_back(&server->moves, &move->place);
    return move;
}

static void move_end(move_book *move, mr_status status) {
    list_remove(&move->place);
    for (list *item; (item = list_pop_front(&move->waiters)) != NULL;) {
        waiter_book *waiter = container_of(item, waiter_book, place);
        waiter->done(waiter->argument, status);
        free(waiter);
    }
    free(move);
}

/* Changes the state of the moved object. False: the object has another state, or the slot has another object. */
static bool change_state(const store_server *server, const move_book *move, object_header_state from,
                         object_header_state to) {
    return object_header_change(page_slot(server, move->page, move->index), object_header_word(move->sequence, from),
                                object_header_word(move->sequence, to));
}

/* ---- Spilling. */

typedef struct candidate {
    page_book *page;
    uint32_t index;
    int64_t used_us;
    uint64_t size;
} candidate;

static int by_use(const void *a, const void *b) {
    const candidate *left = a, *right = b;
    return (left->used_us > right->used_us) - (left->used_us < right->used_us);
}

static bool may_spill(const store_server *server, const page_book *page, uint32_t index, candidate *out) {
    const object_header *header = page_slot(server, page, index);
    if (object_header_read(header) !=
        object_header_word(object_word_sequence(object_header_read(header)), OBJECT_HEADER_SEALED))
        return false;
    if (bit_of(page->pinned, index) && !MUTATED("no-pin-check")) return false;
    uint64_t size = atomic_load(&header->size);
    if (size < SPILL_BYTES_MIN || store_server_home(server, page, index) == NULL) return false;
    *out = (candidate){.index = index, .used_us = atomic_load(&header->used_us), .size = size};
    return true;
}

/* All objects that may be spilled, least recently used first; the caller frees *out. */
static size_t find_candidates(store_server *server, candidate **out) {
    size_t count = 0, capacity = 0;
    candidate *found = NULL;
    list_for_each (at, &server->pages) {
        page_book *page = container_of(at, page_book, place);
        for (uint32_t i = 0; i < OBJECT_HEADERS_PER_PAGE; i++) {
            xgrow(&found, &capacity, count + 1, sizeof *found);
            if (may_spill(server, page, i, &found[count])) found[count++].page = page;
        }
    }
    if (count != 0) qsort(found, count, sizeof *found, by_use);
    *out = found;
    return count;
}

/* Begins the save if the object still has no view; otherwise, or if that fails, makes the object SEALED again. */
static void send_off(store_server *server, move_book *move, int64_t now_us) {
    MR_ASSERT(move->into == NULL && !move->sent);
    object_header *header = page_slot(server, move->page, move->index);
    stretch_book *home = store_server_home(server, move->page, move->index);
    bool viewed = bit_of(move->page->pinned, move->index) && !MUTATED("no-pin-check");
    if (!viewed && home != NULL && atomic_load(&header->size) == move->size) {
        const void *data = arena_at(server->arena, atomic_load(&header->offset));
        move->sent = server->ops->save(server->context, move->ticket, data, move->size) == MR_OK;
        if (move->sent) return;
        log_warn("cannot spill an object of %" PRIu64 " bytes: %s", move->size, mr_last_error());
        server->disk_at_us = now_us + STORE_SERVER_DISK_RETRY_US;
    }
    (void)change_state(server, move, OBJECT_HEADER_SPILLING, OBJECT_HEADER_SEALED);
    move_end(move, MR_OK);
}

static uint64_t spill_left(const store_server *server) {
    uint64_t most = server->options.spill_bytes_max, used = server->stats.spilled_bytes;
    list_for_each (at, &server->moves) {
        const move_book *move = container_of(at, move_book, place);
        if (move->into == NULL) used += move->size;
    }
    return most == 0 ? UINT64_MAX : used < most ? most - used : 0;
}

void store_server_spill_choose(store_server *server, uint64_t size) {
    uint64_t under_way = 0, left = spill_left(server);
    list_for_each (at, &server->moves) under_way += container_of(at, move_book, place)->size;
    candidate *found;
    size_t count = find_candidates(server, &found);
    for (size_t i = 0; i < count && under_way < size; i++) {
        object_header *header = page_slot(server, found[i].page, found[i].index);
        uint64_t sequence = object_word_sequence(object_header_read(header));
        if (found[i].size > left) continue;
        if (!object_header_change(header, object_header_word(sequence, OBJECT_HEADER_SEALED),
                                  object_header_word(sequence, OBJECT_HEADER_SPILLING)))
            continue;
        move_add(server, found[i].page, found[i].index, sequence, found[i].size);
        under_way += found[i].size;
        left -= found[i].size;
    }
    free(found);
    FAILPOINT("store.vault_spilling");
    cpu_fence();
}

void store_server_spill_send(store_server *server, int64_t now_us) {
    list_for_each (at, &server->moves) {
        move_book *move = container_of(at, move_book, place);
        if (move->into == NULL && !move->sent) send_off(server, move, now_us);
    }
}

/* Begins to save objects until saves and loads of `size` bytes are pending. */
static void spill(store_server *server, uint64_t size, int64_t now_us) {
    if (server->ops->save == NULL || now_us < server->disk_at_us) return;
    store_server_mark(server);
    store_server_spill_choose(server, size);
    store_server_mark(server);
    store_server_spill_send(server, now_us);
}

/* Logs only the first failure after a successful save: saves are retried every second. */
static void note_disk_failure(store_server *server, uint64_t size) {
    if (server->disk_failure[0] == '\0')
        log_warn("cannot spill an object of %" PRIu64
                 " bytes: %s; free space there, or set spill_dir to another directory",
                 size, mr_last_error());
    snprintf(server->disk_failure, sizeof server->disk_failure, "%s", mr_last_error());
}

static void saved(store_server *server, move_book *move, mr_status status, int64_t now_us) {
    server->released = true; /* the object may have lost its last hold during the save */
    if (status != MR_OK) {
        note_disk_failure(server, move->size);
        server->disk_at_us = now_us + STORE_SERVER_DISK_RETRY_US;
        (void)change_state(server, move, OBJECT_HEADER_SPILLING, OBJECT_HEADER_SEALED);
        return;
    }
    server->disk_failure[0] = '\0';
    if (!change_state(server, move, OBJECT_HEADER_SPILLING, OBJECT_HEADER_SPILLED)) {
        server->ops->forget(server->context, move->ticket); /* a process has pinned the object, or it is gone */
        server->stats.voided++;
        return;
    }
    MR_ASSERT(map_get(&server->files, slot_offset(move->page, move->index)) == NULL && move->into == NULL);
    file_book *file = XNEW(file_book, .file = move->ticket, .size = move->size);
    map_put(&server->files, slot_offset(move->page, move->index), file);
    store_server_take_memory(server, move->page, move->index);
    atomic_fetch_add(&page_slot(server, move->page, move->index)->moves, 1);
    server->stats.spilled++;
    server->stats.spilled_bytes += move->size;
    if (move->page->owner != NULL) move->page->owner->moved = true;
    store_server_tell(server);
}

/* ---- Restoring. */

static void lose(store_server *server, const move_book *move) {
    if (!change_state(server, move, OBJECT_HEADER_SPILLED, OBJECT_HEADER_LOST)) return;
    store_server_file_forget(server, slot_offset(move->page, move->index));
    server->stats.lost++;
}

static mr_status loaded(store_server *server, move_book *move, mr_status status) {
    object_header *header = page_slot(server, move->page, move->index);
    /* the object was deleted, or has no holder any more */
    if (object_header_read(header) != object_header_word(move->sequence, OBJECT_HEADER_SPILLED)) {
        store_server_stretch_free(server, move->into);
        return MR_NOT_FOUND;
    }
    if (status != MR_OK) {
        log_warn("cannot restore a spilled object of %" PRIu64 " bytes: %s", move->size, mr_last_error());
        store_server_stretch_free(server, move->into);
        lose(server, move);
        return MR_OBJECT_LOST;
    }
    atomic_store(&header->offset, move->into->extent.offset);
    atomic_store(&header->size, move->size);
    if (!change_state(server, move, OBJECT_HEADER_SPILLED, OBJECT_HEADER_SEALED)) {
        store_server_stretch_free(server, move->into);
        return MR_NOT_FOUND; /* deleted since the check above */
    }
    MR_ASSERT(move->page->homes[move->index] == NULL && move->into->live == 0);
    move->page->homes[move->index] = move->into;
    move->into->live = 1;
    store_server_file_forget(server, slot_offset(move->page, move->index));
    server->stats.restored++;
    return MR_OK;
}

static void wait_for(move_book *move, store_server_done_fn *done, void *argument) {
    waiter_book *waiter = XNEW(waiter_book, .done = done, .argument = argument);
    list_push_back(&move->waiters, &waiter->place);
}

static move_book *load_of(const store_server *server, const page_book *page, uint32_t index) {
    list_for_each (at, &server->moves) {
        move_book *move = container_of(at, move_book, place);
        if (move->into != NULL && move->page == page && move->index == index) return move;
    }
    return NULL;
}

/* Begins to load a spilled object. */
static mr_status fetch(store_server *server, process_book *asker, page_book *page, uint32_t index, int64_t now_us,
                       move_book **out) {
    const file_book *file = map_get(&server->files, slot_offset(page, index));
    if (file == NULL) return MR_NOT_FOUND;
    extent extent;
    int64_t retry_us;
    MR_TRY(store_server_room(server, asker, LEASE_OWN, file->size, now_us, &extent, &retry_us));
    file =
        map_get(&server->files, slot_offset(page, index)); /* again: store_server_room may have collected this object */
    if (file == NULL) {
        server->ops->extent_free(server->context, extent);
        return MR_NOT_FOUND;
    }
    uint64_t sequence = object_word_sequence(object_header_read(page_slot(server, page, index)));
    move_book *move = move_add(server, page, index, sequence, file->size);
    move->into = store_server_stretch_add(server, NULL, extent, LEASE_OWN);
    mr_status status = server->ops->load(server->context, move->ticket, file->file,
                                         arena_at(server->arena, extent.offset), move->size);
    if (status != MR_OK) {
        store_server_stretch_free(server, move->into);
        move_end(move, status);
        return status;
    }
    *out = move;
    return MR_OK;
}

void store_server_restore(store_server *server, uint64_t process, const object_ref *ref, int64_t now_us,
                          store_server_done_fn *done, void *argument) {
    uint32_t index = 0;
    page_book *page = store_server_page(server, ref->slot, &index);
    uint64_t word = page == NULL ? 0 : object_header_read(page_slot(server, page, index));
    if (page == NULL || object_word_sequence(word) != ref->sequence || !object_word_holdable(word)) {
        done(argument, MR_NOT_FOUND);
        return;
    }
    if (object_word_state(word) != OBJECT_HEADER_SPILLED) {
        bool lost = object_word_state(word) == OBJECT_HEADER_LOST || object_word_state(word) == OBJECT_HEADER_DOOMED;
        done(argument, lost ? MR_OBJECT_LOST : MR_OK);
        return;
    }
    move_book *move = load_of(server, page, index);
    process_book *asker = map_get(&server->by_id, process);
    mr_status status = move != NULL ? MR_OK : fetch(server, asker, page, index, now_us, &move);
    if (status != MR_OK)
        done(argument, status);
    else
        wait_for(move, done, argument);
}

void store_server_moves_end(store_server *server) {
    while (!list_empty(&server->moves)) move_end(container_of(server->moves.next, move_book, place), MR_CLOSED);
}

void store_server_moved(store_server *server, uint64_t ticket, mr_status status, int64_t now_us) {
    list_for_each (at, &server->moves) {
        move_book *move = container_of(at, move_book, place);
        if (move->ticket != ticket) continue;
        if (move->into == NULL)
            saved(server, move, status, now_us);
        else
            status = loaded(server, move, status);
        move_end(move, status);
        CHECK_INVARIANTS(server->stretches.count + server->by_page.count * OBJECT_HEADERS_PER_PAGE,
                         store_server_check(server));
        return;
    }
    MR_UNREACHABLE();
}

/* ---- Memory for a request. */

static void ask_back(store_server *server) {
    list_for_each (at, &server->processes) {
        process_book *process = container_of(at, process_book, place);
        atomic_fetch_add(&page_of(server, process)->wanted, 1);
        if (server->ops->nudge != NULL) server->ops->nudge(server->context, process->id);
    }
}

/* Writes why no more can be spilled; "": more can be spilled. */
static void disk_text(const store_server *server, uint64_t size, char *out, size_t room) {
    out[0] = '\0';
    if (server->ops->save == NULL)
        snprintf(out, room, ", and no more can be spilled: spill_dir is not set");
    else if (server->disk_failure[0] != '\0')
        snprintf(out, room, ", and no more can be spilled: %s", server->disk_failure);
    else if (spill_left(server) < size)
        snprintf(out, room, ", and no more can be spilled: spill_bytes_max is %" PRIu64,
                 server->options.spill_bytes_max);
}

static mr_status give_up(store_server *server, uint64_t size) {
    store_server_stats stats = store_server_stats_now(server);
    char holders[200], disk[160];
    store_server_holders_text(server, holders, sizeof holders);
    disk_text(server, size, disk, sizeof disk);
    return error_set(MR_NOMEM,
                     "no room for %" PRIu64 " bytes: %" PRIu64 " of the %" PRIu64
                     " bytes of shared memory are taken by %u object%s that %s held%s, %" PRIu64
                     " bytes are on disk%s; release some, or start with more (store_bytes, arena_bytes)",
                     size, stats.bytes, server->arena->size, stats.objects, plural(stats.objects),
                     stats.objects == 1 ? "is" : "are", holders, stats.spilled_bytes, disk);
}

mr_status store_server_room(store_server *server, process_book *process, lease_kind kind, uint64_t size, int64_t now_us,
                            extent *out, int64_t *retry_us) {
    process_page *page = process == NULL ? NULL : page_of(server, process);
    uint64_t taken = page == NULL ? 0 : atomic_load(&page->taken);
    mr_status status = server->ops->extent_alloc(server->context, size, out);
    if (status == MR_NOMEM) {
        store_server_collect(server);
        status = server->ops->extent_alloc(server->context, size, out);
    }
    *retry_us = STORE_SERVER_RETRY_US;
    if (status == MR_NOMEM && page != NULL && atomic_load(&page->taken) != taken) {
        *retry_us = 1;
        return error_set(MR_BUSY, "retry %" PRIu64 " bytes: the process has freed memory of its own", size);
    }
    if (status == MR_OK && process != NULL) process->starving_since_us = CLOCK_NEVER_US;
    if (status != MR_NOMEM) return status;
    ask_back(server);
    spill(server, size, now_us);
    if (process == NULL) return error_set(MR_BUSY, "no room for %" PRIu64 " bytes at the moment", size);
    if (process->starving_since_us == CLOCK_NEVER_US) process->starving_since_us = now_us;
    /* A client that finds no room for a stretch asks for its object's size; the error names that size. */
    if (kind == LEASE_STRETCH || now_us - process->starving_since_us < server->options.patience_us ||
        !list_empty(&server->moves))
        return error_set(MR_BUSY, "no room for %" PRIu64 " bytes at the moment", size);
    process->starving_since_us = CLOCK_NEVER_US;
    return give_up(server, size);
}
