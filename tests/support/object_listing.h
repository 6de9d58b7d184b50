/* object_listing.h — the node's statistics of the objects of its machine. */
#pragma once
#include "miniray/runtime.h"
#include "runtime/node/node_store.h"

node_store_stats object_listing_of(mr_context *mr); /* now, after a collection; aborts if the node does not answer */
/* Waits until at most `objects` are left, and nothing is on its way to or from disk; false after 10 s, which is said.
 */
bool object_listing_settles(mr_context *mr, unsigned objects);

size_t object_listing_here(mr_context *mr);  /* records of futures in this process */
bool object_listing_empties(mr_context *mr); /* waits until there are none, here and in the store; else as above */
