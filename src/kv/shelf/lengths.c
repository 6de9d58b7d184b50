/* lengths.c — see lengths.h. */
#include "kv/shelf/lengths.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/search.h"

void lengths_fini(lengths *lengths) {
    free(lengths->list);
    *lengths = (struct lengths){0};
}

static int compare(const void *key, const void *item) {
    const lengths_item *a = key, *b = item;
    if (a->table != b->table) return a->table < b->table ? -1 : 1;
    return (a->of > b->of) - (a->of < b->of);
}

static size_t place(const lengths *lengths, const lengths_item *item) {
    return search_first(item, lengths->list, lengths->count, sizeof *lengths->list, compare);
}

static bool is_at(const lengths *lengths, size_t at, const lengths_item *item) {
    return at < lengths->count && compare(item, &lengths->list[at]) == 0;
}

static double number(double squares) { return isnan(squares) ? (double)INFINITY : squares; }

static void insert(lengths *lengths, size_t at, const lengths_item *item) {
    xgrow(&lengths->list, &lengths->room, lengths->count + 1, sizeof *lengths->list);
    memmove(lengths->list + at + 1, lengths->list + at, (lengths->count++ - at) * sizeof *lengths->list);
    lengths->list[at] = *item;
}

void lengths_add(lengths *lengths, uint32_t table, uint32_t of, double first, double second) {
    lengths_item item = {table, of, {number(first), number(second)}};
    size_t at = place(lengths, &item);
    if (!is_at(lengths, at, &item)) {
        insert(lengths, at, &item);
        if (lengths->count > LENGTHS_MAX) lengths->count = LENGTHS_MAX;
        return;
    }
    for (int i = 0; i < 2; i++) lengths->list[at].squares[i] = number(lengths->list[at].squares[i] + item.squares[i]);
}

const lengths_item *lengths_find(const lengths *lengths, uint32_t table, uint32_t of) {
    const lengths_item wanted = {.table = table, .of = of};
    size_t at = place(lengths, &wanted);
    return is_at(lengths, at, &wanted) ? &lengths->list[at] : NULL;
}

bale *lengths_write(const lengths *lengths) {
    return bale_copy(span_of(lengths->list, lengths->count * sizeof *lengths->list));
}

bool lengths_read(lengths *lengths, span bytes) {
    lengths_fini(lengths);
    if (bytes.size % LENGTHS_ITEM != 0) return false;
    for (size_t at = 0; at < bytes.size && lengths->count < LENGTHS_MAX; at += LENGTHS_ITEM) {
        lengths_item item;
        memcpy(&item, bytes.data + at, sizeof item);
        size_t to = place(lengths, &item);
        item.squares[0] = number(item.squares[0]);
        item.squares[1] = number(item.squares[1]);
        if (!is_at(lengths, to, &item)) insert(lengths, to, &item);
    }
    return true;
}

bale *lengths_combine(const span *parts, size_t count) {
    lengths all = {0}, part = {0};
    for (size_t i = 0; i < count; i++) {
        if (!lengths_read(&part, parts[i])) continue;
        for (size_t k = 0; k < part.count; k++) {
            const lengths_item *item = &part.list[k];
            lengths_add(&all, item->table, item->of, item->squares[0], item->squares[1]);
        }
    }
    bale *bale = lengths_write(&all);
    lengths_fini(&all);
    lengths_fini(&part);
    return bale;
}
