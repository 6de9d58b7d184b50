/* overview_collect.h — collection of the overview (overview.h) from the scheduler's tables, data and checkpoints.
 *
 * Pure: facts in, bytes out. */
#pragma once
#include "cluster/metadata_db.h"
#include "kv/control/stall.h"
#include "kv/control/table_catalog.h"
#include "kv/control/table_stats.h"

typedef struct overview_collect_facts { /* all borrowed for the call */
    const stall_facts *stall;
    const stall_watch *watch;
    const table_stats_list *list;
    const metadata_db *db; /* has the consumer group */
    const table_catalog *tables;
    uint32_t after;  /* the page begins after this id */
    int64_t wall_us; /* current time since 1970 */
    int64_t checkpoint_us, every_us, trouble_us;
    const char *trouble; /* last error of checkpoints, perhaps resolved; NULL: none */
    bool making;         /* a checkpoint is under way */
} overview_collect_facts;

/* Returns a page of the encoded overview; the caller frees it. *last: id of its last table; 0: no table follows. */
uint8_t *overview_collect_make(const overview_collect_facts *facts, size_t *size, uint32_t *last);
