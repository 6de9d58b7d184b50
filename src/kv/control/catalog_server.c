/* catalog_server.c — see catalog_server.h. Tested by src/kv/control/catalog_client_test.c. */
#include "kv/control/catalog_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "kv/control/catalog_wire.h"
#include "kv/control/control_wire.h"

typedef struct upload { /* a table that arrives in pieces; token 0: unused */
    uint64_t token;
    buffer bytes;
    int64_t used_us;
} upload;

struct catalog_server {
    catalog_log *log;
    catalog_server_host host;
    bool failing; /* the last change could not be stored */
    upload uploads[CATALOG_SERVER_UPLOADS];
};

static void end_upload(upload *upload) {
    buffer_fini(&upload->bytes);
    upload->token = 0;
}

/* Returns the upload with this token, or begins one. NULL: CATALOG_SERVER_UPLOADS others are under way. */
static upload *find_upload(catalog_server *server, uint64_t token, int64_t now_us) {
    upload *unused = NULL;
    for (size_t i = 0; i < CATALOG_SERVER_UPLOADS; i++) {
        upload *upload = &server->uploads[i];
        if (upload->token == token) return upload;
        if (upload->token != 0 && now_us - upload->used_us > CATALOG_SERVER_UPLOAD_US) end_upload(upload);
        if (upload->token == 0 && unused == NULL) unused = upload;
    }
    if (unused == NULL) return NULL;
    unused->token = token;
    buffer_init(&unused->bytes, TABLE_CATALOG_TABLE_MAX);
    return unused;
}

/* ---- Answers. */

static span piece_at(const table_catalog_entry *entry, uint64_t offset) {
    size_t left = entry->size - offset;
    return span_of(entry->bytes + offset, left < CATALOG_WIRE_PIECE ? left : CATALOG_WIRE_PIECE);
}

static catalog_wire_answer show(const table_catalog_entry *entry, uint64_t offset, mr_status status) {
    if (entry == NULL || offset > entry->size) return (catalog_wire_answer){.status = MR_NOT_FOUND};
    return (catalog_wire_answer){.status = status,
                                 .id = entry->table.schema.id,
                                 .size = entry->size,
                                 .offset = offset,
                                 .bytes = piece_at(entry, offset)};
}

/* An answer with the text of the last error, which is borrowed. */
static catalog_wire_answer fail(mr_status status) {
    const char *text = mr_last_error();
    size_t size = strlen(text);
    return (catalog_wire_answer){.status = status, .bytes = span_of(text, size)};
}

/* A full or faulty disk ends a question no more than a dead scheduler does: the disk may be repaired. */
static catalog_wire_answer fail_change(catalog_server *server, mr_status status) {
    if (status == MR_TOO_LARGE || status == MR_INVALID || status == MR_CORRUPT) return fail(status);
    if (!server->failing) log_warn("the list of tables cannot be changed: %s", mr_last_error());
    server->failing = true;
    return fail(MR_BUSY);
}

static void note_change(catalog_server *server) {
    if (server->failing)
        log_warn("the list of %zu tables can be changed again", catalog_log_tables(server->log)->count);
    server->failing = false;
}

static catalog_wire_answer create_table(catalog_server *server, span bytes) {
    table_catalog_table table;
    if (table_catalog_table_decode(bytes, &table) != MR_OK) return fail(MR_CORRUPT);
    const table_catalog *tables = catalog_log_tables(server->log);
    const table_catalog_entry *there = table_catalog_find(tables, table.name);
    mr_status refused = there == NULL ? server->host.check(server->host.context, &table) : MR_OK;
    mr_status status = there == NULL && refused == MR_OK ? catalog_log_add(server->log, &table) : MR_OK;
    catalog_wire_answer answer = {.status = MR_OK};
    if (there != NULL)
        answer = show(there, 0, MR_EXISTS);
    else if (refused != MR_OK)
        answer = fail(refused);
    else if (status != MR_OK)
        answer = fail_change(server, status);
    else
        answer.id = table_catalog_find(tables, table.name)->table.schema.id;
    if (there == NULL && refused == MR_OK && status == MR_OK) note_change(server);
    table_catalog_table_fini(&table);
    return answer;
}

