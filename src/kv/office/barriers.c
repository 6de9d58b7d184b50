/* barriers.c — see barriers.h.
 *
 *   bytes    what (v: varint)
 *   -------  ----------------------------------------------------------------------------
 *   8 v v    generation, ranks, barriers; each:
 *   1 + n 1  name, early
 *   v        opened
 *   v …      the place that each rank has passed */
#include "kv/office/barriers.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/varint.h"

void barriers_init(barriers *barriers, uint32_t rank_count, bool rounds) {
    *barriers = (struct barriers){.rank_count = rank_count, .rounds = rounds};
    barriers->ranks = xcalloc(rank_count + 1, sizeof *barriers->ranks);
    barriers->list = xcalloc(BARRIERS_MAX, sizeof *barriers->list);
}

static void forget(barriers *barriers, uint32_t at) {
    free(barriers->list[at].passed);
    free(barriers->list[at].come);
    barriers->list[at] = barriers->list[--barriers->count];
}

void barriers_fini(barriers *barriers) {
    while (barriers->count != 0) forget(barriers, 0);
    free(barriers->list);
    free(barriers->ranks);
}

static barrier *find(const barriers *barriers, const char *name, bool early) {
    for (uint32_t i = 0; i < barriers->count; i++)
        if (barriers->list[i].early == early && strcmp(barriers->list[i].name, name) == 0) return &barriers->list[i];
    return NULL;
}

static barrier *add(barriers *barriers, const char *name, bool early) {
    barrier *barrier = &barriers->list[barriers->count++];
    *barrier = (struct barrier){.early = early,
                                .passed = xcalloc(barriers->rank_count + 1, sizeof(uint64_t)),
                                .come = xcalloc(barriers->rank_count + 1, sizeof(uint64_t))};
    memcpy(barrier->name, name, strlen(name) + 1);
    return barrier;
}

/* Everything before the beginning of that step. */
static uint64_t before(uint64_t step) { return barriers_place(step, false, BARRIERS_INDEX_MAX); }

/* ---- Who has come. */

/* Where those are who wait; in BSP all of them are at the same place. */
static uint64_t place_of(const barriers *barriers, const barrier *barrier) {
    uint64_t place = 0;
    for (uint32_t i = 0; i < barriers->rank_count; i++)
        if (barrier->come[i] > barrier->passed[i] && barrier->come[i] > place) place = barrier->come[i];
    return place;
}

static bool is_past(const barriers *barriers, const barrier *barrier, uint32_t rank, uint64_t place) {
    const barriers_rank *known = &barriers->ranks[rank];
    return barriers->rounds && !barrier->early && known->generation == barriers->generation &&
           before(known->first) >= place;
}

static bool has_come(const barriers *barriers, const barrier *barrier, uint32_t rank, uint64_t place) {
    return barrier->come[rank] > barrier->passed[rank] || is_past(barriers, barrier, rank, place);
}

static bool all_have_come(const barriers *barriers, const barrier *barrier) {
    uint64_t place = place_of(barriers, barrier);
    for (uint32_t i = 0; i < barriers->rank_count; i++)
        if (!has_come(barriers, barrier, i, place)) return false;
    return true;
}

size_t barriers_missing(const barriers *barriers, const char *name, bool early, uint32_t *ranks, size_t most) {
    const barrier *barrier = find(barriers, name, early);
    size_t count = 0;
    if (barrier == NULL) return 0;
    uint64_t place = place_of(barriers, barrier);
    for (uint32_t i = 0; i < barriers->rank_count; i++) {
        if (has_come(barriers, barrier, i, place)) continue;
        if (count < most) ranks[count] = i;
        count++;
    }
    return count;
}

/* ---- What there is room for. */

/* The one that has opened longest ago and nobody waits at; count: there is none. */
static uint32_t oldest(const barriers *barriers) {
    uint32_t found = barriers->count;
    for (uint32_t i = 0; i < barriers->count; i++) {
        const barrier *barrier = &barriers->list[i];
        if (place_of(barriers, barrier) != 0) continue; /* somebody waits there */
        if (found == barriers->count || barrier->opened < barriers->list[found].opened) found = i;
    }
    return found;
}

