/* late.h — queue of answers with values for which the transport had no room: sent in order on on_room. */
#pragma once
#include "base/list.h"
#include "net/call.h"
#include "runtime/refs/bundle.h"

typedef struct late { /* of one `calls` object */
    list answers;
} late;

void late_init(late *late);
void late_fini(late *late);
/* Answers now or later. The reference to the bundle is taken over. */
void late_answer(late *late, calls *calls, call_token token, bundle *values);
void late_room(late *late, calls *calls);
