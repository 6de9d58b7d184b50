/* object_listing.h — the node's statistics of the objects of its machine. */
#pragma once
#include "miniray/runtime.h"
#include "runtime/node/node_store.h"

/* Statistics after a collection; aborts if the node does not answer. */
node_store_stats object_listing_of(mr_context *mr);
/* Waits until at most `objects` objects are left, and none is being spilled or restored; false after 10 s, with a
 * message. */
bool object_listing_settles(mr_context *mr, unsigned objects);

size_t object_listing_here(mr_context *mr); /* records of futures in this process */
/* Waits until this process has no such record and the store no object; false as above. */
bool object_listing_empties(mr_context *mr);
