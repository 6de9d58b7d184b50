/* trainer_workers.h — actor workers of a trainer, and the model server that they sync through: the operations of a
 * trainer (miniray/train.h) for a program in C.
 *
 * Ownership  the actors are its own: released by trainer_workers_destroy, and when they are made again. */
#pragma once
#include "miniray/train.h"

typedef struct trainer_workers trainer_workers;

extern const mr_trainer_ops trainer_workers_ops; /* their user is a workers */

/* borrowed */
MR_MUST mr_status trainer_workers_create(mr_context *mr, const mr_trainer_options *options, trainer_workers **out);
/* NULL: a no-op */
void trainer_workers_destroy(trainer_workers *workers);

void trainer_workers_lost(trainer_workers *workers); /* the context was shut down */

mr_actor trainer_workers_actor(const trainer_workers *workers, size_t worker);
mr_actor trainer_workers_server(const trainer_workers *workers);
