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
void sync_fixture_add(mr_actor worker, double value); /* a step of training: its method `add` */
/* arms a failpoint in its process, by its method `arm`, which is: */
void sync_fixture_arm(mr_actor actor, const char *point);
mr_status sync_fixture_arm_method(mr_call *call);

/* Steps and syncs (`sync`, which does not wait) of a new team whose strategy is max, and whose workers have 0, 10 and
 * 20. The result equals that of the same program in one process: a step that comes too late for its sync, or too early
 * for the one before, is lost or counted twice, and gives another number. */
enum { SYNC_FIXTURE_ROUNDS = 20 };
void sync_fixture_check_order(const sync_fixture *fixture, void (*sync)(const struct sync_fixture *fixture));
