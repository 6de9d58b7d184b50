/* vault_check.c — vault_check: asserts the invariants of vault_books.h, by their numbers. What processes write into
 * shared memory is not looked at. */
#include "base/assert.h"
#include "store/vault_books.h"

typedef struct sums {
    size_t processes, stretches, pages, homes, live;
} sums;

static void check_process(const vault *vault, const process_book *process, sums *sums) {
    MR_ASSERT(map_get(&vault->by_id, process->id) == process && process->desk.size >= DESK_BYTES); /* 1 */
    list_for_each (at, &process->stretches) {
        const stretch_book *stretch = container_of(at, stretch_book, place);
        MR_ASSERT(stretch->owner == process && map_get(&vault->stretches, stretch->extent.offset) == stretch); /* 2 */
        MR_ASSERT(stretch->live == 0);                                                                         /* 3 */
        sums->stretches++;
    }
    sums->processes++;
}

static bool is_loaded_into(const vault *vault, const stretch_book *stretch) {
    list_for_each (at, &vault->moves)
        if (container_of(at, move_book, place)->into == stretch) return true;
    return false;
}

static void check_orphans(const vault *vault, sums *sums) {
    list_for_each (at, &vault->orphans) {
        const stretch_book *stretch = container_of(at, stretch_book, place);
        MR_ASSERT(stretch->owner == NULL && map_get(&vault->stretches, stretch->extent.offset) == stretch); /* 2 */
        MR_ASSERT((stretch->live > 0) != is_loaded_into(vault, stretch));                                   /* 3 */
        sums->live += stretch->live;
        sums->stretches++;
    }
}

static void check_page(const vault *vault, const page_book *page, sums *sums) {
    for (uint64_t i = 0; i < PAGE_KEYS; i++)
        MR_ASSERT(map_get(&vault->by_page, page->extent.offset / 4096 + i) == page); /* 1 */
    MR_ASSERT(page->busy <= SLOTS_PER_PAGE);                                         /* 4 */
    for (uint32_t i = 0; i < SLOTS_PER_PAGE; i++) {
        MR_ASSERT(page->homes[i] == NULL || page->homes[i]->owner == NULL); /* 3 */
        sums->homes += page->homes[i] != NULL;
    }
    sums->pages++;
}

static void check_files(const vault *vault) {
    uint64_t bytes = 0;
    map_for_each (found, &vault->files) {
        const file_book *file = found.value;
        uint32_t index;
        MR_ASSERT(vault_page(vault, found.key, &index) != NULL && file->file < vault->next_ticket); /* 5 */
        bytes += file->size;
    }
    MR_ASSERT(bytes == vault->stats.spilled_bytes); /* 5 */
    list_for_each (at, &vault->moves) {
        const move_book *move = container_of(at, move_book, place);
        MR_ASSERT(move->ticket < vault->next_ticket && move->index < SLOTS_PER_PAGE); /* 5 */
        MR_ASSERT(move->into != NULL || list_empty(&move->waiters));                  /* 5 */
    }
}

void vault_check(const vault *vault) {
    sums sums = {0};
    list_for_each (at, &vault->processes) check_process(vault, container_of(at, process_book, place), &sums);
    check_orphans(vault, &sums);
    list_for_each (at, &vault->pages) check_page(vault, container_of(at, page_book, place), &sums);
    MR_ASSERT(sums.processes == vault->by_id.count && sums.pages * PAGE_KEYS == vault->by_page.count); /* 1 */
    MR_ASSERT(sums.stretches == vault->stretches.count);                                               /* 2 */
    MR_ASSERT(sums.homes == sums.live);                                                                /* 3 */
    check_files(vault);
    map_for_each (found, &vault->kept) {
        uint32_t index;
        MR_ASSERT(vault_page(vault, found.key, &index) != NULL && found.value != NULL); /* 6 */
    }
}
