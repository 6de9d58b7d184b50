/* opener.h — section decoder: decompresses, decodes and widens the sections of a payload and completes their keys.
 *
 * Values in the needed form are used in place; others are converted into memory of the decoder, which is reused for the
 * next section.
 *
 * A copy of a slot that cannot open what the others can would differ from them. So a server that has no memory for it,
 * or lacks the library of a press, ends with a message (opener_must): that is a fault like any other, and its copies
 * take over. */
#pragma once
#include "kv/shelf/afar.h"

typedef struct opener {        /* zeroed: ready */
    press *presses[PRESS_IDS]; /* owned; NULL: not opened yet */
    const afar_sight *sight;   /* borrowed; NULL: nothing is seen */
    parcel_section unfolded;
    void *body, *values, *keys; /* owned */
    size_t body_room, values_room, keys_room;
} opener;

void opener_fini(opener *opener);

/* The status is MR_OK, or the process ends here and says why. */
void opener_must(mr_status status);

/* Of a section that is pressed, what is in it; of a run its keys; others are given as they are. NULL: it makes no
 * sense. Good until the next call. */
const parcel_section *opener_unfold_any(opener *opener, const parcel_section *section);
static inline const parcel_section *opener_unfold(opener *opener, const parcel_section *section) {
    return (section->flags & (PARCEL_PRESSED | PARCEL_RUN)) == 0 ? section : opener_unfold_any(opener, section);
}

/* The values of a push: `items` numbers, fp32 or, of counters, int64; good until the next call. NULL: these are not as
 * many, no message of a codec, or of another dtype than `dtype`, the table's. */
const void *opener_values(opener *opener, const parcel_section *section, mr_dtype dtype, size_t items);

void opener_widen(mr_dtype dtype, const void *from, size_t count, float *to); /* from MR_F16 or MR_BF16 */

/* How many values a push has for each of its keys, of a section that has keys and is not empty; 0: no whole number. */
size_t opener_dim(const parcel_section *section);
