/* catalog_client_test.c — client and server of the table catalog, connected by messages that the test delivers, loses
 * and repeats: tables are created once, opened, dropped and listed, whatever is lost. */
#include "kv/control/catalog_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cluster/metadata_file.h"
#include "kv/control/catalog_server.h"
#include "kv/control/catalog_wire.h"
#include "tests/support/failing_disk.h"
#include "tests/support/samples.h"
#include "tests/support/temp_dir.h"

enum { CLIENTS = 2 };

typedef struct world {
    char path[TEMP_DIR_FOLDER_MAX];
    failing_disk failing;
    metadata_file file;
    rng rng;
    metadata_db *db;
    catalog_log *log;
    catalog_server *server;
    catalog_client *clients[CLIENTS];
    int64_t now_us;
    int questions;    /* that the server received */
    size_t bytes;     /* of all questions and answers */
    int lose, repeat; /* percent of the messages */
    mr_status refuse; /* the scheduler refuses new tables with this status; MR_OK: it does not */
} world;

typedef struct side { /* of a client */
    world *world;
    int number;
} side;

static side sides[CLIENTS];

static bool happens(world *world, int percent) { return (int)rng_below(&world->rng, 100) < percent; }

static void answer(void *context, link_id link, const control_message *message) {
    world *world = context;
    world->bytes += message->value.size;
    if (happens(world, world->lose)) return;
    size_t size;
    uint8_t *bytes = control_message_write(message, &size);
    control_message read;
    assert_int_equal(control_message_decode(span_of(bytes, size), &read), MR_OK);
    assert_true(catalog_client_take(world->clients[link.v], &read));
    if (happens(world, world->repeat)) catalog_client_take(world->clients[link.v], &read);
    free(bytes);
}

static mr_status check(void *context, const table_catalog_table *table) {
    world *world = context;
    return world->refuse == MR_OK ? MR_OK : error_set(world->refuse, "no zstd for '%s' there", table->name);
}

static int64_t tell_time(void *context) { return ((side *)context)->world->now_us; }

/* The question waits: the server may not be called from within the client. */
typedef struct mail {
    int from;
    uint8_t *bytes;
    size_t size;
} mail;

static mail mails[64];
static int mail_count;

static void send(void *context, const control_message *question) {
    side *side = context;
    if (happens(side->world, side->world->lose)) return;
    assert_true(mail_count < 64);
    mail *mail = &mails[mail_count++];
    mail->from = side->number;
    mail->bytes = control_message_write(question, &mail->size);
}

static void deliver(world *world) {
    while (mail_count != 0) {
        mail mail = mails[0];
        control_message message;
        memmove(mails, mails + 1, (size_t)--mail_count * sizeof *mails);
        assert_int_equal(control_message_decode(span_of(mail.bytes, mail.size), &message), MR_OK);
        world->questions++;
        world->bytes += message.value.size;
        const link_id link = {(uint64_t)mail.from};
        assert_true(catalog_server_take(world->server, link, &message, world->now_us));
        if (happens(world, world->repeat))
            assert_true(catalog_server_take(world->server, link, &message, world->now_us));
        free(mail.bytes);
    }
}

static void open_server(world *world) {
    assert_int_equal(metadata_db_open(metadata_file_storage(&world->file), &world->rng, 0, &world->db), MR_OK);
    assert_int_equal(catalog_log_open(world->file.disk, world->db, &world->log), MR_OK);
    world->server = catalog_server_create(world->log, &(catalog_server_host){check, answer, world});
}

static void close_server(world *world) {
    catalog_server_destroy(world->server);
    catalog_log_close(world->log);
    metadata_db_close(world->db);
}

static void begin(world *world) {
    *world = (struct world){.now_us = 1};
    mail_count = 0;
    assert_true(temp_dir_folder(world->path));
    assert_int_equal(disk_open(world->path, &world->failing.real), MR_OK);
    world->failing.unsynced = true;
    world->file.disk = failing_disk_ops(&world->failing);
    rng_init(&world->rng, 7);
    open_server(world);
    for (int i = 0; i < CLIENTS; i++) {
        sides[i] = (side){world, i};
        world->clients[i] =
            catalog_client_create(&(catalog_client_host){send, tell_time, &sides[i]}, 100 * (uint64_t)i);
    }
}

static void end(world *world) {
    disk real = world->failing.real;
    for (int i = 0; i < CLIENTS; i++) catalog_client_destroy(world->clients[i]);
    while (mail_count != 0) free(mails[--mail_count].bytes);
    close_server(world);
    disk_close(real);
    sample_remove(world->path);
}

