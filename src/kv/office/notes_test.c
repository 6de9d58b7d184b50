/* notes_test.c — requests between processes over a network that loses and repeats: each is handled once, or said to be
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
#include "kv/office/board.h"
#include "kv/office/desk.h"
#include "kv/office/notes.h"

enum { NODES = 3, APP = 5, QUEUE = 4096 };

typedef struct net net;
typedef struct node {
    net *net;
    notes *notes;
    char address[16];
    uint32_t handled, told;
    uint64_t heads[256]; /* how often each was handled */
    mr_ps_message *kept;
    mr_status status; /* told last */
} node;

typedef struct parcel_on_its_way {
    char to[16];
    uint8_t *bytes;
    size_t size;
    uint32_t from;
} parcel_on_its_way;

struct net {
    node nodes[NODES]; /* workers 0 … */
    board board;
    parcel_on_its_way queue[QUEUE];
    size_t first, last;
    rng rng;
    uint32_t loses, repeats; /* in a hundred */
    int64_t now_us;
};

static void post(net *net, uint32_t from, const char *to, const letter *letter) {
    assert_true(net->last - net->first < QUEUE);
    parcel_on_its_way *parcel = &net->queue[net->last++ % QUEUE];
    *parcel = (parcel_on_its_way){.from = from};
    size_t length = strlen(to);
    assert_true(length < sizeof parcel->to);
    memcpy(parcel->to, to, length);
    parcel->bytes = letter_write(letter, &parcel->size);
}

static void send_letter(void *context, const char *address, const letter *letter) {
    node *node = context;
    net *net = node->net;
    if (rng_between(&net->rng, 0, 99) < net->loses) return;
    post(net, (uint32_t)(node - net->nodes), address, letter);
    if (rng_between(&net->rng, 0, 99) < net->repeats) post(net, (uint32_t)(node - net->nodes), address, letter);
}

static void stand(net *net, uint32_t number, uint64_t incarnation) {
    standing standing = {.role = MR_PS_WORKERS, .number = number, .incarnation = incarnation};
    memcpy(standing.address, net->nodes[number].address, sizeof net->nodes[number].address);
    board_take(&net->board, &standing, net->now_us);
}

static void open_node(net *net, uint32_t number, uint64_t incarnation) {
    node *node = &net->nodes[number];
    *node = (struct node){.net = net};
    snprintf(node->address, sizeof node->address, "w%u", number);
    node->notes = notes_create(&(notes_options){
        .role = MR_PS_WORKERS, .address = node->address, .scheduler = "s", .send = send_letter, .context = node});
    notes_begin(node->notes, number, incarnation, net->now_us);
    stand(net, number, incarnation);
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
    for (uint32_t i = 0; i < NODES; i++) notes_destroy(net->nodes[i].notes);
    for (; net->first < net->last; net->first++) free(net->queue[net->first % QUEUE].bytes);
    board_fini(&net->board);
    free(net);
}

static void answer_as_scheduler(net *net, uint32_t to, const letter *question) {
    size_t size;
    uint8_t *list =
        board_list(&net->board, (uint8_t)question->stamp.view, (uint32_t)question->stamp.id, net->now_us, &size);
    post(net, 99, net->nodes[to].address,
         &(letter){.kind = DESK_THOSE, .stamp = question->stamp, .value = span_of(list, size)});
    free(list);
}

static void tell(node *node) {
    void (*function)(void *context, mr_status status);
    void *context;
    mr_status status;
    while (notes_tell(node->notes, &function, &context, &status)) function(context, status);
}

static void carry(net *net) {
    parcel_on_its_way parcel = net->queue[net->first++ % QUEUE];
    letter letter;
    assert_int_equal(letter_decode(span_of(parcel.bytes, parcel.size), &letter), MR_OK);
    if (strcmp(parcel.to, "s") == 0 && letter.kind == DESK_WHO) answer_as_scheduler(net, parcel.from, &letter);
    for (uint32_t i = 0; i < NODES; i++) {
        if (strcmp(parcel.to, net->nodes[i].address) != 0 || net->nodes[i].notes == NULL) continue;
        assert_true(notes_take(net->nodes[i].notes, &letter, net->now_us));
        tell(&net->nodes[i]);
    }
    free(parcel.bytes);
}

