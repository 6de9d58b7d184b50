/* desk.h — what processes of the parameter server ask the scheduler, beside what its coordinator answers.
 *
 *   letter    stamp: view, id, incarnation       value
 *   SEAT      DESK_SERVER or DESK_WORKER, token  nothing: which number is mine? (seats.h)
 *   SEATED    number, token                      nothing; the number SEATS_MAX: there is none left
 *   LOOK      0, token                           nothing: how do things stand?
 *   SIGHT     newest checkpoint or 0, token      the newest chart, whole; of no bytes: there is none yet
 *
 * A token is drawn by the asker and comes back with the answer. Each is asked again until it is answered. */
#pragma once
#include "cluster/letter.h"

enum { DESK_SEAT = LETTER_USER + 16, DESK_SEATED, DESK_LOOK, DESK_SIGHT };
enum { DESK_SERVER = 1, DESK_WORKER = 2 };
#define DESK_DEPOT "#depot" /* behind the scheduler's address: that of its depot (van.h) */
