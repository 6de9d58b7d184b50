/* id.h — who is who: 64-bit numbers, each kind a type of its own, so that two kinds never mix.
 *
 *     process_id id = process_id_random(env->rng);
 *     char text[ID_TEXT_SIZE];
 *     log_info("process %s joined", process_id_text(id, text));
 *
 * An id is drawn at random and never 0, which means none. With a billion ids alive the chance that any two are equal is
 * below 3 %; with a million it is below 1 in 30 million. As text it is always 16 lower-case hexadecimal digits, and
 * nothing else is taken back: an id has one spelling. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "miniray/status.h"

enum { ID_TEXT_SIZE = 17 }; /* with its end */

/* What all kinds share. */
uint64_t id_random(rng *rng);
const char *id_text(uint64_t id, char out[ID_TEXT_SIZE]);                      /* gives `out` back */
MR_MUST mr_status id_parse(const char *text, const char *what, uint64_t *out); /* MR_INVALID, and says what `what` is */

#define ID_TYPE(name, what)                                                                               \
    typedef struct name { /* v == 0: none */                                                              \
        uint64_t v;                                                                                       \
    } name;                                                                                               \
    static inline name name##_random(rng *rng) { return (name){id_random(rng)}; }                         \
    static inline bool name##_equal(name a, name b) { return a.v == b.v; }                                \
    static inline bool name##_is_none(name id) { return id.v == 0; }                                      \
    static inline const char *name##_text(name id, char out[ID_TEXT_SIZE]) { return id_text(id.v, out); } \
    static inline MR_MUST mr_status name##_parse(const char *text, name *out) { return id_parse(text, what, &out->v); }

ID_TYPE(node_id, "node id")       /* a machine's node, from its start to its end */
ID_TYPE(process_id, "process id") /* a process of the cluster; not the system's pid, which comes back */
