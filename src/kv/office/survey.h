/* survey.h — collection of the overview (overview.h) from the scheduler's tables, data and checkpoints.
 *
 * Pure: what is there comes in, bytes come out. */
#pragma once
#include "cluster/keeper.h"
#include "kv/office/awaited.h"
#include "kv/office/stock.h"

typedef struct survey_facts { /* all of it is borrowed for the call */
    const awaited_facts *awaited;
    const awaited_watch *watch;
    const stocks *stocks;
    const keeper *keeper; /* has the catalogue and the roster */
    int64_t wall_us;      /* now, since 1970 */
    int64_t checkpoint_us, every_us, trouble_us;
    const char *trouble; /* the last, though it may be over; NULL: there was none */
    bool making;         /* a checkpoint is under way */
} survey_facts;

uint8_t *survey_make(const survey_facts *facts, size_t *size); /* an overview, as bytes; to be freed */
