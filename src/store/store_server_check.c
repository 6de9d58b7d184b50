/* store_server_check.c — store_server_check: asserts the invariants of server_internal.h, by their numbers. Bytes
 * that processes write into shared memory are not checked. */
#include "base/assert.h"
#include "store/server_internal.h"

typedef struct sums {
    size_t processes, stretches, pages, homes, live;
} sums;

static void check_process(const store_server *server, const process_book *process, sums *sums) {
    MR_ASSERT(map_get(&server->by_id, process->id) == process &&
              process->lease_page.size >= PROCESS_PAGE_BYTES); /* 1 */
    list_for_each (at, &process->stretches) {
        const stretch_book *stretch = container_of(at, stretch_book, place);
        MR_ASSERT(stretch->owner == process && map_get(&server->stretches, stretch->extent.offset) == stretch); /* 2 */
        MR_ASSERT(stretch->live == 0);                                                                          /* 3 */
        sums->stretches++;
    }
    sums->processes++;
}

static bool is_loaded_into(const store_server *server, const stretch_book *stretch) {
    list_for_each (at, &server->moves)
        if (container_of(at, move_book, place)->into == stretch) return true;
    return false;
}

static void check_orphans(const store_server *server, sums *sums) {
    list_for_each (at, &server->orphans) {
        const stretch_book *stretch = container_of(at, stretch_book, place);
        MR_ASSERT(stretch->owner == NULL && map_get(&server->stretches, stretch->extent.offset) == stretch); /* 2 */
        MR_ASSERT((stretch->live > 0) != is_loaded_into(server, stretch));                                   /* 3 */
        sums->live += stretch->live;
        sums->stretches++;
    }
}

static void check_page(const store_server *server, const page_book *page, sums *sums) {
    for (uint64_t i = 0; i < PAGE_KEYS; i++)
        MR_ASSERT(map_get(&server->by_page, page->extent.offset / 4096 + i) == page); /* 1 */
    MR_ASSERT(page->busy <= OBJECT_HEADERS_PER_PAGE);                                 /* 4 */
    for (uint32_t i = 0; i < OBJECT_HEADERS_PER_PAGE; i++) {
        MR_ASSERT(page->homes[i] == NULL || page->homes[i]->owner == NULL); /* 3 */
        sums->homes += page->homes[i] != NULL;
    }
    sums->pages++;
}

static void check_files(const store_server *server) {
    uint64_t bytes = 0;
    map_for_each (found, &server->files) {
        const file_book *file = found.value;
        uint32_t index;
        MR_ASSERT(store_server_page(server, found.key, &index) != NULL && file->file < server->next_ticket); /* 5 */
        bytes += file->size;
    }
    MR_ASSERT(bytes == server->stats.spilled_bytes); /* 5 */
    list_for_each (at, &server->moves) {
        const move_book *move = container_of(at, move_book, place);
        MR_ASSERT(move->ticket < server->next_ticket && move->index < OBJECT_HEADERS_PER_PAGE); /* 5 */
        MR_ASSERT(move->into != NULL || list_empty(&move->waiters));                            /* 5 */
    }
}

void store_server_check(const store_server *server) {
    sums sums = {0};
    list_for_each (at, &server->processes) check_process(server, container_of(at, process_book, place), &sums);
    check_orphans(server, &sums);
    list_for_each (at, &server->pages) check_page(server, container_of(at, page_book, place), &sums);
    MR_ASSERT(sums.processes == server->by_id.count && sums.pages * PAGE_KEYS == server->by_page.count); /* 1 */
    MR_ASSERT(sums.stretches == server->stretches.count);                                                /* 2 */
    MR_ASSERT(sums.homes == sums.live);                                                                  /* 3 */
    check_files(server);
    map_for_each (found, &server->kept) {
        uint32_t index;
        MR_ASSERT(store_server_page(server, found.key, &index) != NULL && found.value != NULL); /* 6 */
    }
}