/* A while, in which all who live are heard. */
static void run(net *net, int64_t us) {
    for (int64_t until_us = net->now_us + us; net->now_us < until_us; net->now_us += 10000) {
        for (uint32_t i = 0; i < NODES; i++) {
            node *node = &net->nodes[i];
            if (node->notes == NULL) continue;
            const board_row *row = board_find(&net->board, MR_PS_WORKERS, i);
            stand(net, i, row->now.incarnation);
            if (net->now_us >= notes_next_us(node->notes)) notes_tick(node->notes, net->now_us);
        }
        while (net->first < net->last) carry(net);
    }
}

static void count_it(void *context, mr_ps_message *message) {
    node *node = context;
    node->handled++;
    node->heads[(uint32_t)message->head % 256]++;
    notes_answer(node->notes, message, MR_OK, message->head + 1, span_of(message->body, message->size));
}

static void keep_it(void *context, mr_ps_message *message) { ((node *)context)->kept = message; }

static void on_done(void *context, mr_status status) {
    node *node = context;
    node->told++;
    node->status = status;
}

static uint64_t ask(net *net, uint32_t from, uint32_t to, int32_t head) {
    uint64_t ticket;
    notes_call call = {.roles = MR_PS_WORKERS,
                       .number = to,
                       .app = APP,
                       .head = head,
                       .body = span_of("body", 4),
                       .done = on_done,
                       .context = &net->nodes[from],
                       .kept = true};
    assert_int_equal(notes_send(net->nodes[from].notes, &call, net->now_us, &ticket), MR_OK);
    return ticket;
}

static void each_is_handled_once(void **state) {
    for (uint32_t loses = 0; loses <= 40; loses += 20) {
        net *net = begin(loses, 30);
        uint64_t tickets[200];
        assert_int_equal(notes_handle(net->nodes[1].notes, APP, count_it, &net->nodes[1]), MR_OK);
        for (int32_t i = 0; i < 200; i++) tickets[i] = ask(net, 0, 1, i);
        run(net, 120000000);
        assert_int_equal(net->nodes[0].told, 200);
        assert_int_equal(net->nodes[1].handled, 200);
        for (int32_t i = 0; i < 200; i++) {
            assert_int_equal(net->nodes[1].heads[i], 1);
            assert_int_equal(notes_status(net->nodes[0].notes, tickets[i]), MR_OK);
            mr_ps_responses *all = notes_collect(net->nodes[0].notes, tickets[i]);
            assert_true(all->count == 1 && all->list->status == MR_OK && all->list->head == i + 1);
            assert_true(all->list->size == 4 && memcmp(all->list->body, "body", 4) == 0);
            free(all);
            assert_int_equal(notes_status(net->nodes[0].notes, tickets[i]), MR_NOT_FOUND);
        }
        end(net);
    }
}

static void all_of_a_role_are_asked(void **state) {
    net *net = begin(20, 20);
    for (uint32_t i = 1; i < NODES; i++)
        assert_int_equal(notes_handle(net->nodes[i].notes, APP, count_it, &net->nodes[i]), MR_OK);
    uint64_t ticket = ask(net, 0, NOTES_EVERY, 7);
    run(net, 20000000);
    assert_int_equal(notes_status(net->nodes[0].notes, ticket), MR_OK);
    assert_int_equal(net->nodes[0].status, MR_NOT_FOUND); /* it handles nothing itself */
    mr_ps_responses *all = notes_collect(net->nodes[0].notes, ticket);
    assert_int_equal(all->count, NODES);
    for (size_t i = 0; i < all->count; i++) {
        assert_int_equal(all->list[i].from.number, i);
        assert_int_equal(all->list[i].status, i == 0 ? MR_NOT_FOUND : MR_OK);
    }
    free(all);
    end(net);
}

static void who_is_replaced_has_died(void **state) {
    net *net = begin(0, 0);
    assert_int_equal(notes_handle(net->nodes[1].notes, APP, keep_it, &net->nodes[1]), MR_OK);
    uint64_t ticket = ask(net, 0, 1, 7);
    run(net, 1000000);
    assert_non_null(net->nodes[1].kept);
    assert_int_equal(notes_status(net->nodes[0].notes, ticket), MR_BUSY);
    mr_ps_message *kept = net->nodes[1].kept;
    notes_destroy(net->nodes[1].notes);
    assert_null(kept->notes); /* mr_ps_respond says MR_CLOSED, and frees it */
    free(kept);
    open_node(net, 1, 50);
    assert_int_equal(notes_handle(net->nodes[1].notes, APP, count_it, &net->nodes[1]), MR_OK);
    run(net, 2000000);
    assert_int_equal(net->nodes[0].status, MR_PEER_DIED);
    assert_int_equal(net->nodes[1].handled, 0); /* what was for the one before is not given to it */
    (void)ask(net, 0, 1, 8);
    run(net, 1000000);
    assert_int_equal(net->nodes[1].handled, 1);
    end(net);
}

