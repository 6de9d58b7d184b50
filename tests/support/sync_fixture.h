/* sync_fixture.h — a model server and its workers, for tests of syncs that share one runtime (runtime_main.h). */
#pragma once
#include "miniray/model.h"

enum { SYNC_FIXTURE_WORKERS = 3 };

typedef struct sync_fixture {
    mr_actor server, workers[SYNC_FIXTURE_WORKERS];
} sync_fixture;

mr_actor sync_fixture_server(const char *strategy); /* the caller releases it */
void sync_fixture_dismiss(const sync_fixture *fixture);
double sync_fixture_value(mr_actor worker);           /* result of its method `value` */
void sync_fixture_add(mr_actor worker, double value); /* calls the worker's method `add`, a step of training */
/* arms a failpoint in the actor's process, by the actor's method `arm`, which is: */
void sync_fixture_arm(mr_actor actor, const char *point);
mr_status sync_fixture_arm_method(mr_call *call);

/* Runs steps and syncs (`sync`, which does not wait) of a new team with strategy max, whose workers have 0, 10 and 20.
 * The result equals that of the same program in one process. A step that is too late for its sync, or too early for the
 * previous one, is lost or counted twice, and changes the result. */
enum { SYNC_FIXTURE_ROUNDS = 20 };
void sync_fixture_check_order(const sync_fixture *fixture, void (*sync)(const struct sync_fixture *fixture));
