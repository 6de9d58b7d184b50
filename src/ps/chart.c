/* chart.c — see chart.h. */
#include "ps/chart.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"
#include "base/invariants.h"
#include "base/search.h"
#include "base/varint.h"

/* The fields of a chart's head, in the order of their bytes (chart.h), before and after the base. */
#define HEAD_BEFORE_BASE(X) \
    X(u64, number) X(u64, generation) X(u64, birth) X(u64, origin) X(flag, lost) X(u64, first_stint)
#define HEAD_AFTER_BASE(X)    \
    X(u8, consistency.kind)   \
    X(u8, copies)             \
    X(u32, consistency.bound) \
    X(flag, mixed)            \
    X(u32, rounds.first_count) X(u32, rounds.backup) X(u32, rounds.deadline_us) X(u32, rank_count) X(u32, slot_count)

void chart_fini(chart *chart) {
    free(chart->slots);
    free(chart->servers);
    free(chart->players);
    *chart = (struct chart){0};
}

void chart_copy(chart *to, const chart *from) {
    MR_ASSERT(to != from);
    chart_fini(to);
    *to = *from;
    to->slots = xcalloc(from->slot_count + 1, sizeof *to->slots);
    to->servers = xcalloc(from->server_count + 1, sizeof *to->servers);
    if (from->slot_count != 0) memcpy(to->slots, from->slots, from->slot_count * sizeof *to->slots);
    if (from->server_count != 0) memcpy(to->servers, from->servers, from->server_count * sizeof *to->servers);
    if (from->players == NULL) return;
    to->players = xcalloc(from->rank_count, sizeof *to->players);
    memcpy(to->players, from->players, from->rank_count * sizeof *to->players);
}

/* Where it is, or where it would be. */
static size_t seek(const chart *chart, uint32_t id) {
    return search_first(&id, chart->servers, chart->server_count, sizeof *chart->servers, search_u32);
}

/* Where none is missing before it, its place is its number. */
const chart_server *chart_find(const chart *chart, uint32_t server) {
    if (server < chart->server_count && chart->servers[server].id == server) return &chart->servers[server];
    size_t at = seek(chart, server);
    return at < chart->server_count && chart->servers[at].id == server ? &chart->servers[at] : NULL;
}

static void put_server(chart *chart, const chart_server *server) {
    size_t at = seek(chart, server->id);
    if (at == chart->server_count || chart->servers[at].id != server->id) {
        MR_ASSERT(chart->server_count < CHART_SERVERS_MAX);
        chart->servers = xrealloc(chart->servers, (chart->server_count + 1) * sizeof *chart->servers);
        memmove(&chart->servers[at + 1], &chart->servers[at], (chart->server_count - at) * sizeof *chart->servers);
        chart->server_count++;
    }
    chart->servers[at] = *server;
}

void chart_put_server(chart *chart, uint32_t id, uint64_t incarnation, const char *address) {
    MR_ASSERT(strlen(address) < PART_ADDRESS_MAX);
    chart_server server = {.id = id, .incarnation = incarnation, .since = chart->number};
    strcpy(server.address, address);
    put_server(chart, &server);
}

void chart_put_player(chart *chart, uint32_t rank, uint32_t worker, uint64_t incarnation) {
    MR_ASSERT(rank < chart->rank_count && chart->number != 0 && incarnation != 0);
    if (chart->players == NULL) chart->players = xcalloc(chart->rank_count, sizeof *chart->players);
    chart->players[rank] = (chart_player){worker, incarnation, chart->number};
    if (chart->first_stint == 0) chart->first_stint = chart->number;
}

int chart_place(const chart_slot *slot, uint32_t server, uint64_t incarnation) {
    MR_ASSERT(slot->count <= CHART_COPIES_MAX);
    for (int i = 0; i < slot->count; i++)
        if (slot->chain[i].server == server && slot->chain[i].incarnation == incarnation) return i;
    return -1;
}

/* ---- Writing. */

/* The next run of slots that are newer than the base, from *at on; returns how many, 0: there is none. */
static uint32_t next_run(const chart *chart, uint64_t base, uint32_t *at) {
    while (*at < chart->slot_count && chart->slots[*at].epoch <= base) ++*at;
    uint32_t end = *at;
    while (end < chart->slot_count && chart->slots[end].epoch > base) end++;
    return end - *at;
}

