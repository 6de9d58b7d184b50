/* user_optimizer.h — optimizers that a server program defines (miniray/ps.h), as tables use them (optim.h). */
#pragma once
#include "kv/engine/engine.h"
#include "miniray/admin.h"

enum { USER_OPTIMIZER_ASK_APP = -1 }; /* app that asks a server for these optimizers; the answer's head is 1 or 0 */

typedef struct user_optimizer user_optimizer; /* opaque */

/* Copies the list, and the names. MR_INVALID: one of them is not possible, and the error names it. */
MR_MUST mr_status user_optimizer_create(const mr_ps_optimizer *optimizers, uint32_t count, user_optimizer **out);
void user_optimizer_destroy(user_optimizer *optimizer);
const engine_host *user_optimizer_host(const user_optimizer *optimizer); /* borrowed for its life */
bool user_optimizer_has(const user_optimizer *optimizer, const char *name, size_t size);

/* Checks that all present servers have the optimizer that this table option names. MR_NOT_FOUND: one does not, and the
 * error says which. MR_OK, too, if the optimizer is built in. */
MR_MUST mr_status user_optimizer_ask(mr_ps *ps, const char *optimizer, int64_t timeout_us);
