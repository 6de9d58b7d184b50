/* barrier_server.c — see barrier_server.h.
 *
 *   bytes    content (v: varint)
 *   -------  ----------------------------------------------------------------------------
 *   8 v v    generation, ranks, barriers; each:
 *   1 + n 1  name, early
 *   v        opened
 *   v …      last place that each rank has passed */
#include "kv/control/barrier_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/varint.h"

void barrier_server_init(barrier_server *server, uint32_t rank_count, bool rounds) {
    *server = (struct barrier_server){.rank_count = rank_count, .rounds = rounds};
    server->ranks = xcalloc(rank_count + 1, sizeof *server->ranks);
    server->list = xcalloc(BARRIER_SERVER_MAX, sizeof *server->list);
}

static void forget(barrier_server *server, uint32_t at) {
    free(server->list[at].passed);
    free(server->list[at].come);
    server->list[at] = server->list[--server->count];
}

void barrier_server_fini(barrier_server *server) {
    while (server->count != 0) forget(server, 0);
    free(server->list);
    free(server->ranks);
}

static barrier *find(const barrier_server *server, const char *name, bool early) {
    for (uint32_t i = 0; i < server->count; i++)
        if (server->list[i].early == early && strcmp(server->list[i].name, name) == 0) return &server->list[i];
    return NULL;
}

static barrier *add(barrier_server *server, const char *name, bool early) {
    barrier *barrier = &server->list[server->count++];
    *barrier = (struct barrier){.early = early,
                                .passed = xcalloc(server->rank_count + 1, sizeof(uint64_t)),
                                .come = xcalloc(server->rank_count + 1, sizeof(uint64_t))};
    memcpy(barrier->name, name, strlen(name) + 1);
    return barrier;
}

/* Last place before the beginning of a step. */
static uint64_t before(uint64_t step) { return barrier_server_place(step, false, BARRIER_SERVER_INDEX_MAX); }

/* ---- Arrived ranks. */

/* Place of the waiting ranks; in BSP they are all at the same place. 0: no rank waits. */
static uint64_t place_of(const barrier_server *server, const barrier *barrier) {
    uint64_t place = 0;
    for (uint32_t i = 0; i < server->rank_count; i++)
        if (barrier->come[i] > barrier->passed[i] && barrier->come[i] > place) place = barrier->come[i];
    return place;
}

static bool is_past(const barrier_server *server, const barrier *barrier, uint32_t rank, uint64_t place) {
    const barrier_server_rank *known = &server->ranks[rank];
    return server->rounds && !barrier->early && known->generation == server->generation &&
           before(known->first) >= place;
}

static bool has_come(const barrier_server *server, const barrier *barrier, uint32_t rank, uint64_t place) {
    return barrier->come[rank] > barrier->passed[rank] || is_past(server, barrier, rank, place);
}

static bool all_have_come(const barrier_server *server, const barrier *barrier) {
    uint64_t place = place_of(server, barrier);
    for (uint32_t i = 0; i < server->rank_count; i++)
        if (!has_come(server, barrier, i, place)) return false;
    return true;
}

size_t barrier_server_missing(const barrier_server *server, const char *name, bool early, uint32_t *ranks,
                              size_t most) {
    const barrier *barrier = find(server, name, early);
    size_t count = 0;
    if (barrier == NULL) return 0;
    uint64_t place = place_of(server, barrier);
    for (uint32_t i = 0; i < server->rank_count; i++) {
        if (has_come(server, barrier, i, place)) continue;
        if (count < most) ranks[count] = i;
        count++;
    }
    return count;
}

/* ---- Bounds. */

/* The barrier without waiting ranks that opened longest ago; count: none. */
static uint32_t oldest(const barrier_server *server) {
    uint32_t found = server->count;
    for (uint32_t i = 0; i < server->count; i++) {
        const barrier *barrier = &server->list[i];
        if (place_of(server, barrier) != 0) continue; /* ranks wait there */
        if (found == server->count || barrier->opened < server->list[found].opened) found = i;
    }
    return found;
}

static bool make_room(barrier_server *server) {
    while (server->count == BARRIER_SERVER_MAX || barrier_server_size(server) > BARRIER_SERVER_BYTES_MAX) {
        uint32_t at = oldest(server);
        if (at == server->count) return false;
        forget(server, at);
    }
    return true;
}

/* ---- Messages of ranks. */

