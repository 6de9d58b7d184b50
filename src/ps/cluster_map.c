/* cluster_map.c — see cluster_map.h. */
#include "ps/cluster_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "base/format.h"
#include "base/invariants.h"
#include "base/varint.h"

/* The fields of an encoded cluster map's head, in order (cluster_map.h), up to `lost`, and after the base. */
#define HEAD_BEFORE_REPORTED(X) X(u64, number) X(u64, generation) X(u64, birth) X(u64, origin) X(flag, lost)
#define HEAD_AFTER_BASE(X)    \
    X(u8, consistency.kind)   \
    X(u8, copies)             \
    X(u32, consistency.bound) \
    X(flag, mixed)            \
    X(u32, rounds.first_count) X(u32, rounds.backup) X(u32, rounds.deadline_us) X(u32, rank_count) X(u32, slot_count)

void cluster_map_fini(cluster_map *map) {
    free(map->slots);
    free(map->servers);
    free(map->ranks);
    *map = (struct cluster_map){0};
}

void cluster_map_copy(cluster_map *to, const cluster_map *from) {
    MR_ASSERT(to != from);
    cluster_map_fini(to);
    *to = *from;
    to->slots = xcopy(from->slots, from->slot_count * sizeof *to->slots);
    to->servers = xcopy(from->servers, from->server_count * sizeof *to->servers);
    if (from->ranks != NULL) to->ranks = xcopy(from->ranks, cluster_map_clients(from) * sizeof *to->ranks);
}

/* Index of the server with this id, or the index at which it would be inserted. */
static size_t seek(const cluster_map *map, uint32_t id) {
    return binary_search_first(&id, map->servers, map->server_count, sizeof *map->servers, binary_search_u32);
}

/* If no smaller id is missing, the index of a server is its id. */
const cluster_map_server *cluster_map_find(const cluster_map *map, uint32_t server) {
    if (server < map->server_count && map->servers[server].id == server) return &map->servers[server];
    return binary_search_find(&server, map->servers, map->server_count, sizeof *map->servers, binary_search_u32);
}

static void put_server(cluster_map *map, const cluster_map_server *server) {
    size_t at = seek(map, server->id);
    if (at == map->server_count || map->servers[at].id != server->id) {
        MR_ASSERT(map->server_count < CLUSTER_MAP_SERVERS_MAX);
        map->servers = xrealloc(map->servers, (map->server_count + 1) * sizeof *map->servers);
        memmove(&map->servers[at + 1], &map->servers[at], (map->server_count - at) * sizeof *map->servers);
        map->server_count++;
    }
    map->servers[at] = *server;
}

void cluster_map_put_server(cluster_map *map, uint32_t id, uint64_t incarnation, const char *address) {
    MR_ASSERT(strlen(address) < SLOT_MESSAGE_ADDRESS_MAX);
    cluster_map_server server = {.id = id, .incarnation = incarnation, .since = map->number};
    strcpy(server.address, address);
    put_server(map, &server);
}

void cluster_map_put_rank(cluster_map *map, uint32_t rank, uint32_t worker, uint64_t incarnation) {
    MR_ASSERT(rank < cluster_map_clients(map) && map->number != 0 && incarnation != 0);
    if (map->ranks == NULL) map->ranks = xcalloc(cluster_map_clients(map), sizeof *map->ranks);
    map->ranks[rank] = (cluster_map_rank){worker, incarnation, map->number};
    if (map->first_term == 0 && rank < map->rank_count) map->first_term = map->number;
}

int cluster_map_place(const cluster_map_slot *slot, uint32_t server, uint64_t incarnation) {
    MR_ASSERT(slot->count <= CLUSTER_MAP_COPIES_MAX);
    for (int i = 0; i < slot->count; i++)
        if (slot->chain[i].server == server && slot->chain[i].incarnation == incarnation) return i;
    return -1;
}

/* ---- Writing. */

/* The next run of slots with an epoch above `base`, from *at on. Returns its length; 0: there is none. */
static uint32_t next_run(const cluster_map *map, uint64_t base, uint32_t *at) {
    while (*at < map->slot_count && map->slots[*at].epoch <= base) ++*at;
    uint32_t end = *at;
    while (end < map->slot_count && map->slots[end].epoch > base) end++;
    return end - *at;
}

static void write_place(const cluster_map *map, uint32_t id, uint64_t incarnation, uint64_t since, writer *writer) {
    writer_varint(writer, id);
    writer_varint(writer, varint_fold(incarnation, map->number));
    writer_varint(writer, map->number - since);
}

/* The next rank or reader from *at on that was assigned after the base; false: there is none. */
static bool next_holder(const cluster_map *map, uint64_t base, uint32_t *at) {
    if (map->ranks == NULL) return false;
    while (*at < cluster_map_clients(map) && map->ranks[*at].since <= base) ++*at;
    return *at < cluster_map_clients(map);
}

