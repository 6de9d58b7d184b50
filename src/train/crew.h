/* crew.h — thread pool: a few threads that share one piece of work at a time.
 *
 *     crew_run(crew, average_some, &job);   every member and the caller run average_some(&job), then crew_run returns
 *
 * The function divides the work itself, usually by taking numbers from an atomic counter until there are no more: a
 * member that is late or slow takes fewer. Work whose result does not depend on who does which part has the same result
 * with any number of members, also with none (a crew of one is the caller alone and costs nothing).
 *
 * Members sleep between runs. They block every signal, so that the program's own threads get those.
 *
 *     asleep ── round changes ──► working ── the last one wakes the caller ──► asleep
 *
 * Threads   crew_run by one thread at a time. */
#pragma once
#include <stddef.h>

#include "miniray/status.h"

typedef struct crew crew;

/* `size` counts the caller; 0: as many as this process may use CPUs. A thread that does not start is done without. */
MR_MUST mr_status crew_create(size_t size, crew **out);
void crew_destroy(crew *crew); /* NULL is fine */

size_t crew_size(const crew *crew); /* with the caller; 1 for NULL */

typedef void crew_fn(void *job);
void crew_run(crew *crew, crew_fn *fn, void *job); /* NULL: the caller alone */