static void write_place(const chart *chart, uint32_t id, uint64_t incarnation, uint64_t since, writer *writer) {
    writer_varint(writer, id);
    writer_varint(writer, varint_fold(incarnation, chart->number));
    writer_varint(writer, chart->number - since);
}

/* The next rank from *at on whose player is newer than the base; false: there is none. */
static bool next_player(const chart *chart, uint64_t base, uint32_t *at) {
    if (chart->players == NULL) return false;
    while (*at < chart->rank_count && chart->players[*at].since <= base) ++*at;
    return *at < chart->rank_count;
}

static void write_slot(const chart *chart, const chart_slot *slot, writer *writer) {
    writer_varint(writer, chart->number - slot->epoch);
    writer_varint(writer, slot->home);
    writer_u8(writer, slot->more);
    writer_u8(writer, slot->count);
    for (size_t k = 0; k < slot->count; k++)
        write_place(chart, slot->chain[k].server, slot->chain[k].incarnation, slot->chain[k].since, writer);
}

static void write_slots(const chart *chart, uint64_t base, writer *writer) {
    uint32_t runs = 0, at = 0, count;
    for (; (count = next_run(chart, base, &at)) != 0; at += count) runs++;
    writer_u32(writer, runs);
    for (at = 0; (count = next_run(chart, base, &at)) != 0; at += count) {
        writer_u32(writer, at);
        writer_u32(writer, count);
        for (uint32_t i = 0; i < count; i++) write_slot(chart, &chart->slots[at + i], writer);
    }
}

static void write_servers(const chart *chart, uint64_t base, writer *writer) {
    uint32_t count = 0;
    for (size_t i = 0; i < chart->server_count; i++) count += chart->servers[i].since > base;
    writer_u32(writer, count);
    for (size_t i = 0; i < chart->server_count; i++) {
        const chart_server *server = &chart->servers[i];
        if (server->since <= base) continue;
        write_place(chart, server->id, server->incarnation, server->since, writer);
        writer_text8(writer, server->address);
    }
}

static void write_players(const chart *chart, uint64_t base, writer *writer) {
    uint32_t count = 0;
    for (uint32_t rank = 0; next_player(chart, base, &rank); rank++) count++;
    writer_u32(writer, count);
    for (uint32_t rank = 0, next = 0; next_player(chart, base, &rank); next = ++rank) {
        const chart_player *player = &chart->players[rank];
        writer_varint(writer, rank - next);
        write_place(chart, player->worker, player->incarnation, player->since, writer);
    }
}

void chart_encode(const chart *chart, uint64_t base, writer *writer) {
    MR_ASSERT(base < chart->number && chart->slot_count <= CHART_SLOTS_MAX && chart->rank_count <= CHART_RANKS_MAX);
    writer_u8(writer, CHART_LAYOUT);
#define X(type, field) writer_##type(writer, chart->field);
    HEAD_BEFORE_BASE(X)
    writer_u64(writer, base);
    HEAD_AFTER_BASE(X)
#undef X
    write_slots(chart, base, writer);
    write_servers(chart, base, writer);
    write_players(chart, base, writer);
}

size_t chart_size(const chart *chart, uint64_t base) {
    writer writer = writer_of(NULL, 0);
    chart_encode(chart, base, &writer);
    return writer_needs(&writer);
}

/* ---- Reading. What changed is read twice: all of it is looked at before any of it is taken. */

static bool read_head(reader *reader, chart *head, uint64_t *base) {
    uint8_t layout = reader_u8(reader);
#define X(type, field) head->field = reader_##type(reader);
    HEAD_BEFORE_BASE(X)
    *base = reader_u64(reader);
    HEAD_AFTER_BASE(X)
#undef X
    return !reader->failed && layout == CHART_LAYOUT && head->consistency.kind <= CONSISTENCY_BSP &&
           head->copies <= CHART_COPIES_MAX && head->rank_count <= CHART_RANKS_MAX &&
           (!head->mixed || (head->slot_count >= 3 && head->slot_count % 2 == 1)) &&
           (!chart_has_rounds(head) || head->rank_count <= CROWD_MAX) && head->rounds.first_count <= head->rank_count &&
           head->slot_count <= CHART_SLOTS_MAX && *base < head->number;
}