static void write_slot(const cluster_map *map, const cluster_map_slot *slot, writer *writer) {
    writer_varint(writer, map->number - slot->epoch);
    writer_varint(writer, slot->home);
    writer_u8(writer, slot->more);
    writer_u8(writer, slot->count);
    for (size_t k = 0; k < slot->count; k++)
        write_place(map, slot->chain[k].server, slot->chain[k].incarnation, slot->chain[k].since, writer);
}

static void write_slots(const cluster_map *map, uint64_t base, writer *writer) {
    uint32_t runs = 0, at = 0, count;
    for (; (count = next_run(map, base, &at)) != 0; at += count) runs++;
    writer_u32(writer, runs);
    for (at = 0; (count = next_run(map, base, &at)) != 0; at += count) {
        writer_u32(writer, at);
        writer_u32(writer, count);
        for (uint32_t i = 0; i < count; i++) write_slot(map, &map->slots[at + i], writer);
    }
}

static void write_servers(const cluster_map *map, uint64_t base, writer *writer) {
    uint32_t count = 0;
    for (size_t i = 0; i < map->server_count; i++) count += map->servers[i].since > base;
    writer_u32(writer, count);
    for (size_t i = 0; i < map->server_count; i++) {
        const cluster_map_server *server = &map->servers[i];
        if (server->since <= base) continue;
        write_place(map, server->id, server->incarnation, server->since, writer);
        writer_text8(writer, server->address);
    }
}

static void write_holders(const cluster_map *map, uint64_t base, writer *writer) {
    uint32_t count = 0;
    for (uint32_t rank = 0; next_holder(map, base, &rank); rank++) count++;
    writer_u32(writer, count);
    for (uint32_t rank = 0, next = 0; next_holder(map, base, &rank); next = ++rank) {
        const cluster_map_rank *holder = &map->ranks[rank];
        writer_varint(writer, rank - next);
        write_place(map, holder->worker, holder->incarnation, holder->since, writer);
    }
}

void cluster_map_encode(const cluster_map *map, uint64_t base, writer *writer) {
    MR_ASSERT(base < map->number && map->slot_count <= CLUSTER_MAP_SLOTS_MAX &&
              cluster_map_clients(map) <= CLUSTER_MAP_RANKS_MAX);
    writer_u8(writer, CLUSTER_MAP_LAYOUT);
#define X(type, field) writer_##type(writer, map->field);
    HEAD_BEFORE_REPORTED(X)
    writer_flag(writer, map->reported);
    writer_u64(writer, map->first_term);
    writer_u64(writer, base);
    HEAD_AFTER_BASE(X)
#undef X
    writer_u32(writer, map->reader_count);
    writer_u64(writer, map->empty_since);
    write_slots(map, base, writer);
    write_servers(map, base, writer);
    write_holders(map, base, writer);
}

size_t cluster_map_size(const cluster_map *map, uint64_t base) {
    writer writer = writer_of(NULL, 0);
    cluster_map_encode(map, base, &writer);
    return writer_needs(&writer);
}

uint8_t *cluster_map_write(const cluster_map *map, uint64_t base, size_t *size) {
    *size = cluster_map_size(map, base);
    uint8_t *bytes = xmalloc(*size);
    writer writer = writer_of(bytes, *size);
    cluster_map_encode(map, base, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == *size);
    return bytes;
}

/* ---- Reading. Changes are read twice: all are checked before the first is applied. */

static bool read_head(reader *reader, cluster_map *head, uint64_t *base) {
    uint8_t layout = reader_u8(reader);
#define X(type, field) head->field = reader_##type(reader);
    HEAD_BEFORE_REPORTED(X)
    bool before = layout == CLUSTER_MAP_LAYOUT_BEFORE;
    if (!before) head->reported = reader_flag(reader);
    head->first_term = reader_u64(reader);
    if (before) head->reported = head->lost && head->first_term != 0;
    *base = reader_u64(reader);
    HEAD_AFTER_BASE(X)
#undef X
    if (!before) head->reader_count = reader_u32(reader);
    head->empty_since = before ? (head->origin == 0 ? head->birth : 0) : reader_u64(reader);
    return !reader->failed && (before || layout == CLUSTER_MAP_LAYOUT) && head->consistency.kind <= CONSISTENCY_BSP &&
           head->copies <= CLUSTER_MAP_COPIES_MAX && head->rank_count <= CLUSTER_MAP_RANKS_MAX &&
           head->reader_count <= CLUSTER_MAP_RANKS_MAX - head->rank_count &&
           (!head->mixed || (head->slot_count >= 3 && head->slot_count % 2 == 1)) &&
           (!cluster_map_has_rounds(head) || head->rank_count <= RANK_SET_MAX) &&
           head->rounds.first_count <= head->rank_count && head->slot_count <= CLUSTER_MAP_SLOTS_MAX &&
           *base < head->number;
}

