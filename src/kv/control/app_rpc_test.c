/* app_rpc_test.c — requests over a network that loses and repeats messages: each is handled once, or reported as
 * lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "kv/control/app_rpc.h"
#include "kv/control/control_wire.h"
#include "kv/control/process_table.h"

enum { NODES = 3, APP = 5, QUEUE = 4096 };

typedef struct net net;
typedef struct node {
    net *net;
    app_rpc *rpc;
    process_state state;
    uint32_t handled, told;
    uint64_t heads[256]; /* times that each request was handled */
    mr_ps_message *kept;
    mr_status status; /* status of the last callback */
} node;

typedef struct payload_on_its_way {
    char to[16];
    uint8_t *bytes;
    size_t size;
    uint32_t from;
} payload_on_its_way;

struct net {
    node nodes[NODES]; /* workers, by number */
    process_table table;
    payload_on_its_way queue[QUEUE];
    size_t first, last;
    rng rng;
    uint32_t loses, repeats; /* percent */
    int64_t now_us;
};

static void post(net *net, uint32_t from, const char *to, const control_message *message) {
    assert_true(net->last - net->first < QUEUE);
    payload_on_its_way *payload = &net->queue[net->last++ % QUEUE];
    *payload = (payload_on_its_way){.from = from};
    size_t length = strlen(to);
    assert_true(length < sizeof payload->to);
    memcpy(payload->to, to, length);
    payload->bytes = control_message_write(message, &payload->size);
}

static void send_message(void *context, const char *address, const control_message *message) {
    node *node = context;
    net *net = node->net;
    if (rng_between(&net->rng, 0, 99) < net->loses) return;
    post(net, (uint32_t)(node - net->nodes), address, message);
    if (rng_between(&net->rng, 0, 99) < net->repeats) post(net, (uint32_t)(node - net->nodes), address, message);
}

static void open_node(net *net, uint32_t number, uint64_t incarnation) {
    node *node = &net->nodes[number];
    *node = (struct node){.net = net, .state = {.role = MR_PS_WORKERS, .number = number, .incarnation = incarnation}};
    snprintf(node->state.address, sizeof node->state.address, "w%u", number);
    node->rpc = app_rpc_create(
        &(process_sender){.scheduler = "s", .state = &node->state, .send = send_message, .context = node});
    app_rpc_begin(node->rpc, net->now_us);
    process_table_take(&net->table, &node->state, net->now_us);
}

static net *begin(uint32_t loses, uint32_t repeats) {
    net *net = xcalloc(1, sizeof *net);
    net->loses = loses;
    net->repeats = repeats;
    net->now_us = 1000;
    rng_init(&net->rng, 42);
    for (uint32_t i = 0; i < NODES; i++) open_node(net, i, 10 + i);
    return net;
}

static void end(net *net) {
    for (uint32_t i = 0; i < NODES; i++) app_rpc_destroy(net->nodes[i].rpc);
    for (; net->first < net->last; net->first++) free(net->queue[net->first % QUEUE].bytes);
    process_table_fini(&net->table);
    free(net);
}

static void answer_as_scheduler(net *net, uint32_t to, const control_message *question) {
    size_t size;
    uint8_t *list = process_table_list(&net->table, (uint8_t)question->stamp.view, (uint32_t)question->stamp.id,
                                       net->now_us, &size);
    post(net, 99, net->nodes[to].state.address,
         &(control_message){.kind = CONTROL_THOSE, .stamp = question->stamp, .value = span_of(list, size)});
    free(list);
}

static void tell(node *node) {
    void (*function)(void *context, mr_status status);
    void *context;
    mr_status status;
    while (app_rpc_tell(node->rpc, &function, &context, &status)) function(context, status);
}

static void carry(net *net) {
    payload_on_its_way payload = net->queue[net->first++ % QUEUE];
    control_message message;
    assert_int_equal(control_message_decode(span_of(payload.bytes, payload.size), &message), MR_OK);
    if (strcmp(payload.to, "s") == 0 && message.kind == CONTROL_WHO) answer_as_scheduler(net, payload.from, &message);
    for (uint32_t i = 0; i < NODES; i++) {
        if (strcmp(payload.to, net->nodes[i].state.address) != 0 || net->nodes[i].rpc == NULL) continue;
        assert_true(app_rpc_take(net->nodes[i].rpc, &message, net->now_us));
        tell(&net->nodes[i]);
    }
    free(payload.bytes);
}