/* Delivers messages, and lets time pass, until the query is over. */
static mr_status await(world *world, catalog_query *query) {
    for (int i = 0; i < 200; i++) {
        deliver(world);
        mr_status status = catalog_query_status(query);
        if (status != MR_BUSY) return status;
        world->now_us += CATALOG_CLIENT_REPEAT_US;
        for (int k = 0; k < CLIENTS; k++)
            if (catalog_client_next_us(world->clients[k]) <= world->now_us)
                catalog_client_tick(world->clients[k], world->now_us);
    }
    return catalog_query_status(query);
}

static table_catalog_table table_of(const char *name, uint32_t array_count) {
    mr_ps_array *arrays = xcalloc(array_count + 1, sizeof *arrays);
    char(*names)[60] = xcalloc(array_count + 1, sizeof *names);
    table_catalog_table table;
    for (uint32_t i = 0; i < array_count; i++) {
        snprintf(names[i], sizeof *names, "encoder.layer.attention.self.query.weight.%u", i);
        arrays[i] = (mr_ps_array){.name = names[i], .dims = 2, .shape = {i + 1, 2}};
    }
    mr_ps_table_options options = {.dim = 3};
    if (array_count != 0)
        options = (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = arrays, .array_count = array_count};
    assert_int_equal(table_catalog_table_init(&table, name, &options), MR_OK);
    free(arrays);
    free(names);
    return table;
}

/* Obtains a table, and returns its id. */
static uint32_t obtain(world *world, int client, const char *name, uint32_t array_count) {
    table_catalog_table wanted = table_of(name, array_count);
    catalog_query *query = catalog_client_obtain(world->clients[client], &wanted);
    assert_int_equal(await(world, query), MR_OK);
    assert_null(table_catalog_table_differs(catalog_query_table(query), &wanted));
    uint32_t id = catalog_query_table(query)->schema.id;
    catalog_query_end(query);
    table_catalog_table_fini(&wanted);
    return id;
}

static mr_status open_table(world *world, const char *name, uint32_t *array_count) {
    catalog_query *query = catalog_client_open(world->clients[0], name);
    mr_status status = await(world, query);
    if (status == MR_OK) *array_count = catalog_query_table(query)->array_count;
    catalog_query_end(query);
    return status;
}

static void a_table_is_created_once(void **state) {
    world world;
    uint32_t count;
    begin(&world);
    assert_int_equal(open_table(&world, "deep", &count), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "table 'deep' does not exist"));
    assert_int_equal(obtain(&world, 0, "a", 0), 1);
    assert_int_equal(obtain(&world, 1, "deep", 10000), 2);
    assert_int_equal(obtain(&world, 0, "deep", 10000), 2);
    assert_int_equal(obtain(&world, 1, "a", 0), 1);
    assert_int_equal(open_table(&world, "deep", &count), MR_OK);
    assert_int_equal(count, 10000);
    end(&world);
}

/* The bytes of a creation do not depend on the number of tables. */
static void a_creation_costs_its_own_bytes(void **state) {
    world world;
    char name[20];
    begin(&world);
    size_t first = 0;
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "table %03d", i);
        world.bytes = 0;
        (void)obtain(&world, 0, name, 0);
        if (i == 0) first = world.bytes;
        assert_int_equal(world.bytes, first);
    }
    assert_in_range(first, 100, 1000);
    assert_int_equal(world.questions, 1000);
    end(&world);
}

/* Two processes create a table at the same time; messages are lost, and arrive twice. */
static void lost_and_repeated_messages_do_no_harm(void **state) {
    for (int lose = 0; lose < 50; lose += 16)
        for (int repeat = 0; repeat < 90; repeat += 40) {
            world world;
            begin(&world);
            world.lose = lose;
            world.repeat = repeat;
            table_catalog_table wanted = table_of("deep", 3000);
            catalog_query *queries[CLIENTS];
            for (int i = 0; i < CLIENTS; i++) queries[i] = catalog_client_obtain(world.clients[i], &wanted);
            for (int i = 0; i < CLIENTS; i++) {
                assert_int_equal(await(&world, queries[i]), MR_OK);
                assert_null(table_catalog_table_differs(catalog_query_table(queries[i]), &wanted));
                assert_int_equal(catalog_query_table(queries[i])->schema.id, 1);
                catalog_query_end(queries[i]);
            }
            assert_int_equal(catalog_log_tables(world.log)->count, 1);
            table_catalog_table_fini(&wanted);
            end(&world);
        }
}