/* What write_place has written. False: an id of `most` or more, or the reader has failed. */
static bool read_place(reader *reader, const chart *head, uint32_t most, uint32_t *id, uint64_t *incarnation,
                       uint64_t *since) {
    uint64_t number = reader_varint(reader);
    *id = (uint32_t)number;
    *incarnation = varint_unfold(reader_varint(reader), head->number);
    *since = head->number - reader_varint(reader);
    return !reader->failed && number < most;
}

static bool read_slot(reader *reader, const chart *head, chart_slot *slot) {
    *slot = (chart_slot){.epoch = head->number - reader_varint(reader)};
    uint64_t home = reader_varint(reader);
    slot->home = (uint32_t)home;
    slot->more = reader_u8(reader);
    slot->count = reader_u8(reader);
    if (home > PART_RANK || slot->more > CHART_COPIES_MAX || slot->count > CHART_COPIES_MAX) return false;
    for (size_t i = 0; i < slot->count; i++) {
        chart_member *member = &slot->chain[i];
        if (!read_place(reader, head, PART_RANK, &member->server, &member->incarnation, &member->since)) return false;
        for (size_t k = 0; k < i; k++)
            if (slot->chain[k].server == member->server) return false;
    }
    return !reader->failed;
}

/* Slots go to `into`, if that is not NULL. *count: how many there were. */
static bool read_slots(reader *reader, const chart *head, uint64_t base, chart_slot *into, uint32_t *count) {
    uint32_t runs = reader_u32(reader), end = 0;
    *count = 0;
    for (uint32_t i = 0; i < runs; i++) {
        uint32_t first = reader_u32(reader), slots = reader_u32(reader);
        bool apart = i == 0 || first > end; /* what could be one run is one */
        if (reader->failed || !apart || first > head->slot_count || slots > head->slot_count - first || slots == 0)
            return false;
        for (end = first; end < first + slots; end++) {
            chart_slot slot;
            if (!read_slot(reader, head, &slot) || slot.epoch <= base || slot.epoch > head->number) return false;
            if (into != NULL) into[end] = slot;
        }
        *count += slots;
    }
    return !reader->failed;
}

static bool read_server(reader *reader, const chart *head, chart_server *server) {
    *server = (chart_server){0};
    return read_place(reader, head, PART_RANK, &server->id, &server->incarnation, &server->since) &&
           reader_text8(reader, server->address, sizeof server->address);
}

/* Servers are put into `chart` if `take`; else they are compared with it: do they all have room there? */
static bool read_servers(reader *reader, const chart *head, uint64_t base, chart *chart, bool take) {
    uint32_t count = reader_u32(reader);
    size_t fresh = 0, room = CHART_SERVERS_MAX - chart->server_count;
    uint64_t last = 0;
    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        chart_server server;
        if (!read_server(reader, head, &server) || (i > 0 && server.id <= last) || server.since <= base ||
            server.since > head->number)
            return false;
        last = server.id;
        if (take)
            put_server(chart, &server);
        else if (chart_find(chart, server.id) == NULL && ++fresh > room)
            return false;
    }
    return !reader->failed;
}

/* Players go to `into`, if that is not NULL. */
static bool read_players(reader *reader, const chart *head, uint64_t base, chart_player *into) {
    uint32_t count = reader_u32(reader), rank = 0;
    for (uint32_t i = 0; i < count; i++, rank++) {
        chart_player player;
        uint64_t gap = reader_varint(reader);
        if (reader->failed || gap >= head->rank_count - rank) return false;
        rank += (uint32_t)gap;
        if (!read_place(reader, head, PART_RANK, &player.worker, &player.incarnation, &player.since) ||
            player.since <= base || player.since > head->number)
            return false;
        if (into != NULL) into[rank] = player;
    }
    return !reader->failed && reader_left(reader) == 0;
}

static bool can_follow(const chart *chart, const struct chart *head, uint64_t base) {
    if (head->number <= chart->number) return false;
    if (chart->number == 0 || head->generation != chart->generation) return base == 0;
    return base <= chart->number && head->slot_count == chart->slot_count && head->rank_count == chart->rank_count &&
           head->mixed == chart->mixed;
}

