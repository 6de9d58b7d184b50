/* metadata_local.h — metadata store client for a store in the same process.
 *
 * Requests wait in a queue until the next tick, which is due at once; so `done` is never called from within an
 * operation.
 *
 * Bounds  METADATA_LOCAL_OPEN_MAX requests are pending; one more ends with MR_BUSY at the next tick.
 * Ownership   the metadata store is borrowed for the client's life; keys and values of requests are copied. */
#pragma once
#include "cluster/metadata_service.h"

enum { METADATA_LOCAL_OPEN_MAX = 1024 };

typedef struct metadata_local metadata_local;

metadata_local *metadata_local_create(metadata_db *db);
void metadata_local_destroy(metadata_local *local); /* ends pending requests with MR_CLOSED */

metadata_store metadata_local_metadata(metadata_local *local);
int64_t metadata_local_next_us(const metadata_local *local);
void metadata_local_tick(metadata_local *local, int64_t now_us);
