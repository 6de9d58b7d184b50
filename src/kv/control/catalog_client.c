/* catalog_client.c — see catalog_client.h. */
#include "kv/control/catalog_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "kv/control/catalog_wire.h"
#include "kv/control/control_wire.h"

struct catalog_query {
    list link; /* in the client's queries until it is over */
    catalog_client *client;
    catalog_wire_kind asks; /* kind of the question under way */
    uint64_t question;      /* its number */
    int64_t repeat_us;
    uint64_t token; /* of the pieces of a new table */
    char name[MR_PS_NAME_MAX];
    uint32_t id;     /* of a table that is read or dropped; the last one listed */
    uint8_t *wanted; /* owned: a new table; NULL: none */
    size_t wanted_size;
    uint64_t offset; /* of the piece to be sent */
    buffer read;     /* pieces that were read */
    table_catalog_table table;
    char (*names)[MR_PS_NAME_MAX]; /* owned */
    size_t name_count, name_room;
    mr_status status;           /* MR_BUSY: under way */
    char error[ERROR_TEXT_MAX]; /* of a failed query; of one under way: why it waits */
};

struct catalog_client {
    catalog_client_host host;
    uint64_t last; /* number of the last question, or token */
    list queries;  /* under way */
};

/* ---- Questions. */

static void ask(catalog_query *query, catalog_wire_kind kind) {
    catalog_client *client = query->client;
    catalog_wire_question question = {
        .kind = kind, .id = query->id, .size = query->wanted_size, .offset = query->read.size};
    query->asks = kind;
    query->question = ++client->last;
    query->repeat_us = client->host.now_us(client->host.context) + CATALOG_CLIENT_REPEAT_US;
    memcpy(question.name, query->name, sizeof question.name);
    if (kind == CATALOG_WIRE_CREATE) {
        size_t left = query->wanted_size - query->offset;
        question.offset = query->offset;
        question.piece = span_of(query->wanted + query->offset, left < CATALOG_WIRE_PIECE ? left : CATALOG_WIRE_PIECE);
    }
    uint8_t *bytes = xmalloc(CONTROL_MESSAGE_VALUE_MAX);
    control_message message = {.kind = CONTROL_TABLES, .stamp = {.id = query->question, .incarnation = query->token}};
    message.value = span_of(bytes, catalog_wire_ask(&question, bytes));
    client->host.send(client->host.context, &message);
    free(bytes);
}

static void find(catalog_query *query) {
    buffer_clear(&query->read);
    query->offset = 0;
    ask(query, CATALOG_WIRE_FIND);
}

static void finish(catalog_query *query, mr_status status) {
    query->status = status;
    if (status != MR_OK) snprintf(query->error, sizeof query->error, "%s", mr_last_error());
    list_remove(&query->link);
}

/* ---- Answers. */

/* Takes a piece of the table; with the last one the query is over. */
static void take_piece(catalog_query *query, const catalog_wire_answer *answer) {
    bool first = query->asks != CATALOG_WIRE_READ;
    if (first) buffer_clear(&query->read);
    if (first) query->id = answer->id;
    bool fits = answer->id == query->id && answer->offset == query->read.size && answer->bytes.size != 0;
    if (!fits) return; /* the question is repeated */
    if (buffer_append(&query->read, answer->bytes.data, answer->bytes.size) != MR_OK) {
        finish(query, MR_NOMEM);
        return;
    }
    if (query->read.size < answer->size)
        ask(query, CATALOG_WIRE_READ);
    else
        finish(query, table_catalog_table_decode(span_of(query->read.data, query->read.size), &query->table));
}

static void take_missing(catalog_query *query) {
    if (query->asks == CATALOG_WIRE_READ)
        find(query); /* the table was dropped meanwhile */
    else if (query->wanted != NULL)
        ask(query, CATALOG_WIRE_CREATE);
    else
        finish(query, error_set(MR_NOT_FOUND, "table '%s' does not exist", query->name));
}

static void take_created(catalog_query *query, uint32_t id) {
    mr_status status = table_catalog_table_decode(span_of(query->wanted, query->wanted_size), &query->table);
    query->table.schema.id = id;
    finish(query, status);
}

/* With a text the scheduler cannot store the table now, and the question is repeated. */
static void take_busy(catalog_query *query, const catalog_wire_answer *answer) {
    snprintf(query->error, sizeof query->error, "%.*s", (int)answer->bytes.size, (const char *)answer->bytes.data);
    if (query->asks != CATALOG_WIRE_CREATE || answer->bytes.size != 0 || answer->offset >= query->wanted_size) return;
    query->offset = answer->offset;
    ask(query, CATALOG_WIRE_CREATE);
}

static void take_names(catalog_query *query, const catalog_wire_answer *answer) {
    reader list = reader_of(answer->bytes.data, answer->bytes.size);
    mr_status status;
    char name[MR_PS_NAME_MAX];
    while ((status = catalog_wire_next(&list, &query->id, name)) == MR_OK) {
        xgrow(&query->names, &query->name_room, query->name_count + 1, sizeof *query->names);
        memcpy(query->names[query->name_count++], name, sizeof name);
    }
    if (status != MR_END)
        finish(query, status);
    else if (answer->bytes.size == 0)
        finish(query, MR_OK);
    else
        ask(query, CATALOG_WIRE_LIST);
}