/* Reads the fields that write_place wrote. False: the id is at least `most`, or the reader has failed. */
static bool read_place(reader *reader, const cluster_map *head, uint32_t most, uint32_t *id, uint64_t *incarnation,
                       uint64_t *since) {
    uint64_t number = reader_varint(reader);
    *id = (uint32_t)number;
    *incarnation = varint_unfold(reader_varint(reader), head->number);
    *since = head->number - reader_varint(reader);
    return !reader->failed && number < most;
}

static bool read_slot(reader *reader, const cluster_map *head, cluster_map_slot *slot) {
    *slot = (cluster_map_slot){.epoch = head->number - reader_varint(reader)};
    uint64_t home = reader_varint(reader);
    slot->home = (uint32_t)home;
    slot->more = reader_u8(reader);
    slot->count = reader_u8(reader);
    if (home > SLOT_MESSAGE_RANK || slot->more > CLUSTER_MAP_COPIES_MAX || slot->count > CLUSTER_MAP_COPIES_MAX)
        return false;
    for (size_t i = 0; i < slot->count; i++) {
        cluster_map_member *member = &slot->chain[i];
        if (!read_place(reader, head, SLOT_MESSAGE_RANK, &member->server, &member->incarnation, &member->since))
            return false;
        for (size_t k = 0; k < i; k++)
            if (slot->chain[k].server == member->server) return false;
    }
    return !reader->failed;
}

/* Slots are stored to `into` unless it is NULL. *count: number of slots read. */
static bool read_slots(reader *reader, const cluster_map *head, uint64_t base, cluster_map_slot *into,
                       uint32_t *count) {
    uint32_t runs = reader_u32(reader), end = 0;
    *count = 0;
    for (uint32_t i = 0; i < runs; i++) {
        uint32_t first = reader_u32(reader), slots = reader_u32(reader);
        bool apart = i == 0 || first > end; /* adjacent runs are not valid: they must be one run */
        if (reader->failed || !apart || first > head->slot_count || slots > head->slot_count - first || slots == 0)
            return false;
        for (end = first; end < first + slots; end++) {
            cluster_map_slot slot;
            if (!read_slot(reader, head, &slot) || slot.epoch <= base || slot.epoch > head->number) return false;
            if (into != NULL) into[end] = slot;
        }
        *count += slots;
    }
    return !reader->failed;
}

static bool read_server(reader *reader, const cluster_map *head, cluster_map_server *server) {
    *server = (cluster_map_server){0};
    return read_place(reader, head, SLOT_MESSAGE_RANK, &server->id, &server->incarnation, &server->since) &&
           reader_text8(reader, server->address, sizeof server->address);
}

/* Servers are put into the map if `take` is set; otherwise only checks them and the room for them. */
static bool read_servers(reader *reader, const cluster_map *head, uint64_t base, cluster_map *map, bool take) {
    uint32_t count = reader_u32(reader);
    size_t fresh = 0, room = CLUSTER_MAP_SERVERS_MAX - map->server_count;
    uint64_t last = 0;
    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        cluster_map_server server;
        if (!read_server(reader, head, &server) || (i > 0 && server.id <= last) || server.since <= base ||
            server.since > head->number)
            return false;
        last = server.id;
        if (take)
            put_server(map, &server);
        else if (cluster_map_find(map, server.id) == NULL && ++fresh > room)
            return false;
    }
    return !reader->failed;
}

/* Assigned ranks and readers are stored to `into` unless it is NULL. */
static bool read_holders(reader *reader, const cluster_map *head, uint64_t base, cluster_map_rank *into) {
    uint32_t count = reader_u32(reader), rank = 0;
    for (uint32_t i = 0; i < count; i++, rank++) {
        cluster_map_rank holder;
        uint64_t gap = reader_varint(reader);
        if (reader->failed || gap >= cluster_map_clients(head) - rank) return false;
        rank += (uint32_t)gap;
        if (!read_place(reader, head, SLOT_MESSAGE_RANK, &holder.worker, &holder.incarnation, &holder.since) ||
            holder.since <= base || holder.since > head->number)
            return false;
        if (into != NULL) into[rank] = holder;
    }
    return !reader->failed && reader_left(reader) == 0;
}

