/* model_server.h — model server actor (mr_model_*): class "miniray.ModelServer", registered in every process with this
 * library.
 *
 * The actor's methods neither wait nor call other processes: the process that requests a sync makes all of its calls
 * (model_sync.c).
 *
 *   get_weights of each worker ──► aggregate ──► set_weights of each worker ──► publish, note
 *
 *   aggregate(flags, owed, began_us, weights…)   does not change the server's model: returns the result for each
 *                                                worker, facts about the sync, and the new model
 *   publish(owed, facts, model, set…)            stores the model as the next version and returns that number; fails if
 *                                                an argument failed. Its future is the caller's
 *   note(flags, facts, nil, set…)                receives errors as values and keeps the first one
 *
 * With MODEL_SERVER_SKIP_DEAD, aggregate and publish receive deaths as values. An error that a worker itself raised is
 * never passed as a value, so that the future has the unchanged error.
 *
 * A sync therefore changes the model completely or not at all, even if processes die: an unpublished sync has no effect
 * on it. The server's process may die at any instant: the node has its state (model_state.h), its calls are sent again
 * to its next process, and a repeated call of `aggregate` gives the same bits. */
#pragma once
#include "train/model_state.h"

#define MODEL_SERVER_CLASS "miniray.ModelServer"

/* Arguments of the creation behind name, momentum and trim: the checkpoint to begin with, the folder for checkpoints
 * ("": none), their interval in seconds, whether a checkpoint there is moved aside. */
enum { MODEL_SERVER_RESTORE = 3, MODEL_SERVER_FOLDER, MODEL_SERVER_EVERY, MODEL_SERVER_SETS_ASIDE };
enum { MODEL_SERVER_SKIP_DEAD = 1 };            /* flags */
enum { MODEL_SERVER_BEFORE_WEIGHTS = 3 };       /* arguments of aggregate before the weights */
enum { MODEL_SERVER_BEFORE_SET = 3 };           /* arguments of publish and note before the results of set_weights */
#define MODEL_SERVER_FACTS(workers)   (workers) /* index among the results of aggregate: after those of the workers */
#define MODEL_SERVER_MODEL(workers)   ((workers) + 1)
#define MODEL_SERVER_RETURNS(workers) ((workers) + 2)
enum { MODEL_SERVER_WORKERS_MAX = MODEL_STATE_WEIGHTS_MAX }; /* of one sync; aggregate returns a value for each */

/* The name of the class. Calling this function makes the linker include the class. */
const char *model_server_class(void);