/* Runs for `us`; all living nodes report their state. */
static void run(net *net, int64_t us) {
    for (int64_t until_us = net->now_us + us; net->now_us < until_us; net->now_us += 10000) {
        for (uint32_t i = 0; i < NODES; i++) {
            node *node = &net->nodes[i];
            if (node->rpc == NULL) continue;
            process_table_take(&net->table, &node->state, net->now_us);
            if (net->now_us >= app_rpc_next_us(node->rpc)) app_rpc_tick(node->rpc, net->now_us);
        }
        while (net->first < net->last) carry(net);
    }
}

static void count_it(void *context, mr_ps_message *message) {
    node *node = context;
    node->handled++;
    node->heads[(uint32_t)message->head % 256]++;
    app_rpc_answer(node->rpc, message, MR_OK, message->head + 1, span_of(message->body, message->size));
}

static void keep_it(void *context, mr_ps_message *message) { ((node *)context)->kept = message; }

static void on_done(void *context, mr_status status) {
    node *node = context;
    node->told++;
    node->status = status;
}

static uint64_t ask(net *net, uint32_t from, uint32_t to, int32_t head) {
    uint64_t ticket;
    app_rpc_call call = {.roles = MR_PS_WORKERS,
                         .number = to,
                         .app = APP,
                         .head = head,
                         .body = span_of("body", 4),
                         .done = on_done,
                         .context = &net->nodes[from],
                         .kept = true};
    assert_int_equal(app_rpc_send(net->nodes[from].rpc, &call, net->now_us, &ticket), MR_OK);
    return ticket;
}

static void each_is_handled_once(void **state) {
    for (uint32_t loses = 0; loses <= 40; loses += 20) {
        net *net = begin(loses, 30);
        uint64_t tickets[200];
        assert_int_equal(app_rpc_handle(net->nodes[1].rpc, APP, count_it, &net->nodes[1]), MR_OK);
        for (int32_t i = 0; i < 200; i++) tickets[i] = ask(net, 0, 1, i);
        run(net, 120000000);
        assert_int_equal(net->nodes[0].told, 200);
        assert_int_equal(net->nodes[1].handled, 200);
        for (int32_t i = 0; i < 200; i++) {
            assert_int_equal(net->nodes[1].heads[i], 1);
            assert_int_equal(app_rpc_status(net->nodes[0].rpc, tickets[i]), MR_OK);
            mr_ps_responses *all = app_rpc_collect(net->nodes[0].rpc, tickets[i]);
            assert_true(all->count == 1 && all->list->status == MR_OK && all->list->head == i + 1);
            assert_true(all->list->size == 4 && memcmp(all->list->body, "body", 4) == 0);
            free(all);
            assert_int_equal(app_rpc_status(net->nodes[0].rpc, tickets[i]), MR_NOT_FOUND);
        }
        end(net);
    }
}

static void all_of_a_role_are_asked(void **state) {
    net *net = begin(20, 20);
    for (uint32_t i = 1; i < NODES; i++)
        assert_int_equal(app_rpc_handle(net->nodes[i].rpc, APP, count_it, &net->nodes[i]), MR_OK);
    uint64_t ticket = ask(net, 0, APP_RPC_EVERY, 7);
    run(net, 20000000);
    assert_int_equal(app_rpc_status(net->nodes[0].rpc, ticket), MR_OK);
    assert_int_equal(net->nodes[0].status, MR_NOT_FOUND); /* the node has no handler */
    mr_ps_responses *all = app_rpc_collect(net->nodes[0].rpc, ticket);
    assert_int_equal(all->count, NODES);
    for (size_t i = 0; i < all->count; i++) {
        assert_int_equal(all->list[i].from.number, i);
        assert_int_equal(all->list[i].status, i == 0 ? MR_NOT_FOUND : MR_OK);
    }
    free(all);
    end(net);
}

static void a_message_to_a_replaced_process_fails_as_dead(void **state) {
    net *net = begin(0, 0);
    assert_int_equal(app_rpc_handle(net->nodes[1].rpc, APP, keep_it, &net->nodes[1]), MR_OK);
    uint64_t ticket = ask(net, 0, 1, 7);
    run(net, 1000000);
    assert_non_null(net->nodes[1].kept);
    assert_int_equal(app_rpc_status(net->nodes[0].rpc, ticket), MR_BUSY);
    mr_ps_message *kept = net->nodes[1].kept;
    app_rpc_destroy(net->nodes[1].rpc);
    assert_null(kept->rpc); /* mr_ps_respond returns MR_CLOSED and frees the message */
    free(kept);
    open_node(net, 1, 50);
    assert_int_equal(app_rpc_handle(net->nodes[1].rpc, APP, count_it, &net->nodes[1]), MR_OK);
    run(net, 2000000);
    assert_int_equal(net->nodes[0].status, MR_PEER_DIED);
    assert_int_equal(net->nodes[1].handled, 0); /* the next process does not get its predecessor's request */
    (void)ask(net, 0, 1, 8);
    run(net, 1000000);
    assert_int_equal(net->nodes[1].handled, 1);
    end(net);
}

