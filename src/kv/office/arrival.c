/* arrival.c — see arrival.h. */
#include "kv/office/arrival.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "kv/office/desk.h"

/* ---- As bytes. */

#define WORD_FIELDS(X) X(u64, token) X(u8, group) X(flag, early) X(u64, place) X(u64, generation) X(u64, first)

size_t arrival_word_encode(const arrival_word *word, uint8_t *out) {
    writer writer = writer_of(out, ARRIVAL_WORD_MAX);
#define X(type, field) writer_##type(&writer, word->field);
    WORD_FIELDS(X)
#undef X
    writer_text8(&writer, word->name);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status arrival_word_decode(span bytes, arrival_word *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    arrival_word word = {0};
#define X(type, field) word.field = reader_##type(&reader);
    WORD_FIELDS(X)
#undef X
    bool is_text = reader_text8(&reader, word.name, sizeof word.name);
    if (!is_text || reader.failed || reader_left(&reader) != 0 || word.name[0] == '\0' || word.group == 0 ||
        word.group > MR_PS_ALL || word.place == 0)
        return error_set(MR_CORRUPT, "malformed barrier request of %zu bytes", bytes.size);
    *out = word;
    return MR_OK;
}

size_t arrival_verdict_encode(const arrival_verdict *verdict, uint8_t *out) {
    writer writer = writer_of(out, ARRIVAL_VERDICT_MAX);
    writer_u8(&writer, (uint8_t)verdict->status);
    writer_u32(&writer, verdict->missing);
    writer_u8(&writer, verdict->role);
    writer_u8(&writer, (uint8_t)verdict->named);
    for (uint32_t i = 0; i < verdict->named; i++) writer_u32(&writer, verdict->numbers[i]);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status arrival_verdict_decode(span bytes, arrival_verdict *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    arrival_verdict verdict = {.status = (mr_status)reader_u8(&reader), .missing = reader_u32(&reader)};
    verdict.role = reader_u8(&reader);
    verdict.named = reader_u8(&reader);
    bool good = verdict.named <= ARRIVAL_NAMED && verdict.named <= verdict.missing && verdict.role <= MR_PS_ALL &&
                (verdict.status == MR_OK || verdict.status == MR_BUSY || verdict.status == MR_TOO_LARGE);
    for (uint32_t i = 0; good && i < verdict.named; i++) verdict.numbers[i] = reader_u32(&reader);
    if (!good || reader.failed || reader_left(&reader) != 0)
        return error_set(MR_CORRUPT, "malformed barrier response of %zu bytes", bytes.size);
    *out = verdict;
    return MR_OK;
}

/* ---- Where it comes. */

typedef struct arrival {
    list link;
    char name[MR_PS_NAME_MAX];
    bool waits;
    uint8_t group;
    arrivals_where where;
    uint32_t index; /* rounds that it has passed there */
    uint64_t token;
    bool heard, stale;
    arrival_verdict verdict;
    uint64_t chart; /* that has to be known before it goes on */
} arrival;

struct arrivals {
    arrivals_options options;
    list list;
    uint32_t count;
    uint64_t tokens;
    int64_t next_us;
};

arrivals *arrivals_create(const arrivals_options *options, uint64_t token) {
    arrivals *arrivals = xcalloc(1, sizeof *arrivals);
    *arrivals = (struct arrivals){.options = *options, .tokens = token, .next_us = CLOCK_NEVER_US};
    list_init(&arrivals->list);
    return arrivals;
}

static void forget(arrivals *arrivals, arrival *arrival) {
    list_remove(&arrival->link);
    free(arrival);
    arrivals->count--;
}

void arrivals_destroy(arrivals *arrivals) {
    if (arrivals == NULL) return;
    while (!list_empty(&arrivals->list)) forget(arrivals, container_of(arrivals->list.next, arrival, link));
    free(arrivals);
}

static arrival *find(const arrivals *arrivals, const char *name) {
    list_for_each (item, &arrivals->list) {
        arrival *arrival = container_of(item, struct arrival, link);
        if (strcmp(arrival->name, name) == 0) return arrival;
    }
    return NULL;
}

static bool is_same(arrivals_where a, arrivals_where b) {
    return a.early == b.early && (a.early || (a.open == b.open && a.step == b.step));
}

/* What was passed elsewhere does not count any more. */
static void sweep(arrivals *arrivals, arrivals_where where) {
    list_for_each (item, &arrivals->list) {
        arrival *arrival = container_of(item, struct arrival, link);
        if (!arrival->waits && !is_same(arrival->where, where)) forget(arrivals, arrival);
    }
}

mr_status arrivals_come(arrivals *arrivals, const char *name, uint8_t group, arrivals_where where, int64_t now_us) {
    sweep(arrivals, where);
    arrival *arrival = find(arrivals, name);
    if (arrival != NULL && arrival->waits && arrival->group == group && is_same(arrival->where, where)) return MR_OK;
    if (arrival == NULL && arrivals->count == ARRIVAL_MAX)
        return error_set(MR_TOO_LARGE, "barrier '%s': a process may wait at %d barriers in a step", name, ARRIVAL_MAX);
    if (arrival != NULL && arrival->index == BARRIERS_INDEX_MAX - 1)
        return error_set(MR_TOO_LARGE, "barrier '%s' was passed %d times in a step, the limit", name,
                         BARRIERS_INDEX_MAX - 1);
    if (arrival == NULL) {
        arrival = xcalloc(1, sizeof *arrival);
        memcpy(arrival->name, name, strlen(name) + 1);
        list_push_back(&arrivals->list, &arrival->link);
        arrivals->count++;
    } else if (!is_same(arrival->where, where)) {
        arrival->index = 0;
    }
    arrival->waits = true;
    arrival->heard = arrival->stale = false;
    arrival->group = group;
    arrival->where = where;
    arrival->token = ++arrivals->tokens;
    arrivals->next_us = now_us;
    return MR_OK;
}

static mr_status not_yet(const arrival *arrival) {
    const arrival_verdict *verdict = &arrival->verdict;
    char text[ARRIVAL_NAMED * 12] = "";
    size_t size = 0;
    if (!arrival->heard) return error_set(MR_BUSY, "barrier '%s': the scheduler has not answered", arrival->name);
    for (uint32_t i = 0; i < verdict->named; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%u", i == 0 ? "" : ", ", verdict->numbers[i]);
    if (verdict->missing == 0) return error_set(MR_BUSY, "barrier '%s': slots lack replicas", arrival->name);
    return error_set(MR_BUSY, "barrier '%s': %s %s%s %s", arrival->name,
                     verdict->role == MR_PS_SERVERS ? "servers" : "ranks", text,
                     verdict->missing > verdict->named ? " and more" : "",
                     verdict->role == MR_PS_SERVERS ? "are not connected" : "have not arrived");
}

mr_status arrivals_passed(arrivals *arrivals, const char *name, const standing *self) {
    arrival *arrival = find(arrivals, name);
    if (arrival == NULL || !arrival->waits)
        return error_set(MR_STALE, "barrier '%s': another thread of this process has waited for it and passed", name);
    if (arrival->stale) {
        arrival->waits = false;
        return error_set(MR_STALE,
                         "barrier '%s': all replicas of a slot were lost during the wait. The tables continue from the "
                         "newest checkpoint, or are empty if there is none",
                         name);
    }
    if (!arrival->heard || arrival->verdict.status == MR_BUSY) return not_yet(arrival);
    if (arrival->chart > self->chart) return error_set(MR_BUSY, "barrier '%s' waits for a newer cluster map", name);
    arrival->waits = false;
    if (arrival->verdict.status != MR_OK)
        return error_set(arrival->verdict.status, "barrier '%s': ranks wait at %d others, the limit", name,
                         BARRIERS_MAX);
    arrival->index++;
    return MR_OK;
}

void arrivals_restart(arrivals *arrivals) {
    list_for_each (item, &arrivals->list) {
        arrival *arrival = container_of(item, struct arrival, link);
        if (arrival->waits && !arrival->where.early) arrival->stale = true;
        if (!arrival->where.early) arrival->index = 0; /* whatever it has passed it will come to again */
    }
}

/* ---- Saying and hearing. */

int64_t arrivals_next_us(const arrivals *arrivals) { return arrivals->next_us; }

static void say(arrivals *arrivals, const arrival *arrival, const standing *self) {
    uint8_t bytes[ARRIVAL_WORD_MAX];
    arrivals_where where = arrival->where;
    arrival_word word = {.token = arrival->token,
                         .group = arrival->group,
                         .early = where.early,
                         .place = where.early ? 1 + (uint64_t)arrival->index
                                              : barriers_place(where.step, where.open, 1 + arrival->index),
                         .generation = self->generation,
                         .first = self->first};
    memcpy(word.name, arrival->name, sizeof word.name);
    letter letter = {.kind = DESK_COME,
                     .stamp = {self->chart, self->number, self->incarnation},
                     .value = span_of(bytes, arrival_word_encode(&word, bytes))};
    arrivals->options.send(arrivals->options.context, arrivals->options.scheduler, &letter);
}

void arrivals_tick(arrivals *arrivals, const standing *self, int64_t now_us) {
    arrivals->next_us = CLOCK_NEVER_US;
    list_for_each (item, &arrivals->list) {
        const arrival *arrival = container_of(item, struct arrival, link);
        bool over = arrival->heard && arrival->verdict.status != MR_BUSY;
        if (!arrival->waits || arrival->stale || over) continue;
        if (self->ready) say(arrivals, arrival, self);
        arrivals->next_us = now_us + ARRIVAL_AGAIN_US;
    }
}

bool arrivals_take(arrivals *arrivals, const letter *letter) {
    arrival_verdict verdict;
    if (letter->kind != DESK_PASS) return false;
    if (arrival_verdict_decode(letter->value, &verdict) != MR_OK) return true;
    list_for_each (item, &arrivals->list) {
        arrival *arrival = container_of(item, struct arrival, link);
        bool over = arrival->heard && arrival->verdict.status != MR_BUSY;
        if (!arrival->waits || over || arrival->token != letter->stamp.id) continue;
        arrival->heard = true;
        arrival->verdict = verdict;
        arrival->chart = letter->stamp.view;
    }
    return true;
}
