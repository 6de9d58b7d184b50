/* name_table.h — the names of tasks and methods that this process uses, each once, with a number.
 *
 * A name travels as text until the other side is known to have it, and as its number from then on (peer_link.h,
 * worker.h). A name may have code, such as the function of another language that it is the name of: the two travel
 * together, and the same text with other code is another name.
 *
 * NAME_TABLE_MAX of them get a number and stay; a program that makes up more has the others as they come, without one.
 * Shared: a name that has no number goes with its last reference. Counted with the context's lock held. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/map.h"
#include "miniray/runtime.h"

enum { NAME_TABLE_MAX = 1024, NAME_TABLE_CACHE = 64 };

typedef struct interned_name {
    uint32_t refs;
    uint32_t number;                 /* 1…NAME_TABLE_MAX; 0: none */
    struct interned_name *next_same; /* of those with the same hash */
    mr_body_fn *task, *method;       /* of this program; NULL: none, or not looked up yet */
    bool task_known, method_known;
    void *kept; /* the body's own: what it made of the code (mr_call_code) */
    span code;  /* lies behind the text; empty: none */
    uint16_t size;
    char text[]; /* ends with a zero */
} interned_name;

typedef struct name_table { /* zero-initialized it is empty and ready */
    map by_hash;            /* of those with a number; owned */
    uint32_t count;
    struct {
        const void *place; /* where the program has it, or its code: the same place mostly holds the same */
        interned_name *name;
    } cache[NAME_TABLE_CACHE];
} name_table;

void name_table_fini(name_table *names);

static inline const void *name_table_place(const char *text, span code) {
    return code.size > 0 ? (const void *)code.data : text;
}
static inline size_t name_table_slot(const void *place) {
    return ((uintptr_t)place ^ (uintptr_t)place >> 8) % NAME_TABLE_CACHE;
}

/* Takes a reference. `size` bytes without zeros, at most WIRE_NAME_MAX of them. NULL: no memory. */
interned_name *name_table_get(name_table *names, const char *text, size_t size, span code);
/* The same for a text that ends with a zero, and code, that the program is likely to use again. */
interned_name *name_table_get_text(name_table *names, const char *text, span code);
static inline interned_name *interned_name_ref(interned_name *name) {
    name->refs++;
    return name;
}
static inline bool interned_name_has_code(const interned_name *name, span code) {
    return name->code.size == code.size && (code.size == 0 || memcmp(name->code.data, code.data, code.size) == 0);
}
/* The same for one that was asked for before, mostly, without a look at the table. NULL: name_table_get_text knows. */
static inline interned_name *name_table_recall(const name_table *names, const char *text, span code) {
    const void *place = name_table_place(text, code);
    size_t slot = name_table_slot(place);
    interned_name *cached = names->cache[slot].place == place ? names->cache[slot].name : NULL;
    return cached != NULL && strcmp(cached->text, text) == 0 && interned_name_has_code(cached, code)
               ? interned_name_ref(cached)
               : NULL;
}
__attribute__((noinline, cold)) void interned_name_free(interned_name *name);
static inline void interned_name_unref(interned_name *name) { /* NULL is a no-op */
    if (name != NULL && --name->refs == 0) interned_name_free(name);
}
