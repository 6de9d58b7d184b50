/* catalog_client.h — table catalog, worker's side: opens, creates, drops and lists tables (catalog_wire.h).
 *
 *   open     ── FIND ──► READ … ──► the table
 *   obtain   ── FIND ──► the table
 *                └── MR_NOT_FOUND ──► CREATE … ──► the new table; or the one that another process has created
 *   drop     ── DROP ──► done
 *   list     ── LIST ──► LIST … ──► the names
 *
 * A process reads only the tables that it asks for. A query repeats its question every CATALOG_CLIENT_REPEAT_US until
 * it is answered or ended; the caller decides how long to wait.
 *
 * Ownership  a query copies its arguments, and owns its results. Threads: the one that runs the van's event loop. */
#pragma once
#include "base/rng.h"
#include "cluster/control_message.h"
#include "kv/control/table_catalog.h"

#define CATALOG_CLIENT_REPEAT_US INT64_C(500000)

typedef struct catalog_client catalog_client;
typedef struct catalog_query catalog_query;

typedef struct catalog_client_host {
    void (*send)(void *context, const control_message *question); /* to the scheduler; best effort */
    int64_t (*now_us)(void *context);
    void *context;
} catalog_client_host;

catalog_client *catalog_client_create(const catalog_client_host *host, uint64_t token);
void catalog_client_destroy(catalog_client *client); /* ends all queries with MR_CLOSED */

catalog_query *catalog_client_open(catalog_client *client, const char *name);
/* Finds the table with the name of `wanted`, or creates it. The caller compares what was found with `wanted`. */
catalog_query *catalog_client_obtain(catalog_client *client, const table_catalog_table *wanted);
catalog_query *catalog_client_drop(catalog_client *client, uint32_t id);
catalog_query *catalog_client_list(catalog_client *client);

/* MR_BUSY: under way. MR_NOT_FOUND: no such table. MR_TOO_LARGE, MR_CLOSED. */
mr_status catalog_query_status(const catalog_query *query);
const table_catalog_table *catalog_query_table(const catalog_query *query); /* of open and obtain */
/* The names of a list, by id. */
size_t catalog_query_names(const catalog_query *query, const char (**names)[MR_PS_NAME_MAX]);
void catalog_query_end(catalog_query *query);

/* false: the message is not for this module */
bool catalog_client_take(catalog_client *client, const control_message *message);
int64_t catalog_client_next_us(const catalog_client *client);
void catalog_client_tick(catalog_client *client, int64_t now_us);
