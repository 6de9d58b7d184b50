/* error_feedback.c — see error_feedback.h.
 *
 * The residuals of keys are in a list, most recently pushed last. So the changed entries are at the end of the list,
 * and a file to which they are appended has the same order. */
#include "kv/client/error_feedback.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/map.h"

enum { PIECE_HEAD = 16, KEY_HEAD = 16, STRETCH_HEAD = 24 };
enum { STRETCHES = 16 }; /* tracked changes of one array; further ones are merged */
enum { PIECE_KEYS = 1, PIECE_GONE = 2, PIECE_STRETCH = 3 };

typedef struct entry {
    list link;
    uint64_t key;
    uint32_t length, room;
    bool changed;
    bool settled; /* the entry existed at the last settle */
    float rests[];
} entry;

typedef struct stretch { /* changed items */
    uint64_t first, end;
} stretch;

typedef struct array {
    float *rests; /* owned; NULL: not pushed to yet */
    uint64_t items;
    bool is_new; /* the array did not exist at the last settle: all of it is a change */
    stretch changed[STRETCHES];
    size_t changed_count;
} array;

struct error_feedback {
    uint32_t table;
    uint64_t bytes_max, bytes, forgotten;
    map by_key;     /* entries; owned */
    list ages;      /* entries, most recently pushed last */
    uint64_t *gone; /* owned: keys dropped since the last settle */
    size_t gone_count, gone_room;
    array *arrays; /* owned, by number */
    uint32_t array_count;
    size_t array_room;
};

error_feedback *error_feedback_create(uint32_t table, uint64_t bytes_max) {
    error_feedback *feedback = xcalloc(1, sizeof *feedback);
    feedback->table = table;
    feedback->bytes_max = bytes_max;
    list_init(&feedback->ages);
    return feedback;
}

void error_feedback_destroy(error_feedback *feedback) {
    list_for_each (item, &feedback->ages) free(container_of(item, entry, link));
    map_fini(&feedback->by_key);
    for (uint32_t i = 0; i < feedback->array_count; i++) free(feedback->arrays[i].rests);
    free(feedback->arrays);
    free(feedback->gone);
    free(feedback);
}

uint32_t error_feedback_table(const error_feedback *feedback) { return feedback->table; }

error_feedback_look error_feedback_look_at(const error_feedback *feedback) {
    error_feedback_look look = {
        .keys = feedback->by_key.count, .bytes = feedback->bytes, .forgotten = feedback->forgotten};
    for (uint32_t i = 0; i < feedback->array_count; i++)
        if (feedback->arrays[i].rests != NULL) look.bytes += feedback->arrays[i].items * sizeof(float);
    return look;
}

/* ---- Keys. */

static size_t entry_size(uint32_t length) { return sizeof(entry) + sizeof(map_entry) * 2 + length * sizeof(float); }

static uint32_t length_of(const error_feedback_keys *keys, size_t i) {
    return keys->lengths == NULL ? keys->dim : keys->lengths[i];
}

static void remove_entry(error_feedback *feedback, entry *entry) {
    (void)map_remove(&feedback->by_key, entry->key);
    list_remove(&entry->link);
    feedback->bytes -= entry_size(entry->room);
    free(entry);
}

/* Records a dropped key that existed at the last settle. */
static void say_gone(error_feedback *feedback, uint64_t key) {
    xgrow(&feedback->gone, &feedback->gone_room, feedback->gone_count + 1, sizeof *feedback->gone);
    feedback->gone[feedback->gone_count++] = key;
}

static void drop(error_feedback *feedback, entry *entry) {
    if (entry->settled) say_gone(feedback, entry->key);
    remove_entry(feedback, entry);
}

