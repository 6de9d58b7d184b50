/* board.h — process table of the scheduler: the last reported state of every process (standing.h), and its rates.
 *
 *   standing ──► board_take ──► row: the newest word, when it came, and what changed per second
 *   question for a page ──► board_page ──► rows, as many as fit into a letter
 *
 * A rate is measured over BOARD_RATE_US or a little more, between two words of the same process. A process that was not
 * heard for BOARD_SILENT_US is not here; one whose link broke after BOARD_BROKEN_US.
 *
 *   bytes    a page
 *   -------  ----------------------------------------------------------------------------------
 *   4 4      rows on the board, rows of this page; each:
 *   4 8 8    number, incarnation, chart
 *   1 8      1: it is here; µs since it was heard
 *   8 …      BOARD_RATES, per second
 *   4 + n    the standing; behind it for each of its reports 8: how much it changes per second
 *
 * Bounds      as many rows as there can be processes. Pure. */
#pragma once
#include "kv/office/standing.h"

#define BOARD_RATE_US   INT64_C(1000000)
#define BOARD_SILENT_US INT64_C(3000000)
#define BOARD_BROKEN_US INT64_C(600000)

#define BOARD_RATES(X) X(step) X(pushes) X(pulls) X(bytes_in) X(bytes_out)

typedef struct board_rates {
#define X(name) double name;
    BOARD_RATES(X)
#undef X
    double reports[MR_PS_METRICS_MAX]; /* in the order of the standing's */
} board_rates;

typedef struct board_row {
    standing now, base; /* base: what rates are measured from */
    int64_t heard_us, base_us;
    int64_t broken_us; /* since it was heard; 0: no */
    board_rates rates;
} board_row;

typedef struct board { /* zero-initialized it is empty */
    board_row **rows;  /* owned, each too; by role, then number */
    size_t count;
} board;

void board_fini(board *board);
/* An older process of its number is not heard. */
void board_take(board *board, const standing *standing, int64_t now_us);
void board_broken(board *board, const char *address, int64_t now_us);           /* the link to it */
const board_row *board_find(const board *board, uint8_t role, uint32_t number); /* NULL: never heard of */
bool board_is_here(const board_row *row, int64_t now_us);
uint32_t board_servers_here(const board *board, int64_t now_us);

/* From that row on, at most LETTER_VALUE_MAX bytes; to be freed. */
uint8_t *board_page(const board *board, size_t from, int64_t now_us, size_t *size);

/* Who is where: of one role, all who are here, or that one whether it is here or not; to be freed.
 *
 *   4        how many; each: 4 number, 8 incarnation, 1 here, 1 + n address */
#define BOARD_EVERY UINT32_MAX
uint8_t *board_list(const board *board, uint8_t role, uint32_t number, int64_t now_us, size_t *size);

typedef struct board_entry {
    uint32_t number;
    uint64_t incarnation;
    bool here;
    char address[MR_PS_ADDRESS_MAX];
} board_entry;
MR_MUST mr_status board_list_read(span bytes, reader *out, uint32_t *count); /* MR_CORRUPT */
MR_MUST mr_status board_list_next(reader *reader, board_entry *entry);       /* MR_CORRUPT */

typedef struct board_line { /* a row, as it is read */
    standing standing;
    bool here;
    int64_t silent_us;
    board_rates rates;
} board_line;

typedef struct board_reading {
    reader reader;
    uint32_t total, count; /* rows on the board, and of this page that are not read yet */
} board_reading;

MR_MUST mr_status board_read(span page, board_reading *out);            /* MR_CORRUPT */
MR_MUST mr_status board_next(board_reading *reading, board_line *line); /* MR_END; MR_CORRUPT */
