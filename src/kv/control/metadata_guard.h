/* metadata_guard.h — values of the scheduler's metadata store that other processes may write: the training data's
 * shards, and incarnations, each in its format. The scheduler itself decides the cluster map, the tables, the readers
 * of the data, barriers and stops, so a change of those by a message is forged. Pure. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

/* MR_DENIED: not a key that other processes write. MR_CORRUPT: a value that this version cannot read. */
MR_MUST mr_status metadata_guard_check(span key, span value);
