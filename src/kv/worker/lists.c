/* lists.c — see lists.h. */
#include "kv/worker/lists.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"

void lists_init(lists *lists, size_t bytes_max) {
    *lists = (struct lists){.bytes_max = bytes_max};
    list_init(&lists->ages);
}

void lists_fini(lists *lists) {
    list_for_each (link, &lists->ages) {
        lists_item *item = container_of(link, lists_item, link);
        free(item->note);
        free(item);
    }
    map_fini(&lists->by_name);
}

lists_name lists_name_of(const uint64_t *keys, size_t count) {
    XXH128_hash_t hash = XXH3_128bits(keys, count * sizeof *keys);
    return (lists_name){hash.low64, hash.high64};
}

static size_t size_of(uint32_t count) { return sizeof(lists_item) + sizeof(map_slot) * 2 + count * sizeof(uint64_t); }

static void drop(lists *lists, lists_item *item) {
    (void)map_remove(&lists->by_name, item->name.low);
    list_remove(&item->link);
    lists->bytes -= size_of(item->count) + item->note_size;
    free(item->note);
    free(item);
}

lists_item *lists_find(lists *lists, lists_name name, uint32_t count) {
    lists_item *item = map_get(&lists->by_name, name.low);
    if (item == NULL || item->name.high != name.high || item->count != count) return NULL;
    list_remove(&item->link);
    list_push_back(&lists->ages, &item->link);
    return item;
}

/* Those that are held stay, and count. */
static void make_room(lists *lists) {
    list_for_each (link, &lists->ages) {
        lists_item *item = container_of(link, lists_item, link);
        if (lists->bytes <= lists->bytes_max) return;
        if (item->holders == 0) drop(lists, item);
    }
}

void *lists_note(lists *lists, lists_item *item, size_t size) {
    if (item->note != NULL || size_of(item->count) + size > lists->bytes_max) return item->note;
    if (alloc_try(size, &item->note) != MR_OK) return NULL;
    item->note_size = size;
    lists->bytes += size;
    item->holders++;
    make_room(lists);
    item->holders--;
    return item->note;
}

lists_item *lists_keep(lists *lists, lists_name name, const uint64_t *keys, uint32_t count) {
    lists_item *there = lists_find(lists, name, count);
    if (there != NULL) return there;
    if (size_of(count) > lists->bytes_max) return NULL;
    there = map_get(&lists->by_name, name.low);
    if (there != NULL && there->holders != 0) return NULL;
    if (there != NULL) drop(lists, there);
    void *memory;
    if (map_reserve(&lists->by_name, 1) != MR_OK) return NULL;
    if (alloc_try(sizeof(lists_item) + count * sizeof *keys, &memory) != MR_OK) return NULL;
    lists_item *item = memory;
    item->name = name;
    item->count = count;
    memcpy(item->keys, keys, count * sizeof *keys);
    list_push_back(&lists->ages, &item->link);
    (void)map_put(&lists->by_name, name.low, item);
    lists->bytes += size_of(count);
    item->holders++;
    make_room(lists);
    item->holders--;
    return item;
}
