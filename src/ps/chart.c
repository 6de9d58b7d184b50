/* chart.c — see chart.h. */
#include "ps/chart.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { HEAD_SIZE = 43, SLOT_SIZE = 9, MEMBER_SIZE = 20, SERVER_SIZE = 13 };

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

/* Where it is, or where it would be. */
static size_t seek(const chart *chart, uint32_t id) {
    size_t at = 0;
    while (at < chart->server_count && chart->servers[at].id < id) at++;
    return at;
}

const chart_server *chart_find(const chart *chart, uint32_t server) {
    size_t at = seek(chart, server);
    return at < chart->server_count && chart->servers[at].id == server ? &chart->servers[at] : NULL;
}

void chart_put_server(chart *chart, uint32_t id, uint64_t incarnation, const char *address) {
    MR_ASSERT(strlen(address) < PART_ADDRESS_MAX);
    size_t at = seek(chart, id);
    if (at == chart->server_count || chart->servers[at].id != id) {
        MR_ASSERT(chart->server_count < CHART_SERVERS_MAX);
        chart->servers = xrealloc(chart->servers, (chart->server_count + 1) * sizeof *chart->servers);
        memmove(&chart->servers[at + 1], &chart->servers[at], (chart->server_count - at) * sizeof *chart->servers);
        chart->server_count++;
    }
    chart->servers[at] = (chart_server){.id = id, .incarnation = incarnation};
    strcpy(chart->servers[at].address, address);
}

int chart_place(const chart_slot *slot, uint32_t server, uint64_t incarnation) {
    for (int i = 0; i < slot->count; i++)
        if (slot->chain[i].server == server && slot->chain[i].incarnation == incarnation) return i;
    return -1;
}

size_t chart_size(const chart *chart) {
    size_t size = HEAD_SIZE;
    for (size_t i = 0; i < chart->slot_count; i++) size += SLOT_SIZE + MEMBER_SIZE * (size_t)chart->slots[i].count;
    for (size_t i = 0; i < chart->server_count; i++) size += SERVER_SIZE + strlen(chart->servers[i].address);
    return size;
}

void chart_encode(const chart *chart, writer *writer) {
    writer_u8(writer, CHART_LAYOUT);
    writer_u64(writer, chart->number);
    writer_u64(writer, chart->generation);
    writer_u64(writer, chart->birth);
    writer_u8(writer, (uint8_t)chart->consistency.kind);
    writer_u8(writer, chart->copies);
    writer_u32(writer, chart->consistency.bound);
    writer_u32(writer, chart->rank_count);
    writer_u32(writer, chart->slot_count);
    for (size_t i = 0; i < chart->slot_count; i++) {
        const chart_slot *slot = &chart->slots[i];
        writer_u64(writer, slot->epoch);
        writer_u8(writer, slot->count);
        for (size_t k = 0; k < slot->count; k++) {
            writer_u32(writer, slot->chain[k].server);
            writer_u64(writer, slot->chain[k].incarnation);
            writer_u64(writer, slot->chain[k].since);
        }
    }
    writer_u32(writer, chart->server_count);
    for (size_t i = 0; i < chart->server_count; i++) {
        const chart_server *server = &chart->servers[i];
        writer_u32(writer, server->id);
        writer_u64(writer, server->incarnation);
        writer_u8(writer, (uint8_t)strlen(server->address));
        writer_bytes(writer, server->address, strlen(server->address));
    }
}

static bool read_slot(reader *reader, chart_slot *slot) {
    slot->epoch = reader_u64(reader);
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

static bool read_server(reader *reader, chart_server *server) {
    server->id = reader_u32(reader);
    server->incarnation = reader_u64(reader);
    size_t length = reader_u8(reader);
    const uint8_t *address = length < PART_ADDRESS_MAX ? reader_bytes(reader, length) : NULL;
    if (address == NULL || memchr(address, 0, length) != NULL) return false;
    memcpy(server->address, address, length);
    return true;
}

static bool read_chart(reader *reader, chart *chart) {
    uint8_t layout = reader_u8(reader);
    chart->number = reader_u64(reader);
    chart->generation = reader_u64(reader);
    chart->birth = reader_u64(reader);
    chart->consistency.kind = reader_u8(reader);
    chart->copies = reader_u8(reader);
    chart->consistency.bound = reader_u32(reader);
    chart->rank_count = reader_u32(reader);
    uint32_t slots = reader_u32(reader);
    if (reader->failed || layout != CHART_LAYOUT || chart->consistency.kind > CONSISTENCY_BSP ||
        chart->copies > CHART_COPIES_MAX || chart->rank_count > CHART_RANKS_MAX || slots > CHART_SLOTS_MAX)
        return false;
    chart->slots = xcalloc(slots + 1, sizeof *chart->slots);
    for (; chart->slot_count < slots; chart->slot_count++)
        if (!read_slot(reader, &chart->slots[chart->slot_count])) return false;
    uint32_t servers = reader_u32(reader);
    if (reader->failed || servers > CHART_SERVERS_MAX) return false;
    chart->servers = xcalloc(servers + 1, sizeof *chart->servers);
    for (; chart->server_count < servers; chart->server_count++) {
        chart_server *server = &chart->servers[chart->server_count];
        if (!read_server(reader, server)) return false;
        if (chart->server_count > 0 && server[-1].id >= server->id) return false;
    }
    return reader_left(reader) == 0;
}

mr_status chart_decode(span bytes, chart *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    chart chart = {0};
    if (!read_chart(&reader, &chart)) {
        chart_fini(&chart);
        return error_set(MR_CORRUPT, "these %zu bytes are not a chart", bytes.size);
    }
    chart_fini(out);
    *out = chart;
    return MR_OK;
}
