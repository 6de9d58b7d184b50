/* control_wire.h — control message kinds between processes of the parameter server and the scheduler, metadata requests
 * excepted.
 *
 *   control message   stamp: view, id, incarnation            value
 *   REGISTER          CONTROL_SERVER, _WORKER or _READER,     asks for a process number (id_allocator.h); of a server
 *                     token, of a server 1 + wanted number    4: what it can decompress (compressor_available)
 *   SEATED            number, token, readers that there may   none; number ID_ALLOCATOR_MAX: no number is free, or,
 *                     be                                      with a text, why the process cannot join
 *   LOOK              0, token                                none: asks for the cluster map
 *   MAP_VIEW          newest checkpoint or 0, token           the newest cluster map; empty: there is none yet
 *   HERE              cluster map, number, incarnation        process state (process_state.h); not answered
 *   COME              cluster map, rank, incarnation          arrival at a barrier (barrier_client.h)
 *   PASS              cluster map, token                      whether the rank may continue (barrier_client.h)
 *   PEEK              first row, token                        none: asks for the process table
 *   PROCESS_TABLE     first row, token                        a page of the process table (process_table.h)
 *   WHO               role, number or all, incarnation        none: asks for the address of a process
 *   THOSE             likewise                                the processes (process_table.h)
 *   NOTE              cluster map, number, incarnation        app message between any two processes (app_message.h)
 *   LEAVE             0, number, incarnation                  none: this server drains (drain.h)
 *   LEFT              DRAIN_GO, _MOVES or _HELD (drain.h)     none
 *   SAVE              0, token                                none: asks for a checkpoint (checkpoint_requests.h)
 *   SAVED             its number or 0: not yet, token         the error as a text; none: under way
 *   TABLE_STATS       cluster map, number, incarnation        table sizes of a server (table_stats.h); not answered
 *   SURVEY            table, token                            none: asks for a page of the overview of tables and
 *                                                             checkpoints: the tables with a higher id
 *   OVERVIEW          last table of the page or 0: no         the page (overview.h)
 *                     further one, token, table
 *   AWAIT             cluster map, number                     to a live worker: the stall, as a text; not answered
 *   STOPPED           cluster map                             over every link of the scheduler, its last message: it
 *                                                             was stopped on purpose; how, as a text; not answered
 *   MARK              first map of the generation, question   none: asks which checkpoints may lack the sender's
 *                                                             steps (ps/low_watermark.h)
 *   MARKED            those up to it, question, oldest        8 bytes: the version of rounds in the oldest
 *   TABLES            0, question, token of a new table       a question about the table catalog (catalog_wire.h)
 *   TABLES_ANSWER     likewise                                the answer
 *
 * A worker that wants data also joins the consumer group (cluster/group_leader.h). The sender of a question draws a
 * token, and the answer repeats it. Each question is repeated until it is answered. */
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
    CONTROL_MARKED,
    CONTROL_TABLES,
    CONTROL_TABLES_ANSWER,
    CONTROL_STOPPED
};
enum { CONTROL_SERVER = 1, CONTROL_WORKER = 2, CONTROL_READER = 3 };
#define CONTROL_CHECKPOINTS "#depot" /* suffix of the scheduler's address: its checkpoint store (van.h) */
