/* slot_norms.c — see slot_norms.h. */
#include "kv/engine/slot_norms.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/binary_search.h"

void slot_norms_fini(slot_norms *norms) {
    free(norms->list);
    *norms = (struct slot_norms){0};
}

static int compare(const void *key, const void *item) {
    const slot_norms_item *a = key, *b = item;
    if (a->table != b->table) return a->table < b->table ? -1 : 1;
    return (a->of > b->of) - (a->of < b->of);
}

static size_t place(const slot_norms *norms, const slot_norms_item *item) {
    return binary_search_first(item, norms->list, norms->count, sizeof *norms->list, compare);
}

static bool is_at(const slot_norms *norms, size_t at, const slot_norms_item *item) {
    return at < norms->count && compare(item, &norms->list[at]) == 0;
}

static double number(double squares) { return isnan(squares) ? (double)INFINITY : squares; }

static void insert(slot_norms *norms, size_t at, const slot_norms_item *item) {
    xgrow(&norms->list, &norms->room, norms->count + 1, sizeof *norms->list);
    memmove(norms->list + at + 1, norms->list + at, (norms->count++ - at) * sizeof *norms->list);
    norms->list[at] = *item;
}

void slot_norms_add(slot_norms *norms, uint32_t table, uint32_t of, double first, double second) {
    slot_norms_item item = {table, of, {number(first), number(second)}};
    size_t at = place(norms, &item);
    if (!is_at(norms, at, &item)) {
        insert(norms, at, &item);
        if (norms->count > SLOT_NORMS_MAX) norms->count = SLOT_NORMS_MAX;
    } else {
        for (int i = 0; i < 2; i++) norms->list[at].squares[i] = number(norms->list[at].squares[i] + item.squares[i]);
    }
}

const slot_norms_item *slot_norms_find(const slot_norms *norms, uint32_t table, uint32_t of) {
    const slot_norms_item wanted = {.table = table, .of = of};
    size_t at = place(norms, &wanted);
    return is_at(norms, at, &wanted) ? &norms->list[at] : NULL;
}

shared_bytes *slot_norms_write(const slot_norms *norms) {
    return shared_bytes_copy(span_of(norms->list, norms->count * sizeof *norms->list));
}

bool slot_norms_read(slot_norms *norms, span bytes) {
    slot_norms_fini(norms);
    if (bytes.size % SLOT_NORMS_ITEM != 0) return false;
    for (size_t at = 0; at < bytes.size && norms->count < SLOT_NORMS_MAX; at += SLOT_NORMS_ITEM) {
        slot_norms_item item;
        memcpy(&item, bytes.data + at, sizeof item);
        size_t to = place(norms, &item);
        item.squares[0] = number(item.squares[0]);
        item.squares[1] = number(item.squares[1]);
        if (!is_at(norms, to, &item)) insert(norms, to, &item);
    }
    return true;
}

shared_bytes *slot_norms_combine(void *context, const span *parts, size_t count) {
    slot_norms all = {0}, part = {0};
    for (size_t i = 0; i < count; i++) {
        if (!slot_norms_read(&part, parts[i])) continue;
        for (size_t k = 0; k < part.count; k++) {
            const slot_norms_item *item = &part.list[k];
            slot_norms_add(&all, item->table, item->of, item->squares[0], item->squares[1]);
        }
    }
    shared_bytes *bytes = slot_norms_write(&all);
    slot_norms_fini(&all);
    slot_norms_fini(&part);
    return bytes;
}
