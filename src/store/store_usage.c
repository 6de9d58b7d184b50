/* store_usage.c — usage of the store by process, as text for errors about full memory. The numbers may be outdated when
 * they are printed. Processes have the names of the node's reports: the lower half of their ids. */
#include <inttypes.h>
#include <stdio.h>

#include "base/plural.h"
#include "store/server_internal.h"

enum { HOLDERS_TOLD = 3 };

typedef struct holder {
    uint64_t process; /* id; 0: the store server itself */
    uint64_t bytes;
    uint32_t objects;
} holder;

static bool in_memory(object_header_state state) {
    return state == OBJECT_HEADER_SEALED || state == OBJECT_HEADER_SPILLING;
}

static void add_slot(const store_server *server, uint64_t at, holder *holder) {
    uint32_t index;
    const page_book *page = at == 0 ? NULL : store_server_page(server, at, &index);
    if (page == NULL) return;
    const object_header *header = page_slot(server, page, index);
    if (!in_memory(object_word_state(object_header_read(header)))) return;
    holder->bytes += atomic_load(&header->size);
    holder->objects++;
}

static void add_entries(const store_server *server, const hold_entry *entries, size_t count, holder *holder) {
    for (size_t i = 0; i < count; i++)
        add_slot(server, hold_slot(atomic_load_explicit(&entries[i], memory_order_relaxed)), holder);
}

/* Inserts `found` into the sorted list of the processes that hold the most bytes. */
static void rank(holder *most, holder found) {
    for (int i = 0; i < HOLDERS_TOLD; i++) {
        if (found.bytes <= most[i].bytes) continue;
        holder less = most[i];
        most[i] = found;
        found = less;
    }
}

void store_server_holders_text(store_server *server, char *out, size_t size) {
    holder most[HOLDERS_TOLD] = {{0}}, own = {0};
    map_for_each (kept, &server->kept) add_slot(server, kept.key, &own);
    rank(most, own);
    list_for_each (at, &server->processes) {
        process_book *process = container_of(at, process_book, place);
        holder found = {.process = process->id};
        add_entries(server, page_of(server, process)->entries, PROCESS_PAGE_ENTRIES, &found);
        list_for_each (more, &process->chunks)
            add_entries(server, arena_at(server->arena, container_of(more, chunk_book, place)->extent.offset),
                        CHUNK_ENTRIES, &found);
        rank(most, found);
    }
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < HOLDERS_TOLD && most[i].objects > 0 && used < size; i++) {
        char who[32] = "actors to be created again";
        if (most[i].process != 0) snprintf(who, sizeof who, "p%u", (uint32_t)most[i].process);
        used += (size_t)snprintf(out + used, size - used, "%s%s: %" PRIu64 " bytes in %u object%s",
                                 i == 0 ? " (" : ", ", who, most[i].bytes, most[i].objects, plural(most[i].objects));
    }
    if (used > 0 && used < size) snprintf(out + used, size - used, ")");
}
