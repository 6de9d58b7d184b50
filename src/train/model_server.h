/* model_server.h — model server actor (mr_model_*): class "miniray.ModelServer", which every process with this library
 * has.
 *
 * The actor never waits inside a method and calls no other process: the process that asks for a sync makes all its
 * calls (model_sync.c).
 *
 *   get_weights of each ──► aggregate ──► set_weights of each ──► publish, note
 *
 *   aggregate(flags, owed, began_us, weights…)   reads the model, changes nothing: returns the result of each worker,
 *                                                facts about the sync, and the new model
 *   publish(owed, facts, model, set…)            makes the model the next version, which it returns; fails as its
 *                                                arguments do: the caller's future
 *   note(flags, facts, nil, set…)                errors come as values: keeps the first one
 *
 * With MODEL_SERVER_SKIP_DEAD, aggregate and publish get deaths as values; an error that a worker itself raised never
 * comes as a value, so that the future has the unchanged error.
 *
 * So a sync is in the model as a whole or not at all, even if processes die meanwhile: an unpublished sync has no
 * effect. */
#pragma once

#define MODEL_SERVER_CLASS "miniray.ModelServer"

enum { MODEL_SERVER_SKIP_DEAD = 1 };            /* flags */
enum { MODEL_SERVER_BEFORE_WEIGHTS = 3 };       /* arguments of aggregate before the workers' */
enum { MODEL_SERVER_BEFORE_SET = 3 };           /* of publish and note before the results of set_weights */
#define MODEL_SERVER_FACTS(workers)   (workers) /* values of aggregate behind those for the workers */
#define MODEL_SERVER_MODEL(workers)   ((workers) + 1)
#define MODEL_SERVER_RETURNS(workers) ((workers) + 2)
enum { MODEL_SERVER_WORKERS_MAX = 64 * 1024 }; /* of one sync: each is a value that a call returns */

/* For the linker: a caller that uses the class links it. */
const char *model_server_class(void);
