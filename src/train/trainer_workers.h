/* trainer_workers.h — actor workers of a trainer, and the model server that they sync through: the operations of a
 * trainer (miniray/train.h) for a program in C.
 *
 * Ownership  the actors are its own: released by trainer_workers_destroy, and when they are made again. */
#pragma once
#include <stdbool.h>

#include "miniray/train.h"

typedef struct trainer_workers {
    mr_context *mr;                    /* borrowed */
    const mr_trainer_options *options; /* borrowed */
    mr_actor server;                   /* owned if has_server */
    bool has_server;
    size_t made;       /* actors that there are: the first ones */
    mr_actor actors[]; /* owned */
} trainer_workers;

extern const mr_trainer_ops trainer_workers_ops; /* their user is a trainer_workers */

/* borrowed */
MR_MUST mr_status trainer_workers_create(mr_context *mr, const mr_trainer_options *options, trainer_workers **out);
/* NULL: a no-op */
void trainer_workers_destroy(trainer_workers *workers);