/* Takes a piece; false: there is no room for it now. */
static bool take_piece(catalog_server *server, uint64_t token, const catalog_wire_question *question, int64_t now_us,
                       catalog_wire_answer *answer) {
    if (token == 0) return false;
    if (question->piece.size == question->size) { /* it needs no memory */
        *answer = create_table(server, question->piece);
        return true;
    }
    upload *upload = find_upload(server, token, now_us);
    if (upload == NULL) return false;
    upload->used_us = now_us;
    bool is_next = question->offset == upload->bytes.size;
    if (is_next && buffer_append(&upload->bytes, question->piece.data, question->piece.size) != MR_OK) return false;
    *answer = (catalog_wire_answer){.status = MR_BUSY, .offset = upload->bytes.size};
    if (upload->bytes.size < question->size) return true;
    *answer = create_table(server, span_of(upload->bytes.data, upload->bytes.size));
    end_upload(upload);
    return true;
}

static size_t write_list(const table_catalog *tables, uint32_t after, uint8_t out[CATALOG_WIRE_PIECE]) {
    writer writer = writer_of(out, CATALOG_WIRE_PIECE);
    for (size_t i = table_catalog_place(tables, after + 1); i < tables->count && after != UINT32_MAX; i++) {
        const table_catalog_table *table = &tables->entries[i]->table;
        if (sizeof(uint32_t) + 1 + strlen(table->name) > CATALOG_WIRE_PIECE - writer_size(&writer)) break;
        writer_u32(&writer, table->schema.id);
        writer_text8(&writer, table->name);
    }
    return writer_size(&writer);
}

static void send(const catalog_server *server, link_id link, const control_message *question,
                 const catalog_wire_answer *answer) {
    uint8_t *bytes = xmalloc(CONTROL_MESSAGE_VALUE_MAX);
    size_t size = catalog_wire_answer_write(answer, bytes);
    control_message message = {.kind = CONTROL_TABLES_ANSWER, .stamp = question->stamp, .value = span_of(bytes, size)};
    server->host.answer(server->host.context, link, &message);
    free(bytes);
}

static void send_list(const catalog_server *server, link_id link, const control_message *question, uint32_t after) {
    uint8_t *bytes = xmalloc(CATALOG_WIRE_PIECE);
    catalog_wire_answer answer = {.status = MR_OK};
    answer.bytes = span_of(bytes, write_list(catalog_log_tables(server->log), after, bytes));
    send(server, link, question, &answer);
    free(bytes);
}

bool catalog_server_take(catalog_server *server, link_id link, const control_message *message, int64_t now_us) {
    catalog_wire_question question;
    catalog_wire_answer answer = {.status = MR_OK};
    if (message->kind != CONTROL_TABLES) return false;
    if (catalog_wire_read_question(message->value, &question) != MR_OK) return true;
    const table_catalog *tables = catalog_log_tables(server->log);
    switch (question.kind) {
    case CATALOG_WIRE_FIND: answer = show(table_catalog_find(tables, question.name), 0, MR_OK); break;
    case CATALOG_WIRE_READ: answer = show(table_catalog_by_id(tables, question.id), question.offset, MR_OK); break;
    case CATALOG_WIRE_CREATE:
        if (!take_piece(server, message->stamp.incarnation, &question, now_us, &answer)) return true;
        break;
    case CATALOG_WIRE_DROP: {
        mr_status status = catalog_log_drop(server->log, question.id);
        if (status != MR_OK)
            answer = fail_change(server, status);
        else
            note_change(server);
        break;
    }
    case CATALOG_WIRE_LIST: send_list(server, link, message, question.id); return true;
    }
    send(server, link, message, &answer);
    return true;
}

catalog_server *catalog_server_create(catalog_log *log, const catalog_server_host *host) {
    return XNEW(catalog_server, .log = log, .host = *host);
}

void catalog_server_destroy(catalog_server *server) {
    if (server == NULL) return;
    for (size_t i = 0; i < CATALOG_SERVER_UPLOADS; i++) end_upload(&server->uploads[i]);
    free(server);
}
