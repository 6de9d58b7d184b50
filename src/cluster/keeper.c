/* keeper.c — see keeper.h. */
#include "cluster/keeper.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum {
    ENTRY_OVERHEAD = 16,
    IMAGE_OVERHEAD = 20,
    GENERATIONS_FIRST = 1 << 20, /* the first one of a keeper is one of so many */
    GENERATIONS_STEP = 1 << 10,  /* and another one is at most so many above what is known */
    IMAGE_MAX = IMAGE_OVERHEAD + KEEPER_KEYS_MAX * (ENTRY_OVERHEAD + KEEPER_KEY_MAX + KEEPER_VALUE_MAX),
};

typedef struct entry {
    char key[KEEPER_KEY_MAX];
    size_t key_size;
    uint64_t version; /* with the count 0: this place is made for a swap that has not been decided */
    uint8_t *value;   /* owned */
    size_t value_size;
} entry;

struct keeper {
    disk disk;
    rng *rng;
    keeper_mutations mutations;
    uint64_t generation;
    size_t count;
    entry entries[KEEPER_KEYS_MAX];
};

static entry *find(const keeper *keeper, span key) {
    for (size_t i = 0; i < keeper->count; i++) {
        const entry *at = &keeper->entries[i];
        if (at->key_size == key.size && memcmp(at->key, key.data, key.size) == 0) return (entry *)(uintptr_t)at;
    }
    return NULL;
}

static span value_of(const entry *entry) { return span_of(entry->value, entry->value_size); }

/* ---- The image. */

static size_t image_size(const keeper *keeper) {
    size_t size = IMAGE_OVERHEAD;
    for (size_t i = 0; i < keeper->count; i++)
        size += ENTRY_OVERHEAD + keeper->entries[i].key_size + keeper->entries[i].value_size;
    return size;
}

/* As it is, but with `changed` (NULL: nothing) at the next version and with the new value. */
static void write_image(const keeper *keeper, const entry *changed, uint64_t version, span value, writer *writer) {
    writer_u32(writer, KEEPER_MAGIC);
    writer_u32(writer, (uint32_t)keeper->generation);
    writer_u32(writer, (uint32_t)keeper->count);
    for (size_t i = 0; i < keeper->count; i++) {
        const entry *at = &keeper->entries[i];
        writer_span32(writer, span_of(at->key, at->key_size));
        writer_u64(writer, at == changed ? version : at->version);
        writer_span32(writer, at == changed ? value : value_of(at));
    }
    writer_u64(writer, XXH3_64bits(writer->start, writer_size(writer)));
}

static mr_status save(const keeper *keeper, const entry *changed, uint64_t version, span value) {
    size_t room = image_size(keeper) + value.size - (changed == NULL ? 0 : changed->value_size);
    uint8_t *bytes = xmalloc(room);
    writer writer = writer_of(bytes, room);
    write_image(keeper, changed, version, value, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == room);
    span image = span_of(bytes, room);
    mr_status status = keeper->mutations.no_sync ? keeper->disk.ops->write(keeper->disk.self, KEEPER_FILE, 0, image)
                                                 : disk_replace(keeper->disk, KEEPER_FILE, image);
    free(bytes);
    return status;
}

static bool read_entry(reader *reader, keeper *keeper) {
    span key = reader_span32(reader);
    uint64_t version = reader_u64(reader);
    span value = reader_span32(reader);
    if (reader->failed || key.size == 0 || key.size > KEEPER_KEY_MAX || value.size > KEEPER_VALUE_MAX) return false;
    if (coordinator_generation(version) != keeper->generation || coordinator_count(version) == 0) return false;
    if (find(keeper, key) != NULL) return false;
    entry *entry = &keeper->entries[keeper->count++];
    memcpy(entry->key, key.data, key.size);
    entry->key_size = key.size;
    entry->version = version;
    entry->value = xmalloc(value.size + 1);
    entry->value_size = value.size;
    if (value.size != 0) memcpy(entry->value, value.data, value.size);
    return true;
}

static mr_status load(keeper *keeper, span image) {
    reader reader = reader_of(image.data, image.size);
    uint32_t magic = reader_u32(&reader);
    keeper->generation = reader_u32(&reader);
    size_t count = reader_u32(&reader);
    bool good = !reader.failed && magic == KEEPER_MAGIC && keeper->generation != 0 &&
                keeper->generation <= COORDINATOR_GENERATION_MAX && count <= KEEPER_KEYS_MAX;
    for (size_t i = 0; good && i < count; i++) good = read_entry(&reader, keeper);
    uint64_t sum = XXH3_64bits(image.data, image.size - reader_left(&reader));
    good = good && reader_u64(&reader) == sum && !reader.failed && reader_left(&reader) == 0;
    if (good) return MR_OK;
    return error_set(MR_CORRUPT,
                     "the keeper's file '%s' is damaged: remove it, and every member will enter the cluster anew",
                     KEEPER_FILE);
}

static uint64_t draw(rng *rng, uint64_t bound) { return 1 + rng_below(rng, bound); }

