/* batcher_test.c — messages of one step leave as one packet; cluster maps come from the controller alone. */
#include "ps/batcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"

enum { MESSAGES = 64, BATCHERS = 3 };

typedef struct fixture { /* a controller "a" and two others, and the packets between them, delivered by hand */
    batcher *batchers[BATCHERS];
    struct {
        int to;
        shared_bytes *bytes;
    } messages[MESSAGES];
    size_t first, count;
    bool admits; /* the controller adopts cluster maps of others */
    size_t parts[BATCHERS], maps[BATCHERS], heads[BATCHERS];
    uint64_t last_name[BATCHERS];
    size_t last_size[BATCHERS];
    uint64_t last_sum[BATCHERS]; /* of the last large payload */
} fixture;

typedef struct endpoint {
    fixture *fixture;
    int at;
} endpoint;

static void on_send(void *context, const char *address, span bytes) {
    fixture *fixture = ((endpoint *)context)->fixture;
    assert_true(fixture->count < MESSAGES);
    fixture->messages[fixture->count].to = address[0] - 'a';
    fixture->messages[fixture->count++].bytes = shared_bytes_copy(bytes);
}
static void on_map(void *context, const cluster_map *map) {
    endpoint *endpoint = context;
    endpoint->fixture->maps[endpoint->at]++;
}
static void on_part(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes) {
    endpoint *endpoint = context;
    endpoint->fixture->parts[endpoint->at]++;
    endpoint->fixture->last_name[endpoint->at] = message->name;
    endpoint->fixture->last_size[endpoint->at] = message->payload.size;
    if (message->payload.size > SLOT_MESSAGE_POINTED)
        endpoint->fixture->last_sum[endpoint->at] = XXH3_64bits(message->payload.data, message->payload.size);
}
static void on_head(void *context, const slot_message_head *from) {
    endpoint *endpoint = context;
    endpoint->fixture->heads[endpoint->at]++;
}

static bool admits_map(void *context, const slot_message_head *from) {
    const endpoint *endpoint = context;
    return endpoint->fixture->admits && from->who == 1;
}

static void deliver(fixture *fixture) {
    for (; fixture->first < fixture->count; fixture->first++) {
        shared_bytes *bytes = fixture->messages[fixture->first].bytes;
        batcher_take(fixture->batchers[fixture->messages[fixture->first].to], shared_bytes_bytes(bytes));
        shared_bytes_unref(bytes);
    }
}

static void adopt(batcher *batcher, uint64_t number, uint64_t generation) {
    cluster_map map = {.number = number, .generation = generation, .birth = 1, .slot_count = 1};
    map.slots = xcalloc(1, sizeof *map.slots);
    map.slots[0].epoch = number;
    size_t size = cluster_map_size(&map, 0);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    cluster_map_encode(&map, 0, &writer);
    batcher_adopt(batcher, span_of(bytes, size));
    free(bytes);
    cluster_map_fini(&map);
}

static void open_fixture(fixture *fixture, endpoint *endpoints) {
    *fixture = (struct fixture){0};
    for (int i = 0; i < BATCHERS; i++) {
        const char address[] = {(char)('a' + i), '\0'};
        endpoints[i] = (endpoint){fixture, i};
        batcher_host host = {.send = on_send,
                             .send_context = &endpoints[i],
                             .on_map = on_map,
                             .on_part = on_part,
                             .on_head = on_head,
                             .context = &endpoints[i],
                             .controller = i == 0 ? NULL : "a",
                             .admits_map = admits_map,
                             .takes_pieces = true};
        fixture->batchers[i] = batcher_create(&host, i == 0 ? SLOT_MESSAGE_CONTROLLER : (uint32_t)i, address);
    }
}
static void close_fixture(fixture *fixture) {
    for (int i = 0; i < BATCHERS; i++) batcher_destroy(fixture->batchers[i]);
}

