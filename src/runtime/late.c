/* late.c — see late.h. */
#include "runtime/late.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/wire.h"

typedef struct answer {
    list place;
    call_token token;
    bundle *values;
} answer;

void late_init(late *late) { list_init(&late->answers); }

static void drop(answer *answer) {
    list_remove(&answer->place);
    bundle_unref(answer->values);
    free(answer);
}

void late_fini(late *late) {
    while (!list_empty(&late->answers)) drop(container_of(late->answers.next, answer, place));
}

void late_answer(late *late, calls *calls, call_token token, bundle *values) {
    if (wire_answer_values(calls, token, values) != MR_BUSY) {
        bundle_unref(values);
        return;
    }
    answer *kept = XNEW(answer, .token = token, .values = values);
    list_push_back(&late->answers, &kept->place);
}

/* Each of them may be on a link of its own. */
void late_room(late *late, calls *calls) {
    list_for_each (at, &late->answers) {
        answer *answer = container_of(at, struct answer, place);
        if (wire_answer_values(calls, answer->token, answer->values) != MR_BUSY) drop(answer);
    }
}
