/* chart.c — see chart.h. */
#include "ps/chart.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/search.h"

enum { HEAD_SIZE = 75, RUN_SIZE = 8, SLOT_SIZE = 9, MEMBER_SIZE = 20, SERVER_SIZE = 21 };

void chart_fini(chart *chart) {
    free(chart->slots);
    free(chart->servers);
    *chart = (struct chart){0};
}

void chart_copy(chart *to, const chart *from) {
    chart_fini(to);
    *to = *from;
    to->slots = xcalloc(from->slot_count + 1, sizeof *to->slots);
    to->servers = xcalloc(from->server_count + 1, sizeof *to->servers);
    if (from->slot_count != 0) memcpy(to->slots, from->slots, from->slot_count * sizeof *to->slots);
    if (from->server_count != 0) memcpy(to->servers, from->servers, from->server_count * sizeof *to->servers);
}

static int by_id(const void *key, const void *server) {
    uint32_t id = *(const uint32_t *)key, other = ((const chart_server *)server)->id;
    return (id > other) - (id < other);
}

/* Where it is, or where it would be. */
static size_t seek(const chart *chart, uint32_t id) {
    return search_first(&id, chart->servers, chart->server_count, sizeof *chart->servers, by_id);
}

const chart_server *chart_find(const chart *chart, uint32_t server) {
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

int chart_place(const chart_slot *slot, uint32_t server, uint64_t incarnation) {
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

size_t chart_size(const chart *chart, uint64_t base) {
    size_t size = HEAD_SIZE;
    uint32_t at = 0, count;
    for (; (count = next_run(chart, base, &at)) != 0; at += count) {
        size += RUN_SIZE + (size_t)count * SLOT_SIZE;
        for (uint32_t i = 0; i < count; i++) size += MEMBER_SIZE * (size_t)chart->slots[at + i].count;
    }
    for (size_t i = 0; i < chart->server_count; i++)
        if (chart->servers[i].since > base) size += SERVER_SIZE + strlen(chart->servers[i].address);
    return size;
}

static void write_slot(const chart_slot *slot, writer *writer) {
    writer_u64(writer, slot->epoch);
    writer_u8(writer, slot->count);
    for (size_t k = 0; k < slot->count; k++) {
        writer_u32(writer, slot->chain[k].server);
        writer_u64(writer, slot->chain[k].incarnation);
        writer_u64(writer, slot->chain[k].since);
    }
}

static void write_slots(const chart *chart, uint64_t base, writer *writer) {
    uint32_t runs = 0, at = 0, count;
    for (; (count = next_run(chart, base, &at)) != 0; at += count) runs++;
    writer_u32(writer, runs);
    for (at = 0; (count = next_run(chart, base, &at)) != 0; at += count) {
        writer_u32(writer, at);
        writer_u32(writer, count);
        for (uint32_t i = 0; i < count; i++) write_slot(&chart->slots[at + i], writer);
    }
}

static void write_servers(const chart *chart, uint64_t base, writer *writer) {
    uint32_t count = 0;
    for (size_t i = 0; i < chart->server_count; i++) count += chart->servers[i].since > base;
    writer_u32(writer, count);
    for (size_t i = 0; i < chart->server_count; i++) {
        const chart_server *server = &chart->servers[i];
        if (server->since <= base) continue;
        writer_u32(writer, server->id);
        writer_u64(writer, server->incarnation);
        writer_u64(writer, server->since);
        writer_u8(writer, (uint8_t)strlen(server->address));
        writer_bytes(writer, server->address, strlen(server->address));
    }
}

void chart_encode(const chart *chart, uint64_t base, writer *writer) {
    writer_u8(writer, CHART_LAYOUT);
    writer_u64(writer, chart->number);
    writer_u64(writer, chart->generation);
    writer_u64(writer, chart->birth);
    writer_u64(writer, chart->origin);
    writer_u64(writer, base);
    writer_u8(writer, (uint8_t)chart->consistency.kind);
    writer_u8(writer, chart->copies);
    writer_u32(writer, chart->consistency.bound);
    writer_u32(writer, chart->rounds.first_count);
    writer_u32(writer, chart->rounds.backup);
    writer_u32(writer, chart->rounds.deadline_us);
    writer_u32(writer, chart->rank_count);
    writer_u32(writer, chart->slot_count);
    write_slots(chart, base, writer);
    write_servers(chart, base, writer);
}

/* ---- Reading. What changed is read twice: all of it is looked at before any of it is taken. */

static bool read_head(reader *reader, chart *head, uint64_t *base) {
    uint8_t layout = reader_u8(reader);
    head->number = reader_u64(reader);
    head->generation = reader_u64(reader);
    head->birth = reader_u64(reader);
    head->origin = reader_u64(reader);
    *base = reader_u64(reader);
    head->consistency.kind = reader_u8(reader);
    head->copies = reader_u8(reader);
    head->consistency.bound = reader_u32(reader);
    head->rounds.first_count = reader_u32(reader);
    head->rounds.backup = reader_u32(reader);
    head->rounds.deadline_us = reader_u32(reader);
    head->rank_count = reader_u32(reader);
    head->slot_count = reader_u32(reader);
    return !reader->failed && layout == CHART_LAYOUT && head->consistency.kind <= CONSISTENCY_BSP &&
           head->copies <= CHART_COPIES_MAX && head->rank_count <= CHART_RANKS_MAX &&
           (head->consistency.kind != CONSISTENCY_BSP || head->rank_count <= CROWD_MAX) &&
           head->rounds.first_count <= head->rank_count && head->slot_count <= CHART_SLOTS_MAX && *base < head->number;
}

static bool read_slot(reader *reader, chart_slot *slot) {
    *slot = (chart_slot){.epoch = reader_u64(reader)};
    slot->count = reader_u8(reader);
    if (slot->count > CHART_COPIES_MAX) return false;
    for (size_t i = 0; i < slot->count; i++) {
        chart_member *member = &slot->chain[i];
        member->server = reader_u32(reader);
        member->incarnation = reader_u64(reader);
        member->since = reader_u64(reader);
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
            if (!read_slot(reader, &slot) || slot.epoch <= base || slot.epoch > head->number) return false;
            if (into != NULL) into[end] = slot;
        }
        *count += slots;
    }
    return !reader->failed;
}

static bool read_server(reader *reader, chart_server *server) {
    *server = (chart_server){.id = reader_u32(reader)};
    server->incarnation = reader_u64(reader);
    server->since = reader_u64(reader);
    size_t length = reader_u8(reader);
    const uint8_t *address = length < PART_ADDRESS_MAX ? reader_bytes(reader, length) : NULL;
    if (address == NULL || memchr(address, 0, length) != NULL) return false;
    memcpy(server->address, address, length);
    return true;
}

/* Servers are put into `chart` if `take`; else they are compared with it: do they all have room there? */
static bool read_servers(reader *reader, const chart *head, uint64_t base, chart *chart, bool take) {
    uint32_t count = reader_u32(reader);
    size_t fresh = 0, room = CHART_SERVERS_MAX - chart->server_count;
    uint64_t last = 0;
    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        chart_server server;
        if (!read_server(reader, &server) || (i > 0 && server.id <= last) || server.since <= base ||
            server.since > head->number)
            return false;
        last = server.id;
        if (take)
            put_server(chart, &server);
        else if (chart_find(chart, server.id) == NULL && ++fresh > room)
            return false;
    }
    return !reader->failed && reader_left(reader) == 0;
}