/* A server that is started again in the middle knows no pieces, and gets them again. */
static void a_restart_in_the_middle_does_no_harm(void **state) {
    world world;
    begin(&world);
    table_catalog_table wanted = table_of("deep", 3000);
    for (int stop = 1; stop < 8; stop++) {
        catalog_query *query = catalog_client_obtain(world.clients[0], &wanted);
        for (int i = 0; i < stop && mail_count != 0; i++) { /* one message at a time */
            mail mail = mails[--mail_count];
            control_message message;
            assert_int_equal(control_message_decode(span_of(mail.bytes, mail.size), &message), MR_OK);
            assert_true(catalog_server_take(world.server, (link_id){0}, &message, world.now_us));
            free(mail.bytes);
        }
        close_server(&world);
        open_server(&world);
        assert_int_equal(await(&world, query), MR_OK);
        assert_null(table_catalog_table_differs(catalog_query_table(query), &wanted));
        catalog_query *drop = catalog_client_drop(world.clients[0], catalog_query_table(query)->schema.id);
        assert_int_equal(await(&world, drop), MR_OK);
        catalog_query_end(drop);
        catalog_query_end(query);
    }
    assert_int_equal(catalog_log_tables(world.log)->count, 0);
    table_catalog_table_fini(&wanted);
    end(&world);
}

/* While the disk fails, the query waits and says why; then the table is created. */
static void a_failing_disk_is_named(void **state) {
    world world;
    begin(&world);
    (void)obtain(&world, 0, "a", 0);
    table_catalog_table wanted = table_of("b", 0);
    world.failing.countdown = 1;
    catalog_query *query = catalog_client_obtain(world.clients[0], &wanted);
    assert_int_equal(await(&world, query), MR_BUSY);
    assert_non_null(strstr(mr_last_error(), "cannot change its list of tables"));
    world.failing.countdown = 0;
    assert_int_equal(await(&world, query), MR_OK);
    catalog_query_end(query);
    table_catalog_table_fini(&wanted);
    end(&world);
}

/* The scheduler refuses a table that a server cannot hold, and says why; it may have to wait for its servers first. */
static void a_refusal_is_reported(void **state) {
    world world;
    uint32_t count;
    for (uint32_t arrays = 0; arrays <= 6000; arrays += 6000) { /* at once, and in pieces */
        begin(&world);
        table_catalog_table wanted = table_of("b", arrays);
        world.refuse = MR_NOT_FOUND;
        catalog_query *query = catalog_client_obtain(world.clients[0], &wanted);
        assert_int_equal(await(&world, query), MR_NOT_FOUND);
        assert_string_equal(mr_last_error(), "no zstd for 'b' there");
        catalog_query_end(query);
        assert_int_equal(open_table(&world, "b", &count), MR_NOT_FOUND);
        world.refuse = MR_BUSY;
        query = catalog_client_obtain(world.clients[0], &wanted);
        assert_int_equal(await(&world, query), MR_BUSY);
        world.refuse = MR_OK;
        assert_int_equal(await(&world, query), MR_OK);
        catalog_query_end(query);
        table_catalog_table_fini(&wanted);
        end(&world);
    }
}

static void tables_are_listed_in_pages(void **state) {
    enum { TABLES = 3000 }; /* more than a message has room for */
    world world;
    char name[MR_PS_NAME_MAX];
    begin(&world);
    for (int i = 0; i < TABLES; i++) {
        snprintf(name, sizeof name, "a.model.with.long.names.of.its.tables.%d", i);
        table_catalog_table table = table_of(name, 0);
        assert_int_equal(catalog_log_add(world.log, &table), MR_OK);
        table_catalog_table_fini(&table);
    }
    assert_int_equal(catalog_log_drop(world.log, 5), MR_OK);
    world.lose = 30;
    catalog_query *query = catalog_client_list(world.clients[0]);
    assert_int_equal(await(&world, query), MR_OK);
    const char(*names)[MR_PS_NAME_MAX];
    assert_int_equal(catalog_query_names(query, &names), TABLES - 1);
    assert_string_equal(names[3], "a.model.with.long.names.of.its.tables.3");
    assert_string_equal(names[4], "a.model.with.long.names.of.its.tables.5");
    assert_string_equal(names[TABLES - 2], name);
    catalog_query_end(query);
    end(&world);
}

static void an_ended_client_ends_its_queries(void **state) {
    world world;
    begin(&world);
    catalog_query *query = catalog_client_open(world.clients[1], "a"), *other = catalog_client_list(world.clients[1]);
    catalog_query_end(other); /* its answer is ignored */
    catalog_client_destroy(world.clients[1]);
    world.clients[1] = NULL;
    assert_int_equal(catalog_query_status(query), MR_CLOSED);
    catalog_query_end(query);
    end(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_created_once),
        cmocka_unit_test(a_creation_costs_its_own_bytes),
        cmocka_unit_test(lost_and_repeated_messages_do_no_harm),
        cmocka_unit_test(a_restart_in_the_middle_does_no_harm),
        cmocka_unit_test(a_failing_disk_is_named),
        cmocka_unit_test(a_refusal_is_reported),
        cmocka_unit_test(tables_are_listed_in_pages),
        cmocka_unit_test(an_ended_client_ends_its_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