static void a_message_to_a_gone_process_fails_as_dead(void **state) {
    net *net = begin(0, 0);
    assert_int_equal(app_rpc_handle(net->nodes[1].rpc, APP, keep_it, &net->nodes[1]), MR_OK);
    uint64_t ticket = ask(net, 0, 1, 7);
    run(net, 1000000);
    mr_ps_message *kept = net->nodes[1].kept;
    app_rpc *gone = net->nodes[1].rpc;
    net->nodes[1].rpc = NULL;
    run(net, PROCESS_TABLE_SILENT_US + 2 * APP_RPC_ASK_US);
    assert_int_equal(net->nodes[0].status, MR_PEER_DIED);
    free(app_rpc_collect(net->nodes[0].rpc, ticket));
    ticket = ask(net, 0, 1, 8); /* waits for the next process */
    run(net, 1000000);
    assert_int_equal(app_rpc_status(net->nodes[0].rpc, ticket), MR_BUSY);
    assert_non_null(strstr(mr_last_error(), "worker 1 is not connected"));
    open_node(net, 1, 60);
    assert_int_equal(app_rpc_handle(net->nodes[1].rpc, APP, count_it, &net->nodes[1]), MR_OK);
    run(net, 1000000);
    assert_int_equal(app_rpc_status(net->nodes[0].rpc, ticket), MR_OK);
    app_rpc_destroy(gone);
    free(kept);
    end(net);
}

static void a_receiver_with_an_older_map_ignores_messages(void **state) {
    net *net = begin(0, 0);
    assert_int_equal(app_rpc_handle(net->nodes[1].rpc, APP, count_it, &net->nodes[1]), MR_OK);
    net->nodes[0].state.map = 5;
    (void)ask(net, 0, 1, 7);
    run(net, 2000000);
    assert_int_equal(net->nodes[1].handled, 0);
    net->nodes[1].state.map = 6;
    run(net, 2000000);
    assert_int_equal(net->nodes[1].handled, 1);
    assert_int_equal(net->nodes[0].told, 0); /* the sender gets no answer */
    net->nodes[0].state.map = 6;
    run(net, 2000000);
    assert_int_equal(net->nodes[0].told, 1);
    assert_int_equal(net->nodes[1].handled, 1);
    end(net);
}

static void app_rpc_are_written_and_read(void **state) {
    app_message said = {.kind = APP_MESSAGE_REQUEST,
                        .from_role = MR_PS_WORKERS,
                        .to_role = MR_PS_SERVERS,
                        .from = 3,
                        .to = 4,
                        .address = "unix:/x",
                        .from_incarnation = 9,
                        .to_incarnation = 10,
                        .map = 11,
                        .number = 13,
                        .oldest = 12,
                        .app = -1,
                        .head = -2,
                        .body = span_of("abc", 3)};
    control_message message = {.kind = CONTROL_NOTE};
    app_message read;
    uint8_t *bytes = app_message_write(&said, &message);
    assert_int_equal(app_message_read(&message, &read), MR_OK);
    assert_true(read.from == 3 && read.to == 4 && read.from_incarnation == 9 && read.to_incarnation == 10);
    assert_true(read.map == 11 && read.number == 13 && read.oldest == 12 && read.app == -1 && read.head == -2);
    assert_true(read.body.size == 3 && memcmp(read.body.data, "abc", 3) == 0);
    size_t size = message.value.size;
    for (message.value.size = 0; message.value.size + 3 < size; message.value.size++)
        assert_int_equal(app_message_read(&message, &read), MR_CORRUPT);
    free(bytes);
    said.oldest = 14; /* above the request's own number */
    bytes = app_message_write(&said, &message);
    assert_int_equal(app_message_read(&message, &read), MR_CORRUPT);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_handled_once),
        cmocka_unit_test(all_of_a_role_are_asked),
        cmocka_unit_test(a_message_to_a_replaced_process_fails_as_dead),
        cmocka_unit_test(a_message_to_a_gone_process_fails_as_dead),
        cmocka_unit_test(a_receiver_with_an_older_map_ignores_messages),
        cmocka_unit_test(app_rpc_are_written_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
