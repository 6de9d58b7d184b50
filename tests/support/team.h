/* team.h — a model server and its workers, for tests of syncs that share one runtime (runtime_main.h). */
#pragma once
#include "miniray/model.h"

enum { TEAM_WORKERS = 3 };

typedef struct team {
    mr_actor server, workers[TEAM_WORKERS];
} team;

mr_actor team_server(const char *strategy); /* the caller's to release */
void team_dismiss(const team *team);
double team_value(mr_actor worker); /* what its method `value` gives */
