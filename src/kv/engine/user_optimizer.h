/* user_optimizer.h — optimizers defined by a server program (miniray/ps.h), as optim.h operations. */
#pragma once
#include "kv/engine/engine.h"
#include "miniray/admin.h"

/* app of a worker's query for an optimizer; the answer's head is 1 (present) or 0 */
enum { USER_OPTIMIZER_ASK_APP = -1 };

typedef struct user_optimizer user_optimizer; /* opaque */

/* Copies the list and the names. MR_INVALID: an optimizer is invalid, and the error names it. */
MR_MUST mr_status user_optimizer_create(const mr_ps_optimizer *optimizers, uint32_t count, user_optimizer **out);
void user_optimizer_destroy(user_optimizer *optimizer);
const engine_host *user_optimizer_host(const user_optimizer *optimizer); /* borrowed until user_optimizer_destroy */
bool user_optimizer_has(const user_optimizer *optimizer, const char *name, size_t size);
