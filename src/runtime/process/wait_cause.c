/* wait_cause.c — see wait_cause.h. Tested by tests/inspect_test.c. */
#include "runtime/process/wait_cause.h"

#include <stdio.h>
#include <string.h>

#include "base/elide.h"
#include "runtime/process/inspect_api.h"

enum { CAUSE_MAX = 240, MAKER_MAX = 120 };

/* The search for the cause. The thread counts as one that waits, so the context is not closed meanwhile. */
static void find_cause(mr_context *mr, mr_ref ref, int64_t timeout_us, char out[CAUSE_MAX]) {
    mr_inspect inspect = inspect_api_borrow(mr, clock_now_us(mr->env.clock) + timeout_us);
    report_id id = {.letter = 'o', .process = REPORT_PROCESS(ref.word[0]), .serial = ref.word[1]};
    mr->waiting++;
    context_unlock(mr);
    inspect_why_line(&inspect, &id, out, CAUSE_MAX);
    context_lock(mr);
    mr->waiting--;
}

void wait_cause_write(mr_context *mr, object *object, int64_t search_us, char out[WAIT_CAUSE_TEXT_MAX]) {
    char whole[INVOCATION_MAKER_MAX], maker[MAKER_MAX], cause[CAUSE_MAX] = "";
    const mr_ref ref = object->ref;
    invocation_maker(object, whole);
    elide(whole, strlen(whole), maker, sizeof maker);
    object_hold(object);
    if (search_us > 0 && mr->worker.over == NULL) find_cause(mr, ref, search_us, cause);
    object_drop(&mr->worker.objects, object);
    snprintf(out, WAIT_CAUSE_TEXT_MAX, "%s (object " OBJECT_ID ")%s%s; `miniray why " OBJECT_ID "` shows %s", maker,
             OBJECT_ID_OF(ref), cause[0] == '\0' ? "" : "; cause: ", cause, OBJECT_ID_OF(ref),
             cause[0] == '\0' ? "what it waits for" : "more");
}

mr_status wait_cause_timed_out(mr_context *mr, object *object, int64_t timeout_us) {
    char text[WAIT_CAUSE_TEXT_MAX];
    wait_cause_write(mr, object, timeout_us < WAIT_CAUSE_US ? 0 : WAIT_CAUSE_US, text);
    return error_set(MR_TIMEOUT, "timed out after %.3g s waiting for %s", (double)timeout_us / 1e6, text);
}
