/* metadata_local.h — metadata store client for a store in the same process.
 *
 * Requests wait in a queue until the next tick, which is due at once; so `done` never comes from within a slot.
 *
 * Bounds  METADATA_LOCAL_OPEN_MAX requests are open; one more ends with MR_BUSY at the next tick.
 * Ownership   the metadata store is borrowed for its life; keys and values that are asked for are copied. */
#pragma once
#include "cluster/metadata_service.h"

enum { METADATA_LOCAL_OPEN_MAX = 1024 };

typedef struct metadata_local metadata_local;

metadata_local *metadata_local_create(metadata_db *db);
void metadata_local_destroy(metadata_local *local); /* ends open requests with MR_CLOSED */

metadata_store metadata_local_metadata(metadata_local *local);
int64_t metadata_local_next_us(const metadata_local *local);
void metadata_local_tick(metadata_local *local, int64_t now_us);
