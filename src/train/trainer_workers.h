/* trainer_workers.h — operations of a trainer (miniray/train.h) whose workers are actors of a class, with the model
 * server through which they sync.
 *
 * Ownership  a trainer_workers owns the actors: trainer_workers_destroy releases them, and so does a replacement. */
#pragma once
#include <stdbool.h>

#include "miniray/train.h"

typedef struct trainer_workers {
    mr_context *mr;                    /* borrowed */
    const mr_trainer_options *options; /* borrowed */
    mr_actor server;                   /* owned if has_server */
    bool has_server;
    size_t made;       /* number of actors created */
    mr_actor actors[]; /* owned */
} trainer_workers;

extern const mr_trainer_ops trainer_workers_ops; /* the parameter `user` is a trainer_workers */

/* The options are borrowed until trainer_workers_destroy. */
MR_MUST mr_status trainer_workers_create(mr_context *mr, const mr_trainer_options *options, trainer_workers **out);
/* Ends the actors; NULL: a no-op. */
void trainer_workers_destroy(trainer_workers *workers);