static void one_step_is_one_batch(void **state) {
    fixture fixture;
    endpoint endpoints[BATCHERS];
    open_fixture(&fixture, endpoints);
    for (uint64_t i = 1; i <= 3; i++)
        batcher_add(fixture.batchers[0], "b", &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = i});
    assert_int_equal(fixture.count, 0);
    batcher_flush(fixture.batchers[0]);
    assert_int_equal(fixture.count, 1);
    deliver(&fixture);
    assert_true(fixture.parts[1] == 3 && fixture.heads[1] == 1 && fixture.last_name[1] == 3);
    batcher_add(fixture.batchers[0], "b", NULL); /* a heartbeat */
    batcher_flush(fixture.batchers[0]);
    deliver(&fixture);
    assert_true(fixture.parts[1] == 3 && fixture.heads[1] == 2);
    close_fixture(&fixture);
}

/* Sends a packet, with a message or as a heartbeat, and delivers all packets that follow. */
static void send_to(fixture *fixture, int from, const char *to, const slot_message *message) {
    batcher_add(fixture->batchers[from], to, message);
    batcher_flush(fixture->batchers[from]);
    deliver(fixture);
}

static uint64_t number_at(const fixture *fixture, int at) { return batcher_map(fixture->batchers[at])->number; }

static void maps_come_from_the_controller(void **state) {
    fixture fixture;
    endpoint endpoints[BATCHERS];
    open_fixture(&fixture, endpoints);
    adopt(fixture.batchers[0], 5, 9);
    send_to(&fixture, 0, "b", NULL); /* b has the older map and asks for the changes */
    assert_true(number_at(&fixture, 1) == 5 && fixture.maps[1] == 1);
    send_to(&fixture, 1, "c", NULL); /* c learns the number from b, and the map from the controller */
    assert_true(number_at(&fixture, 2) == 5 && fixture.maps[2] == 1);
    adopt(fixture.batchers[0], 6, 9);
    send_to(&fixture, 1, "a", NULL); /* b has the older map and receives the changes */
    assert_int_equal(number_at(&fixture, 1), 6);
    send_to(&fixture, 2, "b", NULL); /* c has the older map, and learns the number from the answer */
    assert_int_equal(number_at(&fixture, 2), 6);
    adopt(fixture.batchers[0], 4, 9); /* an older map */
    assert_true(number_at(&fixture, 0) == 6 && fixture.maps[0] == 2);
    close_fixture(&fixture);
}

static void a_false_map_is_not_adopted(void **state) {
    fixture fixture;
    endpoint endpoints[BATCHERS];
    open_fixture(&fixture, endpoints);
    adopt(fixture.batchers[0], 5, 9);
    send_to(&fixture, 0, "b", NULL);
    send_to(&fixture, 0, "c", NULL);
    adopt(fixture.batchers[1], 6, 9); /* b makes a map of its own */
    size_t size;
    uint8_t *bytes = cluster_map_write(batcher_map(fixture.batchers[1]), 0, &size);
    const slot_message map = {.kind = SLOT_MESSAGE_MAP, .payload = span_of(bytes, size)};
    for (int i = 0; i < 3; i++) {
        send_to(&fixture, 1, "c", &map);
        send_to(&fixture, 1, "a", &map);
    }
    assert_true(number_at(&fixture, 2) == 5 && number_at(&fixture, 0) == 5);
    assert_true(fixture.count < 20); /* nobody asks b again and again */
    fixture.admits = true;           /* the controller's metadata store has lost its disk */
    send_to(&fixture, 1, "a", NULL);
    assert_int_equal(number_at(&fixture, 0), 6);
    free(bytes);
    close_fixture(&fixture);
}

