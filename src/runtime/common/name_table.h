/* name_table.h — interned names of tasks and methods that this process uses, each with a number.
 *
 * A name is sent as text until the peer is known to have it, and as its number from then on (peer_link.h, worker.h). A
 * name may have code, such as the function of another language that it denotes: both are sent together, and the same
 * text with other code is another name.
 *
 * The first NAME_TABLE_MAX names get a number and are never freed; further names have no number. Shared: a name without
 * a number is freed with its last reference. References are counted with the context's lock held. */
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
    struct interned_name *next_same; /* next name with the same hash */
    mr_body_fn *task, *method;       /* bodies in this program; NULL: none, or not looked up yet */
    bool task_known, method_known;
    void *kept; /* the body's own data made from the code (mr_call_code) */
    span code;  /* lies behind the text; empty: none */
    uint16_t size;
    char text[]; /* ends with a zero */
} interned_name;

typedef struct name_table { /* zero-initialized it is empty and ready */
    map by_hash;            /* of names with a number; owned */
    uint32_t count;
    struct {
        const void *place; /* address of the program's text or code: an equal address usually means an equal name */
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
/* The same for a zero-terminated text, and code, that the program is likely to use again. */
interned_name *name_table_get_text(name_table *names, const char *text, span code);
static inline interned_name *interned_name_ref(interned_name *name) {
    name->refs++;
    return name;
}
static inline bool interned_name_has_code(const interned_name *name, span code) {
    return name->code.size == code.size && (code.size == 0 || memcmp(name->code.data, code.data, code.size) == 0);
}
/* The same for a recently used name, without a search of the table. NULL: use name_table_get_text. */
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
