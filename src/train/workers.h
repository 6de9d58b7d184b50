/* workers.h — actor workers of a trainer, and the model server that they sync through: the operations of a trainer
 * (miniray/train.h) for a program in C.
 *
 * Ownership   the actors are its own: released by workers_destroy, and when they are made again. */
#pragma once
#include "miniray/train.h"

typedef struct workers workers;

extern const mr_trainer_ops workers_ops; /* their user is a workers */

MR_MUST mr_status workers_create(mr_context *mr, const mr_trainer_options *options, workers **out); /* borrowed */
void workers_destroy(workers *workers);                                                             /* NULL: a no-op */

void workers_lost(workers *workers); /* the context was shut down */

mr_actor workers_actor(const workers *workers, size_t worker);
mr_actor workers_server(const workers *workers);