/* The entry of the key, with room for `length` values; new values are 0. NULL: no memory. */
static entry *reach(error_feedback *feedback, uint64_t key, uint32_t length) {
    entry *there = map_get(&feedback->by_key, key);
    if (there != NULL && there->room >= length) return there;
    entry *made;
    if (there == NULL && map_reserve(&feedback->by_key, 1) != MR_OK) return NULL;
    if (alloc_try(sizeof(entry) + length * sizeof(float), &made) != MR_OK) return NULL;
    *made = (entry){.key = key, .room = length};
    list_init(&made->link);
    if (there != NULL) {
        memcpy(made->rests, there->rests, there->length * sizeof(float));
        made->length = there->length;
        made->settled = there->settled;
        remove_entry(feedback, there);
    }
    (void)map_put(&feedback->by_key, key, made);
    feedback->bytes += entry_size(length);
    return made;
}

/* Makes the entry the most recently pushed one. */
static void touch(error_feedback *feedback, entry *entry, uint32_t length, bool changed) {
    if (length > entry->length) entry->length = length;
    entry->changed = changed;
    list_remove(&entry->link);
    list_push_back(&feedback->ages, &entry->link);
}

static void make_room(error_feedback *feedback) {
    while (feedback->bytes > feedback->bytes_max && !list_empty(&feedback->ages)) {
        drop(feedback, container_of(feedback->ages.next, entry, link));
        feedback->forgotten++;
    }
}

void error_feedback_read(const error_feedback *feedback, const error_feedback_keys *keys, float *rests) {
    for (size_t i = 0; i < keys->count; i++) {
        uint32_t length = length_of(keys, i);
        const entry *entry = map_get(&feedback->by_key, keys->keys[i]);
        uint32_t known = entry == NULL ? 0 : entry->length < length ? entry->length : length;
        if (known != 0) memcpy(rests, entry->rests, known * sizeof *rests);
        memset(rests + known, 0, (length - known) * sizeof *rests);
        rests += length;
    }
}

void error_feedback_write(error_feedback *feedback, const error_feedback_keys *keys, const float *rests) {
    for (size_t i = 0; i < keys->count; i++) {
        uint32_t length = length_of(keys, i);
        entry *entry = reach(feedback, keys->keys[i], length);
        if (entry == NULL) {
            error_feedback_forget(feedback, &keys->keys[i], 1);
            feedback->forgotten++;
        } else {
            if (length != 0) memcpy(entry->rests, rests, length * sizeof *rests);
            touch(feedback, entry, length, true);
            make_room(feedback);
        }
        rests += length;
    }
}

void error_feedback_forget(error_feedback *feedback, const uint64_t *keys, size_t count) {
    for (size_t i = 0; i < count; i++) {
        entry *entry = map_get(&feedback->by_key, keys[i]);
        if (entry != NULL) drop(feedback, entry);
    }
}

/* ---- Arrays. */

static mr_status reach_array(error_feedback *feedback, uint32_t number, uint64_t items) {
    MR_ASSERT(number < ERROR_FEEDBACK_ARRAYS_MAX && items <= ERROR_FEEDBACK_ITEMS_MAX);
    if (number >= feedback->array_count) {
        xgrow(&feedback->arrays, &feedback->array_room, (size_t)number + 1, sizeof *feedback->arrays);
        memset(feedback->arrays + feedback->array_count, 0,
               ((size_t)number + 1 - feedback->array_count) * sizeof *feedback->arrays);
        feedback->array_count = number + 1;
    }
    array *array = &feedback->arrays[number];
    if (array->rests != NULL) return MR_OK;
    MR_TRY(alloc_try(items * sizeof(float), &array->rests));
    array->items = items;
    array->is_new = true;
    return MR_OK;
}

static void widen(stretch *stretch, uint64_t first, uint64_t end) {
    if (first < stretch->first) stretch->first = first;
    if (end > stretch->end) stretch->end = end;
}

