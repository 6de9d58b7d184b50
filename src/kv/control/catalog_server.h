/* catalog_server.h — table catalog, scheduler's side: answers questions about tables (catalog_wire.h), and changes the
 * catalog (catalog_log.h).
 *
 *   FIND, READ, LIST ──► answered
 *   CREATE ── the last piece is here ──► stored ──► MR_OK
 *     ├── a piece is missing ──► MR_BUSY, with the offset of the next one
 *     ├── the name is in use ──► MR_EXISTS, with the table that has it
 *     ├── the host refuses it ──► the host's status, with the error
 *     └── it cannot be stored ──► MR_BUSY, with the error; the process asks again
 *
 * Pieces of a table are in memory until the last one is here. A question may arrive twice.
 *
 * Bounds  CATALOG_SERVER_UPLOADS tables arrive at a time. Without room, and for a new one, nothing is answered, and the
 *         process asks again; pieces are dropped CATALOG_SERVER_UPLOAD_US after the last one.
 * Ownership   the log is borrowed for the server's life. Threads: none. */
#pragma once
#include "kv/control/catalog_log.h"
#include "net/transport.h"

enum { CATALOG_SERVER_UPLOADS = 16 };
#define CATALOG_SERVER_UPLOAD_US INT64_C(10000000)

typedef struct catalog_server catalog_server;

typedef struct catalog_server_host {
    /* MR_OK: there may be such a new table. MR_BUSY: this is not known yet. Another status: there may not, and the
     * error says why. */
    mr_status (*check)(void *context, const table_catalog_table *table);
    void (*answer)(void *context, link_id link, const control_message *answer); /* sends it, borrowed, over the link */
    void *context;
} catalog_server_host;

catalog_server *catalog_server_create(catalog_log *log, const catalog_server_host *host);
void catalog_server_destroy(catalog_server *server);

/* false: the message is not for this module */
bool catalog_server_take(catalog_server *server, link_id link, const control_message *message, int64_t now_us);
