/* overview.h — encoding of the overview of tables and checkpoints (mr_ps_overview_get).
 *
 *   bytes        content
 *   -----------  ------------------------------------------------------------------------------------------
 *   8 8 8 1      newest complete checkpoint, its time, interval of checkpoints; whether one is under way
 *   8 1          time of the last failed checkpoint; whether they still fail
 *   8            start of the stall
 *   4 + n …      folder, error, stall, remedy: texts
 *   4 4          servers that have reported table sizes, servers
 *   4            tables; each:
 *   1 1 4 4      kind, dtype, dim, arrays
 *   8 8 8        rows, bytes, left out
 *   1 + n …      name, optimizer, codec, consistency
 *   4 4 8 8 8 8  data: shards, finished ones, epoch, items, claimed ones, returned ones
 *   4 4          workers that want data, holders; each: 4 4 8 rank, shards, items
 *
 * An overview of many tables has several pages: each has all of it but the other pages' tables.
 *
 * Bounds  an overview of OVERVIEW_TABLES_MAX tables and OVERVIEW_HOLDERS_MAX holders fits into a control message.
 * Pure. */
#pragma once
#include "cluster/control_message.h"
#include "miniray/admin.h"

enum { OVERVIEW_HOLDERS_MAX = 512, OVERVIEW_TABLES_MAX = 256 };

/* Returns at most CONTROL_MESSAGE_VALUE_MAX bytes; the caller frees them. */
uint8_t *overview_encode(const mr_ps_overview *overview, size_t *size);
/* MR_CORRUPT. The caller frees *out with mr_ps_overview_free. */
MR_MUST mr_status overview_decode(span bytes, mr_ps_overview **out);