static void another_generation_is_not_heard(void **state) {
    fixture fixture;
    endpoint endpoints[BATCHERS];
    open_fixture(&fixture, endpoints);
    fixture.admits = true;
    adopt(fixture.batchers[0], 5, 9);
    adopt(fixture.batchers[1], 5, 8);
    batcher_add(fixture.batchers[0], "b", &(slot_message){.kind = SLOT_MESSAGE_SEALED});
    batcher_flush(fixture.batchers[0]);
    deliver(&fixture);
    assert_int_equal(fixture.parts[1], 0);
    adopt(fixture.batchers[1], 6, 7);
    /* a message of the old generation */
    batcher_add(fixture.batchers[0], "b", &(slot_message){.kind = SLOT_MESSAGE_SEALED});
    batcher_flush(fixture.batchers[0]);
    deliver(&fixture);
    /* a does not read the message, but receives the new cluster map */
    assert_true(fixture.parts[1] == 0 && batcher_map(fixture.batchers[0])->generation == 7);
    close_fixture(&fixture);
}

static void messages_to_oneself_are_delivered(void **state) {
    fixture fixture;
    endpoint endpoints[BATCHERS];
    open_fixture(&fixture, endpoints);
    for (uint64_t i = 1; i <= 600; i++)
        batcher_add(fixture.batchers[0], "a", &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = i});
    assert_int_equal(fixture.parts[0], 0);
    batcher_flush(fixture.batchers[0]);
    assert_true(fixture.parts[0] == 600 && fixture.last_name[0] == 600 && fixture.count == 0);
    batcher_take(fixture.batchers[0], span_of("noise", 5));
    assert_int_equal(fixture.heads[0], 2);
    close_fixture(&fixture);
}

/* The limit of one packet is no limit of a message. */
static void a_message_of_any_size_arrives(void **state) {
    fixture fixture;
    endpoint endpoints[BATCHERS];
    open_fixture(&fixture, endpoints);
    size_t size = (size_t)SLOT_MESSAGE_PAYLOAD_MAX + 4097;
    shared_bytes *large = shared_bytes_new(size);
    for (size_t i = 0; i < size; i++) shared_bytes_room(large)[i] = (uint8_t)(i * 31 + (i >> 16));
    uint64_t sum = XXH3_64bits(shared_bytes_room(large), size);
    batcher_add(
        fixture.batchers[0], "b",
        &(slot_message){.kind = SLOT_MESSAGE_STATE, .name = 5, .payload = shared_bytes_bytes(large), .bytes = large});
    batcher_add(fixture.batchers[0], "b", &(slot_message){.kind = SLOT_MESSAGE_ENTRY, .name = 6});
    batcher_flush(fixture.batchers[0]);
    deliver(&fixture);
    assert_true(fixture.parts[1] == 2 && fixture.last_name[1] == 6 && fixture.last_sum[1] == sum);
    assert_true(large->refs == 1 && batcher_out(fixture.batchers[0]) == 0);
    shared_bytes_unref(large);
    close_fixture(&fixture);
}

enum { MANY = 10000 };

typedef struct many { /* the last message to each of many peers, and the number of messages out of order */
    size_t parts[MANY], next, wrong;
} many;

static void on_send_to_many(void *context, const char *address, span bytes) {
    many *many = context;
    reader reader = reader_of(bytes.data, bytes.size);
    slot_message_head head;
    uint32_t count;
    size_t to = strtoul(address + 1, NULL, 10);
    many->wrong += slot_message_read_head(&reader, &head, &count) != MR_OK || to != many->next++;
    many->parts[to] += count;
}

static void many_are_told_in_one_step(void **state) {
    static many many;
    batcher_host host = {
        .send = on_send_to_many, .send_context = &many, .on_map = on_map, .on_part = on_part, .context = &many};
    batcher *batcher = batcher_create(&host, 7, "me");
    static const size_t sizes[] = {16, 17, 18, MANY, 40, 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        many = (struct many){0};
        for (size_t j = 0; j < 2 * sizes[i]; j++) { /* two messages to each peer */
            char address[32];
            snprintf(address, sizeof address, "w%zu", j % sizes[i]);
            batcher_add(batcher, address, &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = j});
        }
        batcher_flush(batcher);
        assert_true(many.next == sizes[i] && many.wrong == 0);
        for (size_t j = 0; j < MANY; j++) assert_int_equal(many.parts[j], j < sizes[i] ? 2 : 0);
    }
    batcher_destroy(batcher);
}