static void note(array *array, uint64_t first, uint64_t end) {
    stretch *last = array->changed_count == 0 ? NULL : &array->changed[array->changed_count - 1];
    if (last != NULL && first <= last->end && end >= last->first) {
        widen(last, first, end);
        return;
    }
    if (array->changed_count == STRETCHES) {
        for (size_t i = 1; i < STRETCHES; i++) widen(array->changed, array->changed[i].first, array->changed[i].end);
        array->changed_count = 1;
        note(array, first, end);
        return;
    }
    array->changed[array->changed_count++] = (stretch){first, end};
}

mr_status error_feedback_stretch(error_feedback *feedback, uint32_t array, uint64_t items, uint64_t first, size_t count,
                                 float **rests) {
    MR_TRY(reach_array(feedback, array, items));
    MR_ASSERT(feedback->arrays[array].items == items && first <= items && count <= items - first);
    note(&feedback->arrays[array], first, first + count);
    *rests = feedback->arrays[array].rests + first;
    return MR_OK;
}

void error_feedback_clear(error_feedback *feedback, uint32_t array, uint64_t first, size_t count) {
    if (array >= feedback->array_count || feedback->arrays[array].rests == NULL) return;
    note(&feedback->arrays[array], first, first + count);
    memset(feedback->arrays[array].rests + first, 0, count * sizeof(float));
}

/* ---- Encoding. */

static size_t padded(size_t size) { return (size + 7) & ~(size_t)7; }

void error_feedback_settle(error_feedback *feedback) {
    for (list *at = feedback->ages.prev; at != &feedback->ages; at = at->prev) {
        entry *entry = container_of(at, struct entry, link);
        if (!entry->changed) break;
        entry->changed = false;
        entry->settled = true;
    }
    feedback->gone_count = 0;
    for (uint32_t i = 0; i < feedback->array_count; i++) {
        feedback->arrays[i].changed_count = 0;
        feedback->arrays[i].is_new = false;
    }
}

/* The first entry to be written, the number of entries, and their bytes. */
static list *first_of(const error_feedback *feedback, bool all, uint64_t *count, size_t *bytes) {
    list *first = NULL;
    *count = *bytes = 0;
    for (list *at = feedback->ages.prev; at != &feedback->ages; at = at->prev) {
        const entry *entry = container_of(at, struct entry, link);
        if (!all && !entry->changed) break;
        *bytes += KEY_HEAD + padded(entry->length * sizeof(float));
        ++*count;
        first = at;
    }
    return first;
}

typedef void visit_fn(void *context, uint64_t kind, uint64_t count, const void *what, size_t bytes);

typedef struct run { /* items of an array, to be written */
    uint64_t array, items, first;
    const float *rests;
} run;

static void visit_array(const array *array, uint64_t number, bool all, visit_fn *visit, void *context) {
    const stretch whole = {0, array->items};
    bool entirely = all || array->is_new;
    size_t count = array->rests == NULL ? 0 : entirely ? 1 : array->changed_count;
    for (size_t i = 0; i < count; i++) {
        const stretch *part = entirely ? &whole : &array->changed[i];
        const run run = {number, array->items, part->first, array->rests + part->first};
        uint64_t items = part->end - part->first;
        visit(context, PIECE_STRETCH, items, &run, STRETCH_HEAD + padded(items * sizeof(float)));
    }
}

static void visit_all(const error_feedback *feedback, bool all, visit_fn *visit, void *context) {
    uint64_t count;
    size_t bytes;
    list *first = first_of(feedback, all, &count, &bytes);
    if (!all && feedback->gone_count != 0)
        visit(context, PIECE_GONE, feedback->gone_count, feedback->gone, feedback->gone_count * sizeof(uint64_t));
    if (count != 0) visit(context, PIECE_KEYS, count, &first, bytes);
    for (uint32_t i = 0; i < feedback->array_count; i++) visit_array(&feedback->arrays[i], i, all, visit, context);
}

static void measure(void *context, uint64_t kind, uint64_t count, const void *what, size_t bytes) {
    *(size_t *)context += PIECE_HEAD + bytes;
}

size_t error_feedback_size(const error_feedback *feedback, bool all) {
    size_t size = 0;
    visit_all(feedback, all, measure, &size);
    return size;
}

