/* metadata_service.h — metadata service: requests to the metadata store arrive as control messages, responses leave at
 * once or later.
 *
 * Every request is answered at once, except a WATCH of a version that is still the newest: it waits until a change
 * answers it, or METADATA_SERVICE_WATCH_US have passed (MR_TIMEOUT). Waiting requests are lost with the process; their
 * senders time out and repeat them.
 *
 *   request ──► answered
 *      └─ WATCH, nothing newer ──► waits ── a change, or time ──► answered
 *
 * Invariants (metadata_service_check)
 *  1  Every watch that waits has a key and a deadline; there are at most METADATA_SERVICE_WAITING_MAX of them.
 *   2  After a request and after a tick no watch waits for a version that is there.
 *
 * Bounds  METADATA_SERVICE_WAITING_MAX watches wait; one more is answered MR_BUSY.
 * Ownership   the metadata store is borrowed for the service's life. */
#pragma once
#include "cluster/metadata_db.h"
#include "net/transport.h"

enum { METADATA_SERVICE_WAITING_MAX = 1024 };
#define METADATA_SERVICE_WATCH_US INT64_C(4000000)

typedef struct metadata_service metadata_service;

/* Sends the answer to a request from `link`; `answer` is borrowed for the call. The function must not call the
 * service. */
typedef void metadata_service_answer_fn(void *context, link_id link, const control_message *answer);

metadata_service *metadata_service_create(metadata_db *db, metadata_service_answer_fn *answer, void *context);
void metadata_service_destroy(metadata_service *service); /* waiting requests are not answered */

/* false: the message is not for a metadata store */
bool metadata_service_take(metadata_service *service, link_id link, const control_message *message, int64_t now_us);
int64_t metadata_service_next_us(const metadata_service *service);
void metadata_service_tick(metadata_service *service, int64_t now_us);

void metadata_service_check(const metadata_service *service); /* asserts the invariants above (base/invariants.h) */