static bool can_follow(const cluster_map *map, const struct cluster_map *head, uint64_t base) {
    if (head->number <= map->number) return false;
    if (map->number == 0 || head->generation != map->generation) return base == 0;
    return base <= map->number && head->slot_count == map->slot_count && head->rank_count == map->rank_count &&
           head->reader_count == map->reader_count && head->mixed == map->mixed &&
           head->consistency.kind == map->consistency.kind;
}

/* Applies the checked changes. A complete cluster map replaces everything. */
static void take(cluster_map *map, const struct cluster_map *head, uint64_t base, reader reader) {
    struct cluster_map next = *head;
    if (base == 0) {
        cluster_map_fini(map);
        map->slots = xcalloc(head->slot_count + 1, sizeof *map->slots);
    }
    uint32_t clients = cluster_map_clients(head);
    if (map->ranks == NULL && clients != 0) map->ranks = xcalloc(clients, sizeof *map->ranks);
    next.slots = map->slots;
    next.ranks = map->ranks;
    next.servers = map->servers;
    next.server_count = map->server_count;
    *map = next;
    uint32_t count;
    bool good = read_slots(&reader, head, base, map->slots, &count) && read_servers(&reader, head, base, map, true) &&
                read_holders(&reader, head, base, map->ranks);
    MR_ASSERT(good);
}

bool cluster_map_peek(span bytes, uint64_t *number, uint64_t *generation) {
    reader reader = reader_of(bytes.data, bytes.size);
    struct cluster_map head = {0};
    uint64_t base;
    bool good = read_head(&reader, &head, &base);
    *number = head.number;
    *generation = head.generation;
    return good;
}

mr_status cluster_map_follow(cluster_map *map, span bytes) {
    if (bytes.size > 0 && bytes.data[0] != CLUSTER_MAP_LAYOUT && bytes.data[0] != CLUSTER_MAP_LAYOUT_BEFORE)
        return format_reject("the cluster map", bytes.data[0], CLUSTER_MAP_LAYOUT, FORMAT_USE_SAME);
    reader reader = reader_of(bytes.data, bytes.size);
    struct cluster_map head = {0}, none = {0};
    uint64_t base;
    uint32_t count;
    if (!read_head(&reader, &head, &base))
        return error_set(MR_CORRUPT, "malformed cluster map of %zu bytes", bytes.size);
    if (!can_follow(map, &head, base)) return MR_STALE;
    struct reader again = reader;
    bool good = read_slots(&reader, &head, base, NULL, &count) && (base != 0 || count == head.slot_count) &&
                read_servers(&reader, &head, base, base == 0 ? &none : map, false) &&
                read_holders(&reader, &head, base, NULL);
    if (!good) return error_set(MR_CORRUPT, "malformed cluster map of %zu bytes", bytes.size);
    take(map, &head, base, again);
    CHECK_INVARIANTS(map->slot_count + map->server_count + cluster_map_clients(map), cluster_map_check(map));
    return MR_OK;
}

static void check_slot(const cluster_map *map, const cluster_map_slot *slot) {
    MR_ASSERT(slot->count <= CLUSTER_MAP_COPIES_MAX && slot->more <= CLUSTER_MAP_COPIES_MAX); /* 1 */
    MR_ASSERT(slot->epoch <= map->number);                                                    /* 2 */
    for (size_t i = 0; i < slot->count; i++)
        for (size_t k = 0; k < i; k++) MR_ASSERT(slot->chain[i].server != slot->chain[k].server); /* 2 */
}

void cluster_map_check(const cluster_map *map) {
    MR_ASSERT(map->slot_count <= CLUSTER_MAP_SLOTS_MAX && map->server_count <= CLUSTER_MAP_SERVERS_MAX); /* 1 */
    /* 1 */
    MR_ASSERT(map->rank_count <= (cluster_map_has_rounds(map) ? (uint32_t)RANK_SET_MAX : CLUSTER_MAP_RANKS_MAX));
    MR_ASSERT(cluster_map_clients(map) <= CLUSTER_MAP_RANKS_MAX);                                   /* 1 */
    MR_ASSERT(map->copies <= CLUSTER_MAP_COPIES_MAX && map->rounds.first_count <= map->rank_count); /* 1 */
    MR_ASSERT(!map->mixed || (map->slot_count >= 3 && map->slot_count % 2 == 1));                   /* 1 */
    for (uint32_t i = 0; i < map->slot_count; i++) check_slot(map, &map->slots[i]);
    for (uint32_t i = 0; i < map->server_count; i++) {
        MR_ASSERT(i == 0 || map->servers[i - 1].id < map->servers[i].id); /* 3 */
        MR_ASSERT(map->servers[i].since <= map->number);                  /* 3 */
    }
    for (uint32_t i = 0; map->ranks != NULL && i < cluster_map_clients(map); i++)
        MR_ASSERT(map->ranks[i].since <= map->number); /* 3 */
}
