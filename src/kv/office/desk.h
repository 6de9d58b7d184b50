/* desk.h — control message kinds between processes of the parameter server and the scheduler, metadata requests
 * excepted.
 *
 *   letter    stamp: view, id, incarnation       value
 *   SEAT      DESK_SERVER or DESK_WORKER, token, nothing: which number is mine? (seats.h)
 *             of a server 1 + the one it wants
 *   SEATED    number, token                      nothing; the number SEATS_MAX: none is free
 *   LOOK      0, token                           nothing: how do things stand?
 *   SIGHT     newest checkpoint or 0, token      the newest chart, whole; of no bytes: there is none yet
 *   HERE      chart, number, incarnation         how this process stands (standing.h); not answered
 *   COME      chart, rank, incarnation           I have come to a barrier (arrival.h)
 *   PASS      chart, token                       may it go on, and who is missing (arrival.h)
 *   PEEK      first row, token                   nothing: how do all stand?
 *   BOARD     first row, token                   a page of the board (board.h)
 *   WHO       role, number or all, incarnation   nothing: where is that process?
 *   THOSE     likewise                           who they are (board.h)
 *   NOTE      chart, number, incarnation         from any process to any other (note.h)
 *   LEAVE     0, number, incarnation             nothing: this server is to go (farewell.h)
 *   LEFT      1 or 0                             nothing: nobody stays, go; or your slots move
 *   SAVE      0, token                           nothing: make a checkpoint (savers.h)
 *   SAVED     its number or 0: not yet, token    why not, as a text; nothing: it is under way
 *   STOCK     chart, number, incarnation         what this server has of tables (stock.h); not answered
 *   SURVEY    0, token                           nothing: which tables and checkpoints are there?
 *   OVERVIEW  0, token                           that (overview.h)
 *   AWAIT     chart, number                      to a worker that is here: what is awaited, as a text; not answered
 *   MARK      birth of the chart, question       nothing: which checkpoints may be without my steps? (ps/horizon.h)
 *   MARKED    those up to it, question, oldest   nothing
 *
 * Who wants data attends, besides (cluster/marshal.h). A token is drawn by the asker and comes back with the answer.
 * Each is asked again until it is answered. */
#pragma once
#include "cluster/letter.h"

enum {
    DESK_SEAT = LETTER_USER + 16,
    DESK_SEATED,
    DESK_LOOK,
    DESK_SIGHT,
    DESK_HERE,
    DESK_COME,
    DESK_PASS,
    DESK_PEEK,
    DESK_BOARD,
    DESK_WHO,
    DESK_THOSE,
    DESK_NOTE,
    DESK_LEAVE,
    DESK_LEFT,
    DESK_SAVE,
    DESK_SAVED,
    DESK_STOCK,
    DESK_SURVEY,
    DESK_OVERVIEW,
    DESK_AWAIT,
    DESK_MARK,
    DESK_MARKED
};
enum { DESK_SERVER = 1, DESK_WORKER = 2 };
#define DESK_DEPOT "#depot" /* behind the scheduler's address: that of its depot (van.h) */