static bool make_room(barriers *barriers) {
    while (barriers->count == BARRIERS_MAX || barriers_size(barriers) > BARRIERS_BYTES_MAX) {
        uint32_t at = oldest(barriers);
        if (at == barriers->count) return false;
        forget(barriers, at);
    }
    return true;
}

/* ---- What ranks say. */

void barriers_begin(barriers *barriers, uint64_t generation) {
    if (generation == barriers->generation) return;
    barriers->generation = generation;
    for (uint32_t i = 0; i < barriers->count; i++) {
        barrier *barrier = &barriers->list[i];
        if (!barrier->early) memcpy(barrier->come, barrier->passed, barriers->rank_count * sizeof *barrier->come);
    }
}

void barriers_resume(barriers *barriers, uint32_t rank, uint64_t generation, uint64_t first) {
    if (rank >= barriers->rank_count || generation == 0 || generation != barriers->generation) return;
    bool begins = barriers->ranks[rank].generation != generation;
    barriers->ranks[rank] = (barriers_rank){generation, first};
    for (uint32_t i = 0; begins && i < barriers->count; i++) {
        barrier *barrier = &barriers->list[i];
        if (barrier->early) continue;
        if (barrier->passed[rank] > before(first)) barrier->passed[rank] = before(first);
        barrier->come[rank] = barrier->passed[rank];
    }
}

mr_status barriers_come(barriers *barriers, uint32_t rank, const char *name, bool early, uint64_t place, bool *opens) {
    *opens = false;
    if (rank >= barriers->rank_count || barriers->ranks[rank].generation != barriers->generation)
        return error_set(MR_INVALID, "barrier: rank %u is not connected", rank);
    barrier *barrier = find(barriers, name, early);
    if (barrier == NULL && !make_room(barriers))
        return error_set(MR_TOO_LARGE, "ranks wait at %d barriers, which is the limit", BARRIERS_MAX);
    if (barrier == NULL) barrier = add(barriers, name, early);
    if (place <= barrier->passed[rank]) return MR_OK;
    barrier->come[rank] = place;
    if (!all_have_come(barriers, barrier)) return MR_BUSY;
    uint64_t where = place_of(barriers, barrier);
    for (uint32_t i = 0; i < barriers->rank_count; i++)
        barrier->passed[i] = barrier->come[i] > barrier->passed[i] ? barrier->come[i] : where;
    barrier->opened = ++barriers->opened;
    *opens = true;
    return MR_OK;
}

/* ---- As bytes. */

void barriers_encode(const barriers *barriers, writer *writer) {
    writer_u64(writer, barriers->generation);
    writer_varint(writer, barriers->rank_count);
    writer_varint(writer, barriers->count);
    for (uint32_t i = 0; i < barriers->count; i++) {
        const barrier *barrier = &barriers->list[i];
        writer_text8(writer, barrier->name);
        writer_u8(writer, barrier->early);
        writer_varint(writer, barrier->opened);
        for (uint32_t k = 0; k < barriers->rank_count; k++) writer_varint(writer, barrier->passed[k]);
    }
}

size_t barriers_size(const barriers *barriers) {
    writer writer = writer_of(NULL, 0);
    barriers_encode(barriers, &writer);
    return writer_needs(&writer);
}

static bool read_barrier(reader *reader, barriers *read) {
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

mr_status barriers_decode(span bytes, barriers *barriers) {
    struct barriers read;
    reader reader = reader_of(bytes.data, bytes.size);
    barriers_init(&read, barriers->rank_count, barriers->rounds);
    read.generation = reader_u64(&reader);
    uint64_t ranks = reader_varint(&reader), count = reader_varint(&reader);
    bool good = ranks == read.rank_count && count <= BARRIERS_MAX;
    for (uint64_t i = 0; good && i < count; i++) good = read_barrier(&reader, &read);
    if (!good || reader.failed || reader_left(&reader) != 0) {
        barriers_fini(&read);
        return error_set(MR_CORRUPT, "malformed barrier state of %zu bytes", bytes.size);
    }
    for (uint32_t i = 0; i < read.rank_count; i++) read.ranks[i].generation = read.generation; /* they go on in it */
    barriers_fini(barriers);
    *barriers = read;
    return MR_OK;
}
