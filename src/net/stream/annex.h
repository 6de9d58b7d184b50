/* annex.h — larger second ring of one direction of a shm pipe (duct.h): memory that its writer makes and its reader
 * maps.
 *
 * A sealed memfd of ANNEX_CAPACITY bytes, nothing but bytes. Its writer backs it before it writes there: memory that is
 * not to be had is an answer then, and no signal. An annex that has not been used for long rests: its pages go back,
 * both keep their maps, and it is backed again when it is needed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

enum { ANNEX_CAPACITY = 8 << 20 };

typedef struct annex {
    uint8_t *bytes; /* mapped, by its reader only to be read; NULL: there is none, as in zeroed memory */
    int fd;         /* its writer's, owned; -1 */
    bool backed;    /* its writer's: its pages are there */
} annex;

/* Backed. MR_NOMEM, MR_IO: there can be none */
MR_MUST mr_status annex_create(annex *out);
/* What the writer passed; fd is not kept. MR_CORRUPT: it is no annex. MR_IO: it cannot be mapped. */
MR_MUST mr_status annex_join(int fd, annex *out);
void annex_close(annex *annex);

/* For its writer. */
MR_MUST mr_status annex_back(annex *annex); /* MR_NOMEM, MR_IO: it is as it was */
void annex_rest(annex *annex);              /* what lies in it is gone */