static void put(uint8_t **at, const void *data, size_t size) {
    memcpy(*at, data, size);
    memset(*at + size, 0, padded(size) - size);
    *at += padded(size);
}

typedef struct pen {
    uint8_t *at;
    uint32_t table;
} pen;

static void write_piece(void *context, uint64_t kind, uint64_t count, const void *what, size_t bytes) {
    pen *pen = context;
    const uint32_t head[] = {pen->table, (uint32_t)kind};
    put(&pen->at, head, sizeof head);
    put(&pen->at, &count, sizeof count);
    if (kind == PIECE_GONE) put(&pen->at, what, bytes);
    if (kind == PIECE_STRETCH) {
        const run *run = what;
        put(&pen->at, run, STRETCH_HEAD);
        put(&pen->at, run->rests, count * sizeof(float));
    }
    list *link = kind == PIECE_KEYS ? *(list *const *)what : NULL;
    for (uint64_t i = 0; link != NULL && i < count; i++, link = link->next) {
        const entry *entry = container_of(link, struct entry, link);
        const uint64_t key_head[] = {entry->key, entry->length};
        put(&pen->at, key_head, sizeof key_head);
        put(&pen->at, entry->rests, entry->length * sizeof(float));
    }
}

void error_feedback_save(const error_feedback *feedback, bool all, void *out) {
    pen pen = {out, feedback->table};
    visit_all(feedback, all, write_piece, &pen);
}

bool error_feedback_peek(const reader *from, uint32_t *table) {
    reader copy = *from;
    *table = reader_u32(&copy);
    return !copy.failed;
}

static bool load_keys(error_feedback *feedback, reader *reader, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = reader_u64(reader), length = reader_u64(reader);
        if (length > UINT32_MAX) return false;
        const uint8_t *rests = reader_bytes(reader, padded(length * sizeof(float)));
        entry *entry = rests == NULL ? NULL : reach(feedback, key, (uint32_t)length);
        if (entry == NULL) return false;
        if (length != 0) memcpy(entry->rests, rests, length * sizeof(float));
        touch(feedback, entry, (uint32_t)length, false);
        entry->settled = true;
    }
    return true;
}

static bool load_gone(error_feedback *feedback, reader *reader, uint64_t count) {
    for (uint64_t i = 0; i < count && !reader->failed; i++) {
        entry *entry = map_get(&feedback->by_key, reader_u64(reader));
        if (entry != NULL && !reader->failed) remove_entry(feedback, entry);
    }
    return !reader->failed;
}

static bool load_stretch(error_feedback *feedback, reader *reader, uint64_t count) {
    uint64_t number = reader_u64(reader), items = reader_u64(reader), first = reader_u64(reader);
    if (number >= ERROR_FEEDBACK_ARRAYS_MAX || items > ERROR_FEEDBACK_ITEMS_MAX || first > items ||
        count > items - first)
        return false;
    const uint8_t *rests = reader_bytes(reader, padded(count * sizeof(float)));
    bool there = number < feedback->array_count && feedback->arrays[number].rests != NULL;
    if (rests == NULL || (!there && count != items)) return false; /* a new array must be complete */
    if (!there && reach_array(feedback, (uint32_t)number, items) != MR_OK) return false;
    array *array = &feedback->arrays[number];
    if (array->items != items) return false;
    if (count != 0) memcpy(array->rests + first, rests, count * sizeof(float));
    array->is_new = false;
    return true;
}

bool error_feedback_load(error_feedback *feedback, reader *reader) {
    uint32_t table = reader_u32(reader), kind = reader_u32(reader);
    uint64_t count = reader_u64(reader);
    if (reader->failed || table != feedback->table) return false;
    if (kind == PIECE_KEYS) return load_keys(feedback, reader, count);
    if (kind == PIECE_GONE) return load_gone(feedback, reader, count);
    return kind == PIECE_STRETCH && load_stretch(feedback, reader, count);
}