mr_status keeper_open(disk disk, rng *rng, keeper **out) {
    buffer image;
    buffer_init(&image, IMAGE_MAX);
    keeper *keeper = xcalloc(1, sizeof *keeper);
    keeper->disk = disk;
    keeper->rng = rng;
    keeper->generation = draw(rng, GENERATIONS_FIRST);
    mr_status status = disk_read_all(disk, KEEPER_FILE, IMAGE_MAX, &image);
    if (status == MR_OK) status = load(keeper, span_of(image.data, image.size));
    if (status == MR_NOT_FOUND) status = MR_OK;
    buffer_fini(&image);
    if (status != MR_OK) {
        keeper_close(keeper);
        return status;
    }
    *out = keeper;
    return MR_OK;
}

static void forget(keeper *keeper) {
    for (size_t i = 0; i < keeper->count; i++) free(keeper->entries[i].value);
    keeper->count = 0;
}

void keeper_close(keeper *keeper) {
    forget(keeper);
    free(keeper);
}

/* ---- Asking and deciding. */

void keeper_get(const keeper *keeper, span key, uint64_t *version, span *value) {
    const entry *entry = find(keeper, key);
    *version = entry == NULL ? coordinator_version(keeper->generation, 0) : entry->version;
    *value = entry == NULL ? (span){0} : value_of(entry);
}

static mr_status check(const keeper *keeper, span key, span value) {
    if (key.size == 0 || key.size > KEEPER_KEY_MAX)
        return error_set(MR_INVALID, "a key has 1 to %d bytes, not %zu", KEEPER_KEY_MAX, key.size);
    if (value.size > KEEPER_VALUE_MAX)
        return error_set(MR_TOO_LARGE, "a value has at most %d bytes, not %zu", KEEPER_VALUE_MAX, value.size);
    if (find(keeper, key) == NULL && keeper->count == KEEPER_KEYS_MAX)
        return error_set(MR_TOO_LARGE, "the keeper has %d values, it takes no more", KEEPER_KEYS_MAX);
    return MR_OK;
}

static entry *add(keeper *keeper, span key) {
    entry *entry = &keeper->entries[keeper->count++];
    memset(entry, 0, sizeof *entry);
    memcpy(entry->key, key.data, key.size);
    entry->key_size = key.size;
    entry->version = coordinator_version(keeper->generation, 0);
    return entry;
}

mr_status keeper_swap(keeper *keeper, span key, uint64_t expected, span value) {
    MR_TRY(check(keeper, key, value));
    uint64_t newest;
    span before;
    keeper_get(keeper, key, &newest, &before);
    if (expected != newest && !keeper->mutations.no_compare)
        return error_set(MR_STALE, "version " COORDINATOR_FORMAT " is there already", COORDINATOR_ARGS(newest));
    entry *entry = find(keeper, key);
    if (entry == NULL) entry = add(keeper, key);
    mr_status status = save(keeper, entry, expected + 1, value);
    if (status != MR_OK) {
        if (coordinator_count(entry->version) == 0) keeper->count--; /* it was added last */
        return status;
    }
    uint8_t *copy = xmalloc(value.size + 1);
    if (value.size != 0) memcpy(copy, value.data, value.size);
    free(entry->value);
    entry->value = copy;
    entry->value_size = value.size;
    entry->version = expected + 1;
    return MR_OK;
}

/* ---- Having forgotten. */

static mr_status begin_generation(keeper *keeper, uint64_t generation) {
    struct keeper fresh = {.disk = keeper->disk, .mutations = keeper->mutations, .generation = generation};
    MR_TRY(save(&fresh, NULL, 0, (span){0}));
    forget(keeper);
    keeper->generation = generation;
    return MR_OK;
}

mr_status keeper_heed(keeper *keeper, span key, uint64_t known) {
    uint64_t newest;
    span value;
    keeper_get(keeper, key, &newest, &value);
    if (known <= newest || keeper->mutations.deaf) return MR_OK;
    uint64_t generation = coordinator_generation(known) + draw(keeper->rng, GENERATIONS_STEP);
    if (generation > COORDINATOR_GENERATION_MAX)
        return error_set(MR_INVALID, "no keeper has given version " COORDINATOR_FORMAT, COORDINATOR_ARGS(known));
    return begin_generation(keeper, generation);
}

/* ---- Letters. */

void keeper_answer(keeper *keeper, const letter *question, letter *answer) {
    MR_ASSERT(question->kind == LETTER_GET || question->kind == LETTER_SWAP);
    *answer = (letter){.kind = LETTER_ANSWER, .request = question->request};
    answer->status = keeper_heed(keeper, question->key, question->version);
    if (answer->status != MR_OK) return;
    if (question->kind == LETTER_SWAP) {
        answer->version = question->version + 1;
        answer->status = keeper_swap(keeper, question->key, question->version, question->value);
        if (answer->status == MR_OK) return;
    }
    keeper_get(keeper, question->key, &answer->version, &answer->value);
}

void keeper_mutate(keeper *keeper, keeper_mutations mutations) {
    keeper->mutations = mutations;
    if (mutations.no_chance && keeper->count == 0) keeper->generation = 1;
}
