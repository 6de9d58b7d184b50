/* note.h — encoding of app messages: requests and responses between programs of a parameter server.
 *
 *   bytes    what follows the stamp of the letter (DESK_NOTE)
 *   -------  ----------------------------------------------------------------------------
 *   1        kind: NOTE_REQUEST, NOTE_RESPONSE
 *   1 1 4    role of the sender; role and number of the receiver
 *   1 + n    address of the sender
 *   8        incarnation of the receiver
 *   8 8      number of the request, of its sender to this receiver, from 1; the lowest that it waits for
 *   4 4      app, head
 *   4        of a response: its status
 *   …        body, to the end
 *
 * The stamp has the newest chart that the sender knows, its number and its incarnation. Pure. */
#pragma once
#include "cluster/letter.h"
#include "miniray/admin.h"

enum { NOTE_REQUEST = 1, NOTE_RESPONSE = 2 };
enum { NOTE_HEAD_MAX = 1 + 2 + 4 + MR_PS_ADDRESS_MAX + 8 + 16 + 8 + 4 };

typedef struct note {
    uint8_t kind;
    uint8_t from_role, to_role;
    uint32_t from, to;
    char address[MR_PS_ADDRESS_MAX]; /* of the sender */
    uint64_t from_incarnation, to_incarnation;
    uint64_t chart;
    uint64_t number, oldest;
    int32_t app, head;
    mr_status status;
    span body;
} note;

uint8_t *note_write(const note *note, letter *letter);        /* the bytes of the letter's value: to be freed */
MR_MUST mr_status note_read(const letter *letter, note *out); /* MR_CORRUPT; the body is borrowed */
