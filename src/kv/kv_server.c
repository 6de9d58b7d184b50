/* kv_server.c — see kv_server.h. Tested by tests/ps_server_test.c. */
#include "kv/kv_server.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "kv/office/farewell.h"
#include "kv/shelf/budget.h"

struct kv_server {
    postoffice *postoffice;
    server *server; /* NULL: it has no number yet */
    budget budget;
    shelf_host host; /* of its tables */
    afar_sight sight;
    farewell farewell;
    bool deposed; /* another process has its number now */
};

static const glass_view *see(void *context, uint64_t process) {
    kv_server *self = context;
    return van_sight(postoffice_van(self->postoffice), process);
}

static void send_bytes(void *context, const char *address, span bytes) {
    kv_server *server = context;
    van_send(postoffice_van(server->postoffice), address, bytes);
}

static void send_pieces(void *context, const char *address, const bale_piece *pieces, size_t count) {
    kv_server *server = context;
    van_send_pieces(postoffice_van(server->postoffice), address, pieces, count);
}

static bool is_full(void *context) {
    kv_server *self = context;
    return budget_is_full(&self->budget, van_looked_us(postoffice_van(self->postoffice)));
}

static void on_replaced(void *context, uint64_t incarnation) {
    postoffice_enrol_again(((kv_server *)context)->postoffice, incarnation);
}

static void on_deposed(void *context) {
    kv_server *self = context;
    self->deposed = true;
    van_stop(postoffice_van(self->postoffice));
}

static void on_here(void *context, uint64_t incarnation) {
    kv_server *self = context;
    van *van = postoffice_van(self->postoffice);
    server_options options = {.id = postoffice_number(self->postoffice),
                              .address = van_address(van),
                              .director = postoffice_scheduler(self->postoffice),
                              .depot = postoffice_depot(self->postoffice),
                              .values = &shelf_ops,
                              .values_context = &self->host,
                              .ranks_bytes = budget_of_ranks(&self->budget),
                              .link_bytes = budget_of_links(&self->budget),
                              .is_full = is_full,
                              .send = send_bytes,
                              .send_pieces = send_pieces,
                              .on_replaced = on_replaced,
                              .on_deposed = on_deposed,
                              .context = self};
    if (self->server == NULL) self->server = server_create(&options);
    server_begin(self->server, incarnation, van_now_us(van));
}

static void take(void *context, span batch, bale *bale) {
    kv_server *self = context;
    if (self->server != NULL) server_take_bale(self->server, batch, bale);
}

static int64_t next_us(void *context) {
    kv_server *self = context;
    if (self->server == NULL) return CLOCK_NEVER_US;
    int64_t next_us = server_next_us(self->server);
    return self->farewell.leaving && self->farewell.next_us < next_us ? self->farewell.next_us : next_us;
}

static void tick_farewell(kv_server *self, int64_t now_us) {
    van *van = postoffice_van(self->postoffice);
    uint32_t number = postoffice_number(self->postoffice);
    uint64_t incarnation = server_incarnation(self->server);
    if (now_us >= self->farewell.next_us &&
        farewell_tick(&self->farewell, server_chart(self->server), number, incarnation, now_us))
        van_send_letter(van, postoffice_scheduler(self->postoffice),
                        &(letter){.kind = DESK_LEAVE, .stamp = {.id = number, .incarnation = incarnation}});
    if (farewell_is_over(&self->farewell, now_us)) van_stop(van);
}

/* The scheduler goes, too. */
static void alone(void *context) {
    kv_server *self = context;
    if (self->farewell.leaving) van_stop(postoffice_van(self->postoffice));
}

static void take_letter(void *context, const letter *letter) {
    kv_server *self = context;
    if (letter->kind != DESK_LEFT) return;
    farewell_take(&self->farewell, letter, van_now_us(postoffice_van(self->postoffice)));
    if (self->farewell.told_to_go) van_stop(postoffice_van(self->postoffice));
}

