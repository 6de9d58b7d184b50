/* name_table.c — see name_table.h. */
#include "runtime/common/name_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"

static uint64_t hash_of(const char *text, size_t size, span code) {
    return hash_on(hash_on(HASH_BEGIN, text, size), code.data, code.size);
}

static interned_name *create(name_table *names, const char *text, size_t size, span code, uint64_t hash) {
    interned_name *made;
    if (alloc_try(sizeof(interned_name) + size + 1 + code.size, &made) != MR_OK) return NULL;
    *made = (interned_name){.refs = 1, .size = (uint16_t)size};
    memcpy(made->text, text, size);
    made->text[size] = '\0';
    if (code.size > 0) {
        made->code = span_of(made->text + size + 1, code.size);
        memcpy(made->text + size + 1, code.data, code.size);
    }
    if (names->count == NAME_TABLE_MAX || map_reserve(&names->by_hash, 1) != MR_OK) return made;
    made->number = ++names->count;
    made->refs++; /* the reference of the table */
    made->next_same = map_put(&names->by_hash, hash, made);
    return made;
}

interned_name *name_table_get(name_table *names, const char *text, size_t size, span code) {
    MR_ASSERT(size <= UINT16_MAX);
    uint64_t hash = hash_of(text, size, code);
    for (interned_name *at = map_get(&names->by_hash, hash); at != NULL; at = at->next_same)
        if (at->size == size && memcmp(at->text, text, size) == 0 && interned_name_has_code(at, code))
            return interned_name_ref(at);
    return create(names, text, size, code, hash);
}

interned_name *name_table_get_text(name_table *names, const char *text, span code) {
    interned_name *found = name_table_recall(names, text, code);
    if (found != NULL) return found;
    found = name_table_get(names, text, strlen(text), code);
    if (found != NULL && found->number != 0) { /* names with a number are never freed */
        const void *place = name_table_place(text, code);
        size_t slot = name_table_slot(place);
        names->cache[slot].place = place;
        names->cache[slot].name = found;
    }
    return found;
}

void interned_name_free(interned_name *name) { free(name); }

void name_table_fini(name_table *names) {
    map_for_each (slot, &names->by_hash) {
        for (interned_name *name = slot.value; name != NULL;) {
            struct interned_name *next = name->next_same;
            interned_name_unref(name);
            name = next;
        }
    }
    map_fini(&names->by_hash);
}