/* What was looked at and found good. A whole chart takes the place of everything. */
static void take(chart *chart, const struct chart *head, uint64_t base, reader reader) {
    struct chart next = *head;
    if (base == 0) {
        chart_fini(chart);
        chart->slots = xcalloc(head->slot_count + 1, sizeof *chart->slots);
    }
    if (chart->players == NULL && head->rank_count != 0)
        chart->players = xcalloc(head->rank_count, sizeof *chart->players);
    next.slots = chart->slots;
    next.players = chart->players;
    next.servers = chart->servers;
    next.server_count = chart->server_count;
    *chart = next;
    uint32_t count;
    bool good = read_slots(&reader, head, base, chart->slots, &count) &&
                read_servers(&reader, head, base, chart, true) && read_players(&reader, head, base, chart->players);
    MR_ASSERT(good);
}

bool chart_peek(span bytes, uint64_t *number, uint64_t *generation) {
    reader reader = reader_of(bytes.data, bytes.size);
    struct chart head = {0};
    uint64_t base;
    bool good = read_head(&reader, &head, &base);
    *number = head.number;
    *generation = head.generation;
    return good;
}

mr_status chart_follow(chart *chart, span bytes) {
    if (bytes.size > 0 && bytes.data[0] != CHART_LAYOUT)
        return format_reject("the cluster map", bytes.data[0], CHART_LAYOUT, FORMAT_USE_SAME);
    reader reader = reader_of(bytes.data, bytes.size);
    struct chart head = {0}, none = {0};
    uint64_t base;
    uint32_t count;
    if (!read_head(&reader, &head, &base))
        return error_set(MR_CORRUPT, "malformed cluster map of %zu bytes", bytes.size);
    if (!can_follow(chart, &head, base)) return MR_STALE;
    struct reader again = reader;
    bool good = read_slots(&reader, &head, base, NULL, &count) && (base != 0 || count == head.slot_count) &&
                read_servers(&reader, &head, base, base == 0 ? &none : chart, false) &&
                read_players(&reader, &head, base, NULL);
    if (!good) return error_set(MR_CORRUPT, "malformed cluster map of %zu bytes", bytes.size);
    take(chart, &head, base, again);
    CHECK_INVARIANTS(chart->slot_count + chart->server_count + chart->rank_count, chart_check(chart));
    return MR_OK;
}

static void check_slot(const chart *chart, const chart_slot *slot) {
    MR_ASSERT(slot->count <= CHART_COPIES_MAX && slot->more <= CHART_COPIES_MAX); /* 1 */
    MR_ASSERT(slot->epoch <= chart->number);                                      /* 2 */
    for (size_t i = 0; i < slot->count; i++)
        for (size_t k = 0; k < i; k++) MR_ASSERT(slot->chain[i].server != slot->chain[k].server); /* 2 */
}

void chart_check(const chart *chart) {
    MR_ASSERT(chart->slot_count <= CHART_SLOTS_MAX && chart->server_count <= CHART_SERVERS_MAX);       /* 1 */
    MR_ASSERT(chart->rank_count <= (chart_has_rounds(chart) ? (uint32_t)CROWD_MAX : CHART_RANKS_MAX)); /* 1 */
    MR_ASSERT(chart->copies <= CHART_COPIES_MAX && chart->rounds.first_count <= chart->rank_count);    /* 1 */
    MR_ASSERT(!chart->mixed || (chart->slot_count >= 3 && chart->slot_count % 2 == 1));                /* 1 */
    for (uint32_t i = 0; i < chart->slot_count; i++) check_slot(chart, &chart->slots[i]);
    for (uint32_t i = 0; i < chart->server_count; i++) {
        MR_ASSERT(i == 0 || chart->servers[i - 1].id < chart->servers[i].id); /* 3 */
        MR_ASSERT(chart->servers[i].since <= chart->number);                  /* 3 */
    }
    for (uint32_t i = 0; chart->players != NULL && i < chart->rank_count; i++)
        MR_ASSERT(chart->players[i].since <= chart->number); /* 3 */
}