typedef struct gathering {
    const uint8_t *pointed; /* the large payload in the pieces that were sent */
    shared_bytes *arrived, *kept;
} gathering;

static void on_pieces(void *context, const char *address, const shared_bytes_piece *pieces, size_t count) {
    gathering *gathering = context;
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true((pieces[i].shared != NULL) == (pieces[i].bytes.size >= SLOT_MESSAGE_POINTED));
        if (pieces[i].shared != NULL) assert_int_equal(size % 8, 0);
        if (pieces[i].shared != NULL) gathering->pointed = pieces[i].bytes.data;
        size += pieces[i].bytes.size;
    }
    if (gathering->arrived != NULL) return; /* an answer */
    gathering->arrived = shared_bytes_new(size);
    uint8_t *at = shared_bytes_room(gathering->arrived);
    for (size_t i = 0; i < count; at += pieces[i++].bytes.size) memcpy(at, pieces[i].bytes.data, pieces[i].bytes.size);
}

static void on_kept(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes) {
    if (message->payload.size >= SLOT_MESSAGE_POINTED) ((gathering *)context)->kept = shared_bytes_ref(bytes);
}

static void payloads_are_pointed_at_where_they_lie(void **state) {
    fixture fixture;
    endpoint endpoints[BATCHERS];
    gathering gathering = {0};
    open_fixture(&fixture, endpoints);
    batcher_host host = {.send_pieces = on_pieces,
                         .send_context = &gathering,
                         .on_map = on_map,
                         .on_part = on_kept,
                         .context = &gathering};
    batcher *gathers = batcher_create(&host, 7, "g");
    shared_bytes *large = shared_bytes_new(SLOT_MESSAGE_POINTED), *small = shared_bytes_copy(span_of("abc", 3));
    memset(shared_bytes_room(large), 'x', SLOT_MESSAGE_POINTED);
    batcher_add(
        gathers, "b",
        &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = 1, .payload = shared_bytes_bytes(small), .bytes = small});
    batcher_add(
        gathers, "b",
        &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = 2, .payload = shared_bytes_bytes(large), .bytes = large});
    batcher_add(gathers, "b", &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = 3});
    assert_true(large->refs == 2 && small->refs == 1); /* the large payload is referenced, the small one copied */
    batcher_flush(gathers);
    assert_ptr_equal(gathering.pointed, shared_bytes_bytes(large).data);
    /* a flush drops the reference; a sender that needs the bytes longer references them itself */
    assert_int_equal(large->refs, 1);
    shared_bytes *arrived = gathering.arrived;
    batcher_take_bytes(fixture.batchers[1], shared_bytes_bytes(arrived), arrived);
    assert_true(fixture.parts[1] == 3 && fixture.last_name[1] == 3); /* the same packet as in one piece */
    batcher_take_bytes(gathers, shared_bytes_bytes(arrived), arrived);
    /* the receiver references the buffer and copies nothing */
    assert_true(gathering.kept == arrived && arrived->refs == 2);
    shared_bytes_unref(gathering.kept);
    shared_bytes_unref(arrived);
    batcher_destroy(gathers);
    assert_int_equal(large->refs, 1);
    shared_bytes_unref(large);
    shared_bytes_unref(small);
    close_fixture(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_are_pointed_at_where_they_lie), cmocka_unit_test(one_step_is_one_batch),
        cmocka_unit_test(a_message_of_any_size_arrives),          cmocka_unit_test(many_are_told_in_one_step),
        cmocka_unit_test(maps_come_from_the_controller),          cmocka_unit_test(a_false_map_is_not_adopted),
        cmocka_unit_test(another_generation_is_not_heard),        cmocka_unit_test(messages_to_oneself_are_delivered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
