/* catalog_wire.h — questions of a process about the table catalog, and the scheduler's answers (control_wire.h).
 *
 * A table is sent in pieces of at most CATALOG_WIRE_PIECE bytes. A table never changes, so pieces of one id belong
 * together.
 *
 *   question   bytes                               answer
 *   ---------  ----------------------------------  -----------------------------------------------------------------
 *   FIND     1, 1 + n name                       the table's first piece. MR_NOT_FOUND
 *   READ     1, 4 id, 8 offset                   a piece. MR_NOT_FOUND: the table was dropped
 *   CREATE   1, 8 size, 8 offset, the rest: a    MR_OK: created. MR_EXISTS: the first piece of the table that has the
 *            piece of the table                  name. MR_BUSY: the offset of the next piece. Or an error
 *   DROP     1, 4 id                             MR_OK
 *   LIST     1, 4 id                             the tables after this id: of each 4 id, 1 + n name; at the end none
 *
 *   bytes      answer
 *   ---------  ----------------------------------------------------------------------
 *   4 4      status, id of the table
 *   8 8      its size, offset of the piece
 *   …        the piece, the list, or the error as a text
 *
 * Pure. */
#pragma once
#include "base/bytes.h"
#include "cluster/control_message.h"
#include "kv/control/table_catalog.h"

enum { CATALOG_WIRE_PIECE = 100 * 1000, CATALOG_WIRE_ANSWER_HEAD = 24 };
_Static_assert((int)CATALOG_WIRE_PIECE + 128 <= (int)CONTROL_MESSAGE_VALUE_MAX, "a piece fits into a control message");

typedef enum catalog_wire_kind {
    CATALOG_WIRE_FIND = 1,
    CATALOG_WIRE_READ,
    CATALOG_WIRE_CREATE,
    CATALOG_WIRE_DROP,
    CATALOG_WIRE_LIST
} catalog_wire_kind;

typedef struct catalog_wire_question {
    catalog_wire_kind kind;
    char name[MR_PS_NAME_MAX]; /* FIND */
    uint32_t id;               /* READ, DROP, LIST */
    uint64_t size, offset;     /* CREATE; READ: the offset */
    span piece;                /* CREATE; borrowed */
} catalog_wire_question;

typedef struct catalog_wire_answer {
    mr_status status;
    uint32_t id;
    uint64_t size, offset;
    span bytes; /* borrowed */
} catalog_wire_answer;

size_t catalog_wire_ask(const catalog_wire_question *question, uint8_t out[CONTROL_MESSAGE_VALUE_MAX]);
MR_MUST mr_status catalog_wire_read_question(span bytes, catalog_wire_question *out); /* MR_CORRUPT */
size_t catalog_wire_answer_write(const catalog_wire_answer *answer, uint8_t out[CONTROL_MESSAGE_VALUE_MAX]);
MR_MUST mr_status catalog_wire_read_answer(span bytes, catalog_wire_answer *out); /* MR_CORRUPT */

/* The next table of a list. MR_END; MR_CORRUPT. */
MR_MUST mr_status catalog_wire_next(reader *list, uint32_t *id, char name[MR_PS_NAME_MAX]);
