/* own.h — optimizers that a server program defines (miniray/ps.h), as tables use them (optim.h). */
#pragma once
#include "kv/shelf/shelf.h"
#include "miniray/admin.h"

enum { OWN_ASK_APP = -1 }; /* of messages: which of these optimizers do you have? The head is 1 or 0 */

typedef struct own own; /* opaque */

/* Copies the list, and the names. MR_INVALID: which of them cannot be. */
MR_MUST mr_status own_create(const mr_ps_optimizer *optimizers, uint32_t count, own **out);
void own_destroy(own *own);
const shelf_host *own_host(const own *own); /* borrowed for its life */
bool own_has(const own *own, const char *name, size_t size);

/* Do all servers that are here have what this option of a table names? MR_NOT_FOUND: one does not, and the error says
 * which. MR_OK, too, if it is not one's own. */
MR_MUST mr_status own_ask(mr_ps *ps, const char *optimizer, int64_t timeout_us);
