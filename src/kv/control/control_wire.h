/* control_wire.h — control message kinds between processes of the parameter server and the scheduler, metadata requests
 * excepted.
 *
 *   control message    stamp: view, id, incarnation  value
 *   SEAT  CONTROL_SERVER or CONTROL_WORKER, token, nothing: which number is mine? (id_allocator.h)
 *             of a server 1 + the one it wants
 *   SEATED    number, token                      nothing; the number SEATS_MAX: none is free
 *   LOOK      0, token                           nothing: how do things stand?
 *   SIGHT     newest checkpoint or 0, token  the newest cluster map, whole; of no bytes: there is none yet
 *   HERE      cluster map, number, incarnation   how this process stands (process_state.h); not answered
 *   COME      cluster map, rank, incarnation     I have come to a barrier (barrier_client.h)
 *   PASS      cluster map, token                 may it go on, and who is missing (barrier_client.h)
 *   PEEK      first row, token                   nothing: how do all stand?
 *   BOARD     first row, token           a page of the process table (process_table.h)
 *   WHO       role, number or all, incarnation   nothing: where is that process?
 *   THOSE     likewise                           who they are (process_table.h)
 *   NOTE      cluster map, number, incarnation   from any process to any other (app_message.h)
 *   LEAVE     0, number, incarnation             nothing: this server is to go (drain.h)
 *   LEFT      1 or 0                             nothing: nobody stays, go; or your slots move
 *   SAVE      0, token                           nothing: make a checkpoint (checkpoint_requests.h)
 *   SAVED     its number or 0: not yet, token    why not, as a text; nothing: it is under way
 *   STOCK     cluster map, number, incarnation   what this server has of tables (table_stats.h); not answered
 *   SURVEY    0, token                           nothing: which tables and checkpoints are there?
 *   OVERVIEW  0, token                           that (overview.h)
 *   AWAIT     cluster map, number                to a worker that is here: what is awaited, as a text; not answered
 *   MARK      birth of the cluster map, question  nothing: which checkpoints may be without my steps?
 *                                                 (ps/low_watermark.h)
 *   MARKED    those up to it, question, oldest   nothing
 *
 * Who wants data attends, besides (cluster/group_leader.h). A token is drawn by the asker and comes back with the
 * answer. Each is asked again until it is answered. */
#pragma once
#include "cluster/control_message.h"

enum {
    CONTROL_REGISTER = CONTROL_MESSAGE_USER + 16,
    CONTROL_SEATED,
    CONTROL_LOOK,
    CONTROL_MAP_VIEW,
    CONTROL_HERE,
    CONTROL_COME,
    CONTROL_PASS,
    CONTROL_PEEK,
    CONTROL_PROCESS_TABLE,
    CONTROL_WHO,
    CONTROL_THOSE,
    CONTROL_NOTE,
    CONTROL_LEAVE,
    CONTROL_LEFT,
    CONTROL_SAVE,
    CONTROL_SAVED,
    CONTROL_TABLE_STATS,
    CONTROL_SURVEY,
    CONTROL_OVERVIEW,
    CONTROL_AWAIT,
    CONTROL_MARK,
    CONTROL_MARKED
};
enum { CONTROL_SERVER = 1, CONTROL_WORKER = 2 };
#define CONTROL_CHECKPOINTS "#depot" /* behind the scheduler's address: that of its checkpoint store (van.h) */