void barrier_server_begin(barrier_server *server, uint64_t generation) {
    if (generation == server->generation) return;
    server->generation = generation;
    for (uint32_t i = 0; i < server->count; i++) {
        barrier *barrier = &server->list[i];
        if (!barrier->early) memcpy(barrier->come, barrier->passed, server->rank_count * sizeof *barrier->come);
    }
}

void barrier_server_resume(barrier_server *server, uint32_t rank, uint64_t generation, uint64_t first) {
    if (rank >= server->rank_count || generation == 0 || generation != server->generation) return;
    bool begins = server->ranks[rank].generation != generation;
    server->ranks[rank] = (barrier_server_rank){generation, first};
    for (uint32_t i = 0; begins && i < server->count; i++) {
        barrier *barrier = &server->list[i];
        if (barrier->early) continue;
        if (barrier->passed[rank] > before(first)) barrier->passed[rank] = before(first);
        barrier->come[rank] = barrier->passed[rank];
    }
}

mr_status barrier_server_come(barrier_server *server, uint32_t rank, const char *name, bool early, uint64_t place,
                              bool *opens) {
    *opens = false;
    if (rank >= server->rank_count || server->ranks[rank].generation != server->generation)
        return error_set(MR_INVALID, "barrier: rank %u is not connected", rank);
    barrier *barrier = find(server, name, early);
    if (barrier == NULL && !make_room(server))
        return error_set(MR_TOO_LARGE, "ranks wait at %d barriers, which is the limit", BARRIER_SERVER_MAX);
    if (barrier == NULL) barrier = add(server, name, early);
    if (place <= barrier->passed[rank]) return MR_OK;
    barrier->come[rank] = place;
    if (!all_have_come(server, barrier)) return MR_BUSY;
    uint64_t where = place_of(server, barrier);
    for (uint32_t i = 0; i < server->rank_count; i++)
        barrier->passed[i] = barrier->come[i] > barrier->passed[i] ? barrier->come[i] : where;
    barrier->opened = ++server->opened;
    *opens = true;
    return MR_OK;
}

/* ---- Encoding. */

void barrier_server_encode(const barrier_server *server, writer *writer) {
    writer_u64(writer, server->generation);
    writer_varint(writer, server->rank_count);
    writer_varint(writer, server->count);
    for (uint32_t i = 0; i < server->count; i++) {
        const barrier *barrier = &server->list[i];
        writer_text8(writer, barrier->name);
        writer_u8(writer, barrier->early);
        writer_varint(writer, barrier->opened);
        for (uint32_t k = 0; k < server->rank_count; k++) writer_varint(writer, barrier->passed[k]);
    }
}

size_t barrier_server_size(const barrier_server *server) {
    writer writer = writer_of(NULL, 0);
    barrier_server_encode(server, &writer);
    return writer_needs(&writer);
}

static bool read_barrier(reader *reader, barrier_server *read) {
    char name[MR_PS_NAME_MAX];
    bool is_text = reader_text8(reader, name, sizeof name);
    uint8_t early = reader_u8(reader);
    uint64_t opened = reader_varint(reader);
    if (!is_text || name[0] == '\0' || early > 1 || find(read, name, early) != NULL) return false;
    barrier *barrier = add(read, name, early);
    barrier->opened = opened;
    for (uint32_t i = 0; i < read->rank_count; i++) barrier->come[i] = barrier->passed[i] = reader_varint(reader);
    if (opened > read->opened) read->opened = opened;
    return !reader->failed;
}

mr_status barrier_server_decode(span bytes, barrier_server *server) {
    struct barrier_server read;
    reader reader = reader_of(bytes.data, bytes.size);
    barrier_server_init(&read, server->rank_count, server->rounds);
    read.generation = reader_u64(&reader);
    uint64_t ranks = reader_varint(&reader), count = reader_varint(&reader);
    bool good = ranks == read.rank_count && count <= BARRIER_SERVER_MAX;
    for (uint64_t i = 0; good && i < count; i++) good = read_barrier(&reader, &read);
    if (!good || reader.failed || reader_left(&reader) != 0) {
        barrier_server_fini(&read);
        return error_set(MR_CORRUPT, "malformed barrier state of %zu bytes", bytes.size);
    }
    /* the ranks continue in that generation */
    for (uint32_t i = 0; i < read.rank_count; i++) read.ranks[i].generation = read.generation;
    barrier_server_fini(server);
    *server = read;
    return MR_OK;
}
