/* metadata_remote.h — metadata store client for a store in another process, over control messages.
 *
 * Each request is sent once. A request without an answer in time ends with MR_TIMEOUT, and whether a swap happened is
 * not known; the caller finds out with get. So a request needs no memory at the metadata store, and a duplicated
 * control message does no harm: the second swap finds its version taken. */
#pragma once
#include "cluster/control_message.h"
#include "cluster/messenger.h"
#include "cluster/metadata_store.h"

#define METADATA_REMOTE_TIMEOUT_US INT64_C(500000)
#define METADATA_REMOTE_WATCH_US   INT64_C(5000000) /* longer than METADATA_SERVICE_WATCH_US */

typedef struct metadata_remote metadata_remote;

/* env and messenger are borrowed for the client's life; the address is copied */
metadata_remote *metadata_remote_create(const env *env, messenger *messenger, const char *address);
void metadata_remote_destroy(metadata_remote *remote); /* ends pending requests with MR_CLOSED */

metadata_store metadata_remote_metadata(metadata_remote *remote);
/* true: the message was an answer, and is handled */
bool metadata_remote_take(metadata_remote *remote, const control_message *message);
int64_t metadata_remote_next_us(const metadata_remote *remote);
void metadata_remote_tick(metadata_remote *remote, int64_t now_us);
