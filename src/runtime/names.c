/* names.c — see names.h. */
#include "runtime/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"

static uint64_t hash_of(const char *text, size_t size, span code) {
    return hash_on(hash_on(HASH_BEGIN, text, size), code.data, code.size);
}

static name *create(names *names, const char *text, size_t size, span code, uint64_t hash) {
    name *made;
    if (alloc_try(sizeof(name) + size + 1 + code.size, &made) != MR_OK) return NULL;
    *made = (name){.refs = 1, .size = (uint16_t)size};
    memcpy(made->text, text, size);
    made->text[size] = '\0';
    if (code.size > 0) {
        made->code = span_of(made->text + size + 1, code.size);
        memcpy(made->text + size + 1, code.data, code.size);
    }
    if (names->count == NAMES_MAX || map_reserve(&names->by_hash, 1) != MR_OK) return made;
    made->number = ++names->count;
    made->refs++; /* the table's */
    made->next_same = map_put(&names->by_hash, hash, made);
    return made;
}

name *names_get(names *names, const char *text, size_t size, span code) {
    MR_ASSERT(size <= UINT16_MAX);
    uint64_t hash = hash_of(text, size, code);
    for (name *at = map_get(&names->by_hash, hash); at != NULL; at = at->next_same)
        if (at->size == size && memcmp(at->text, text, size) == 0 && name_has_code(at, code)) return name_ref(at);
    return create(names, text, size, code, hash);
}

name *names_get_text(names *names, const char *text, span code) {
    name *found = names_recall(names, text, code);
    if (found != NULL) return found;
    found = names_get(names, text, strlen(text), code);
    if (found != NULL && found->number != 0) { /* those stay */
        const void *place = names_place(text, code);
        size_t slot = names_slot(place);
        names->cache[slot].place = place;
        names->cache[slot].name = found;
    }
    return found;
}

void name_free(name *name) { free(name); }

void names_fini(names *names) {
    map_for_each (slot, &names->by_hash) {
        for (name *name = slot.value; name != NULL;) {
            struct name *next = name->next_same;
            name_unref(name);
            name = next;
        }
    }
    map_fini(&names->by_hash);
}