static void who_is_gone_has_died(void **state) {
    net *net = begin(0, 0);
    assert_int_equal(notes_handle(net->nodes[1].notes, APP, keep_it, &net->nodes[1]), MR_OK);
    uint64_t ticket = ask(net, 0, 1, 7);
    run(net, 1000000);
    mr_ps_message *kept = net->nodes[1].kept;
    notes *gone = net->nodes[1].notes;
    net->nodes[1].notes = NULL;
    run(net, BOARD_SILENT_US + 2 * NOTES_ASK_US);
    assert_int_equal(net->nodes[0].status, MR_PEER_DIED);
    free(notes_collect(net->nodes[0].notes, ticket));
    ticket = ask(net, 0, 1, 8); /* waits for the next one */
    run(net, 1000000);
    assert_int_equal(notes_status(net->nodes[0].notes, ticket), MR_BUSY);
    assert_non_null(strstr(mr_last_error(), "worker 1 is not connected"));
    open_node(net, 1, 60);
    assert_int_equal(notes_handle(net->nodes[1].notes, APP, count_it, &net->nodes[1]), MR_OK);
    run(net, 1000000);
    assert_int_equal(notes_status(net->nodes[0].notes, ticket), MR_OK);
    notes_destroy(gone);
    free(kept);
    end(net);
}

static void who_knows_less_does_not_hear(void **state) {
    net *net = begin(0, 0);
    assert_int_equal(notes_handle(net->nodes[1].notes, APP, count_it, &net->nodes[1]), MR_OK);
    notes_chart(net->nodes[0].notes, 5);
    (void)ask(net, 0, 1, 7);
    run(net, 2000000);
    assert_int_equal(net->nodes[1].handled, 0);
    notes_chart(net->nodes[1].notes, 6);
    run(net, 2000000);
    assert_int_equal(net->nodes[1].handled, 1);
    assert_int_equal(net->nodes[0].told, 0); /* nor does who asked hear the answer */
    notes_chart(net->nodes[0].notes, 6);
    run(net, 2000000);
    assert_int_equal(net->nodes[0].told, 1);
    assert_int_equal(net->nodes[1].handled, 1);
    end(net);
}

static void notes_are_written_and_read(void **state) {
    note said = {.kind = NOTE_REQUEST,
                 .from_role = MR_PS_WORKERS,
                 .to_role = MR_PS_SERVERS,
                 .from = 3,
                 .to = 4,
                 .address = "unix:/x",
                 .from_incarnation = 9,
                 .to_incarnation = 10,
                 .chart = 11,
                 .number = 13,
                 .oldest = 12,
                 .app = -1,
                 .head = -2,
                 .body = span_of("abc", 3)};
    letter letter = {.kind = DESK_NOTE};
    note read;
    uint8_t *bytes = note_write(&said, &letter);
    assert_int_equal(note_read(&letter, &read), MR_OK);
    assert_true(read.from == 3 && read.to == 4 && read.from_incarnation == 9 && read.to_incarnation == 10);
    assert_true(read.chart == 11 && read.number == 13 && read.oldest == 12 && read.app == -1 && read.head == -2);
    assert_true(read.body.size == 3 && memcmp(read.body.data, "abc", 3) == 0);
    size_t size = letter.value.size;
    for (letter.value.size = 0; letter.value.size + 3 < size; letter.value.size++)
        assert_int_equal(note_read(&letter, &read), MR_CORRUPT);
    free(bytes);
    said.oldest = 14; /* above its own number */
    bytes = note_write(&said, &letter);
    assert_int_equal(note_read(&letter, &read), MR_CORRUPT);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_handled_once),         cmocka_unit_test(all_of_a_role_are_asked),
        cmocka_unit_test(who_is_replaced_has_died),     cmocka_unit_test(who_is_gone_has_died),
        cmocka_unit_test(who_knows_less_does_not_hear), cmocka_unit_test(notes_are_written_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