static bool can_follow(const chart *chart, const struct chart *head, uint64_t base) {
    if (head->number <= chart->number) return false;
    if (chart->number == 0 || head->generation != chart->generation) return base == 0;
    return base <= chart->number && head->slot_count == chart->slot_count;
}

/* What was looked at and found good. A whole chart takes the place of everything. */
static void take(chart *chart, const struct chart *head, uint64_t base, reader reader) {
    struct chart next = *head;
    if (base == 0) {
        chart_fini(chart);
        chart->slots = xcalloc(head->slot_count + 1, sizeof *chart->slots);
    }
    next.slots = chart->slots;
    next.servers = chart->servers;
    next.server_count = chart->server_count;
    *chart = next;
    uint32_t count;
    bool good = read_slots(&reader, head, base, chart->slots, &count) && read_servers(&reader, head, base, chart, true);
    MR_ASSERT(good);
}

mr_status chart_follow(chart *chart, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    struct chart head = {0}, none = {0};
    uint64_t base;
    uint32_t count;
    if (!read_head(&reader, &head, &base)) return error_set(MR_CORRUPT, "these %zu bytes are not a chart", bytes.size);
    if (!can_follow(chart, &head, base)) return MR_STALE;
    struct reader again = reader;
    bool good = read_slots(&reader, &head, base, NULL, &count) && (base != 0 || count == head.slot_count) &&
                read_servers(&reader, &head, base, base == 0 ? &none : chart, false);
    if (!good) return error_set(MR_CORRUPT, "these %zu bytes are not a chart", bytes.size);
    take(chart, &head, base, again);
    return MR_OK;
}
