/* names.h — the names of tasks and methods that this process uses, each once, with a number.
 *
 * A name travels as text until the other side is known to have it, and as its number from then on (route.h, worker.h).
 * NAMES_MAX of them get a number and stay; a program that makes up more has the others as they come, without one.
 * Shared: a name that has no number goes with its last reference. Counted with the context's lock held. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/map.h"
#include "miniray/runtime.h"

enum { NAMES_MAX = 1024, NAMES_CACHE = 64 };

typedef struct name {
    uint32_t refs;
    uint32_t number;        /* 1…NAMES_MAX; 0: none */
    struct name *next_same; /* of those with the same hash */
    uint64_t hash;
    mr_body_fn *task, *method; /* of this program; NULL: none, or not looked up yet */
    bool task_known, method_known;
    uint16_t size;
    char text[]; /* ends with a zero */
} name;

typedef struct names { /* zero-initialized it is empty and ready */
    map by_hash;       /* of those with a number; owned */
    uint32_t count;
    struct {
        const char *text; /* where the program has it: the same place mostly holds the same text */
        name *name;
    } cache[NAMES_CACHE];
} names;

void names_fini(names *names);

static inline size_t names_slot(const char *text) { return ((uintptr_t)text ^ (uintptr_t)text >> 8) % NAMES_CACHE; }

/* Takes a reference. `size` bytes without zeros, at most WIRE_NAME_MAX of them. NULL: no memory. */
name *names_get(names *names, const char *text, size_t size);
/* The same for a text that ends with a zero and that the program is likely to use again. */
name *names_get_text(names *names, const char *text);
static inline name *name_ref(name *name) {
    name->refs++;
    return name;
}
/* The same for one that was asked for before, mostly, without a look at the table. NULL: names_get_text knows. */
static inline name *names_recall(const names *names, const char *text) {
    size_t slot = names_slot(text);
    name *cached = names->cache[slot].text == text ? names->cache[slot].name : NULL;
    return cached != NULL && strcmp(cached->text, text) == 0 ? name_ref(cached) : NULL;
}
void name_free(name *name);
static inline void name_unref(name *name) { /* NULL is a no-op */
    if (name != NULL && --name->refs == 0) name_free(name);
}
