/* team.h — a model server and its workers, for tests of syncs that share one runtime (runtime_main.h). */
#pragma once
#include "miniray/model.h"

enum { TEAM_WORKERS = 3 };

typedef struct team {
    mr_actor server, workers[TEAM_WORKERS];
} team;

mr_actor team_server(const char *strategy); /* the caller's to release */
void team_dismiss(const team *team);
double team_value(mr_actor worker);               /* what its method `value` gives */
void team_add(mr_actor worker, double value);     /* a step of training: its method `add` */
void team_arm(mr_actor actor, const char *point); /* a failpoint of its process, by its method `arm`, which is: */
mr_status team_arm_method(mr_call *call);

/* Steps and syncs (`sync`, which waits for nothing) of a fresh team whose strategy is max, and whose workers have 0, 10
 * and 20. What comes out is what the same program gives in one process: a step that came too late for its sync, or too
 * early for the one before, is lost or counted twice, and gives another number. */
enum { TEAM_ROUNDS = 20 };
void team_check_order(const team *team, void (*sync)(const struct team *team));
