/* team.c — see team.h. */
#include "tests/support/team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/result.h"
#include "tests/support/runtime_main.h"

mr_actor team_server(const char *strategy) {
    mr_actor server;
    assert_int_equal(mr_model_server_create(mr, &(mr_strategy){.name = strategy}, NULL, &server), MR_OK);
    return server;
}

void team_dismiss(const team *team) {
    for (int w = 0; w < TEAM_WORKERS; w++) mr_actor_release(mr, team->workers[w]);
    mr_actor_release(mr, team->server);
}

double team_value(mr_actor worker) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, worker, "value", &ref), MR_OK);
    return result_float(mr, ref);
}