static void tick(void *context, int64_t now_us) {
    kv_server *self = context;
    if (now_us >= server_next_us(self->server)) server_tick(self->server, now_us);
    if (self->farewell.leaving) tick_farewell(self, now_us);
}

/* Messages to this process: those who handle them are called in this thread. */
static void flush(void *context) {
    notes_call_handlers(office_notes(postoffice_office(((kv_server *)context)->postoffice)));
}

static void describe(void *context, standing *standing) {
    kv_server *self = context;
    standing->memory = budget_resident(&self->budget);
    standing->memory_max = self->budget.bytes;
    if (self->server == NULL) return;
    const server_work *work = server_work_done(self->server);
    const chart *chart = server_chart(self->server);
    standing->chart = chart->number;
    standing->generation = chart->generation;
    standing->ready = 1;
    standing->pushes = work->pushes;
    standing->pulls = work->pulls;
    standing->bytes_in = work->bytes_in;
    standing->bytes_out = work->bytes_out;
    standing->disputes = server_disputes(self->server);
}

static void count_slot(const replica *replica, stock *stock) {
    shelf_look looks[STOCK_TABLES_MAX];
    const void *values = replica == NULL ? NULL : replica_values(replica);
    size_t count = values == NULL ? 0 : shelf_look_at(values, looks, STOCK_TABLES_MAX);
    for (size_t i = 0; i < count && i < STOCK_TABLES_MAX; i++)
        stock_add(stock, (stock_item){.table = looks[i].table,
                                      .keys = looks[i].now.keys,
                                      .bytes = looks[i].now.bytes,
                                      .left_out = looks[i].now.left_out});
}

/* Of the slots that it leads. */
static uint64_t count(void *context, stock *stock) {
    kv_server *self = context;
    const chart *chart = server_chart(self->server);
    uint32_t number = postoffice_number(self->postoffice);
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        const chart_slot *slot = &chart->slots[i];
        if (slot->count != 0 && slot->chain[0].server == number &&
            slot->chain[0].incarnation == server_incarnation(self->server))
            count_slot(server_replica(self->server, i), stock);
    }
    return chart->number;
}

mr_status kv_server_open(const postoffice_options *options, uint64_t memory, kv_server **out) {
    static const postoffice_host host = {.on_here = on_here,
                                         .take = take,
                                         .flush = flush,
                                         .next_us = next_us,
                                         .tick = tick,
                                         .describe = describe,
                                         .count = count,
                                         .alone = alone,
                                         .take_letter = take_letter};
    kv_server *server = xcalloc(1, sizeof *server);
    postoffice_options own = *options;
    budget_init(&server->budget, memory);
    server->budget.shared = options->env != NULL;
    own.role = DESK_SERVER;
    own.shown = server->budget.bytes;
    mr_status status = postoffice_open(&own, &host, server, &server->postoffice);
    if (status != MR_OK) {
        free(server);
        return status;
    }
    van *van = postoffice_van(server->postoffice);
    server->sight = (afar_sight){see, server};
    server->host = (shelf_host){.sight = &server->sight, .glass = van_glass(van), .process = van_process(van)};
    *out = server;
    return MR_OK;
}

void kv_server_close(kv_server *server) {
    if (server == NULL) return;
    if (server->server != NULL) server_destroy(server->server);
    server->server = NULL;
    postoffice_close(server->postoffice);
    free(server);
}

void kv_server_own(kv_server *server, const shelf_host *host) {
    server->host.optimizers = host->optimizers;
    server->host.optimizer_count = host->optimizer_count;
}

void kv_server_leave(kv_server *server) {
    van *van = postoffice_van(server->postoffice);
    if (server->farewell.leaving || server->server == NULL)
        van_stop(van);
    else
        farewell_begin(&server->farewell, van_now_us(van));
}

postoffice *kv_server_postoffice(const kv_server *server) { return server->postoffice; }
van *kv_server_van(const kv_server *server) { return postoffice_van(server->postoffice); }
bool kv_server_is_deposed(const kv_server *server) { return server->deposed; }