static void take_ok(catalog_query *query, const catalog_wire_answer *answer) {
    switch (query->asks) {
    case CATALOG_WIRE_FIND:
    case CATALOG_WIRE_READ: take_piece(query, answer); break;
    case CATALOG_WIRE_CREATE: take_created(query, answer->id); break;
    case CATALOG_WIRE_DROP: finish(query, MR_OK); break;
    case CATALOG_WIRE_LIST: take_names(query, answer); break;
    }
}

static void take_answer(catalog_query *query, const catalog_wire_answer *answer) {
    /* with a text, what a new table needs is missing, and not the table */
    if (answer->status == MR_NOT_FOUND && answer->bytes.size == 0) {
        take_missing(query);
        return;
    }
    switch (answer->status) {
    case MR_OK: take_ok(query, answer); break;
    case MR_EXISTS: take_piece(query, answer); break;
    case MR_BUSY: take_busy(query, answer); break;
    default:
        finish(query, error_set(answer->status, "%.*s", (int)answer->bytes.size, (const char *)answer->bytes.data));
    }
}

bool catalog_client_take(catalog_client *client, const control_message *message) {
    catalog_wire_answer answer;
    if (message->kind != CONTROL_TABLES_ANSWER) return false;
    if (catalog_wire_read_answer(message->value, &answer) != MR_OK) return true;
    list_for_each (item, &client->queries) {
        catalog_query *query = container_of(item, catalog_query, link);
        if (query->question != message->stamp.id) continue;
        take_answer(query, &answer);
        break;
    }
    return true;
}

/* ---- Time. */

int64_t catalog_client_next_us(const catalog_client *client) {
    int64_t next_us = CLOCK_NEVER_US;
    list_for_each (item, &client->queries)
        next_us = clock_earlier_us(next_us, container_of(item, catalog_query, link)->repeat_us);
    return next_us;
}

/* A process that waits for its turn to create a table looks first whether another one has created it. */
void catalog_client_tick(catalog_client *client, int64_t now_us) {
    list_for_each (item, &client->queries) {
        catalog_query *query = container_of(item, catalog_query, link);
        if (now_us < query->repeat_us) continue;
        if (query->asks == CATALOG_WIRE_CREATE && query->offset == 0)
            find(query);
        else
            ask(query, query->asks);
    }
}

/* ---- Queries. */

static catalog_query *begin(catalog_client *client, const char *name) {
    catalog_query *query = XNEW(catalog_query, .client = client, .status = MR_BUSY, .token = ++client->last);
    snprintf(query->name, sizeof query->name, "%s", name);
    buffer_init(&query->read, TABLE_CATALOG_TABLE_MAX);
    list_init(&query->link);
    list_push_back(&client->queries, &query->link);
    return query;
}

catalog_query *catalog_client_open(catalog_client *client, const char *name) {
    catalog_query *query = begin(client, name);
    if (strlen(name) < MR_PS_NAME_MAX)
        find(query);
    else
        finish(query, error_set(MR_NOT_FOUND, "table '%.80s' does not exist", name));
    return query;
}

catalog_query *catalog_client_obtain(catalog_client *client, const table_catalog_table *wanted) {
    catalog_query *query = begin(client, wanted->name);
    query->wanted = table_catalog_table_encode(wanted, &query->wanted_size);
    find(query);
    return query;
}

catalog_query *catalog_client_drop(catalog_client *client, uint32_t id) {
    catalog_query *query = begin(client, "");
    query->id = id;
    ask(query, CATALOG_WIRE_DROP);
    return query;
}

catalog_query *catalog_client_list(catalog_client *client) {
    catalog_query *query = begin(client, "");
    ask(query, CATALOG_WIRE_LIST);
    return query;
}

mr_status catalog_query_status(const catalog_query *query) {
    if (query->status == MR_OK) return MR_OK;
    if (query->status != MR_BUSY) return error_set(query->status, "%s", query->error);
    if (query->error[0] != '\0')
        return error_set(MR_BUSY, "the scheduler cannot change its list of tables: %s", query->error);
    return error_set(MR_BUSY, "the scheduler has not answered a question about %s%s%s",
                     query->name[0] == '\0' ? "its tables" : "table '", query->name, query->name[0] == '\0' ? "" : "'");
}

const table_catalog_table *catalog_query_table(const catalog_query *query) {
    MR_ASSERT(query->status == MR_OK);
    return &query->table;
}

size_t catalog_query_names(const catalog_query *query, const char (**names)[MR_PS_NAME_MAX]) {
    *names = (const char(*)[MR_PS_NAME_MAX])query->names;
    return query->name_count;
}

void catalog_query_end(catalog_query *query) {
    if (query == NULL) return;
    list_remove(&query->link);
    buffer_fini(&query->read);
    table_catalog_table_fini(&query->table);
    free(query->wanted);
    free(query->names);
    free(query);
}

catalog_client *catalog_client_create(const catalog_client_host *host, uint64_t token) {
    catalog_client *client = XNEW(catalog_client, .host = *host, .last = token);
    list_init(&client->queries);
    return client;
}

void catalog_client_destroy(catalog_client *client) {
    if (client == NULL) return;
    while (!list_empty(&client->queries))
        finish(container_of(client->queries.next, catalog_query, link),
               error_set(MR_CLOSED,
                         "the connection was closed before the scheduler answered question %llu about tables",
                         (unsigned long long)client->last));
    free(client);
}
