/* post_test.c — messages of one step leave as one packet; cluster maps spread with any message. */
#include "ps/post.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

enum { MAIL = 16 };

typedef struct office { /* two posts, and the mail between them, delivered by hand */
    post *posts[2];
    struct {
        int to;
        bale *bytes;
    } mail[MAIL];
    size_t first, count;
    size_t parts[2], charts[2], heads[2];
    uint64_t last_name[2];
} office;

typedef struct desk {
    office *office;
    int at;
} desk;

static void on_send(void *context, const char *address, span bytes) {
    office *office = ((desk *)context)->office;
    assert_true(office->count < MAIL);
    office->mail[office->count].to = address[0] - 'a';
    office->mail[office->count++].bytes = bale_copy(bytes);
}
static void on_chart(void *context, const chart *chart) {
    desk *desk = context;
    desk->office->charts[desk->at]++;
}
static void on_part(void *context, const part_head *from, const part *part, bale *bale) {
    desk *desk = context;
    desk->office->parts[desk->at]++;
    desk->office->last_name[desk->at] = part->name;
}
static void on_head(void *context, const part_head *from) {
    desk *desk = context;
    desk->office->heads[desk->at]++;
}

static void deliver(office *office) {
    for (; office->first < office->count; office->first++) {
        bale *bytes = office->mail[office->first].bytes;
        post_take(office->posts[office->mail[office->first].to], bale_bytes(bytes));
        bale_unref(bytes);
    }
}

static void adopt(post *post, uint64_t number, uint64_t generation) {
    chart chart = {.number = number, .generation = generation, .birth = 1, .slot_count = 1};
    chart.slots = xcalloc(1, sizeof *chart.slots);
    chart.slots[0].epoch = number;
    size_t size = chart_size(&chart, 0);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    chart_encode(&chart, 0, &writer);
    post_adopt(post, span_of(bytes, size));
    free(bytes);
    chart_fini(&chart);
}

static void open_office(office *office, desk *desks) {
    *office = (struct office){0};
    for (int i = 0; i < 2; i++) {
        desks[i] = (desk){office, i};
        post_host host = {.send = on_send,
                          .send_context = &desks[i],
                          .on_chart = on_chart,
                          .on_part = on_part,
                          .on_head = on_head,
                          .context = &desks[i]};
        office->posts[i] = post_create(&host, (uint32_t)i, i == 0 ? "a" : "b");
    }
}
static void close_office(office *office) {
    for (int i = 0; i < 2; i++) post_destroy(office->posts[i]);
}

static void one_step_is_one_batch(void **state) {
    office office;
    desk desks[2];
    open_office(&office, desks);
    for (uint64_t i = 1; i <= 3; i++) post_add(office.posts[0], "b", &(part){.kind = PART_TOLD, .name = i});
    assert_int_equal(office.count, 0);
    post_flush(office.posts[0]);
    assert_int_equal(office.count, 1);
    deliver(&office);
    assert_true(office.parts[1] == 3 && office.heads[1] == 1 && office.last_name[1] == 3);
    post_add(office.posts[0], "b", NULL); /* a sign of life */
    post_flush(office.posts[0]);
    deliver(&office);
    assert_true(office.parts[1] == 3 && office.heads[1] == 2);
    close_office(&office);
}

static void charts_spread_both_ways(void **state) {
    office office;
    desk desks[2];
    open_office(&office, desks);
    adopt(office.posts[0], 5, 9);
    post_add(office.posts[0], "b", NULL);
    post_flush(office.posts[0]);
    deliver(&office); /* b is behind, and asks */
    assert_true(post_chart(office.posts[1])->number == 5 && office.charts[1] == 1);
    adopt(office.posts[1], 6, 9);
    post_add(office.posts[0], "b", NULL); /* a is behind, and is told */
    post_flush(office.posts[0]);
    deliver(&office);
    assert_int_equal(post_chart(office.posts[0])->number, 6);
    adopt(office.posts[0], 4, 9); /* an older one */
    assert_true(post_chart(office.posts[0])->number == 6 && office.charts[0] == 2);
    close_office(&office);
}

static void another_generation_is_not_heard(void **state) {
    office office;
    desk desks[2];
    open_office(&office, desks);
    adopt(office.posts[0], 5, 9);
    adopt(office.posts[1], 5, 8);
    post_add(office.posts[0], "b", &(part){.kind = PART_TOLD});
    post_flush(office.posts[0]);
    deliver(&office);
    assert_int_equal(office.parts[1], 0);
    adopt(office.posts[1], 6, 7);
    post_add(office.posts[0], "b", &(part){.kind = PART_TOLD}); /* as it was said in the old one */
    post_flush(office.posts[0]);
    deliver(&office);
    assert_true(office.parts[1] == 0 && post_chart(office.posts[0])->generation == 7); /* but a has heard of the new */
    close_office(&office);
}

static void what_is_said_to_oneself_is_heard(void **state) {
    office office;
    desk desks[2];
    open_office(&office, desks);
    for (uint64_t i = 1; i <= 600; i++) post_add(office.posts[0], "a", &(part){.kind = PART_TOLD, .name = i});
    assert_int_equal(office.parts[0], 0);
    post_flush(office.posts[0]);
    assert_true(office.parts[0] == 600 && office.last_name[0] == 600 && office.count == 0);
    post_take(office.posts[0], span_of("noise", 5));
    assert_int_equal(office.heads[0], 2);
    close_office(&office);
}

enum { MANY = 10000 };

typedef struct many { /* the last batch to each of many, and how often one came out of turn */
    size_t parts[MANY], next, wrong;
} many;

static void on_send_to_many(void *context, const char *address, span bytes) {
    many *many = context;
    reader reader = reader_of(bytes.data, bytes.size);
    part_head head;
    uint32_t count;
    size_t to = strtoul(address + 1, NULL, 10);
    many->wrong += part_read_head(&reader, &head, &count) != MR_OK || to != many->next++;
    many->parts[to] += count;
}

static void many_are_told_in_one_step(void **state) {
    static many many;
    post_host host = {
        .send = on_send_to_many, .send_context = &many, .on_chart = on_chart, .on_part = on_part, .context = &many};
    post *post = post_create(&host, 7, "me");
    static const size_t sizes[] = {16, 17, 18, MANY, 40, 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        many = (struct many){0};
        for (size_t j = 0; j < 2 * sizes[i]; j++) { /* to each, and to each once more */
            char address[32];
            snprintf(address, sizeof address, "w%zu", j % sizes[i]);
            post_add(post, address, &(part){.kind = PART_TOLD, .name = j});
        }
        post_flush(post);
        assert_true(many.next == sizes[i] && many.wrong == 0);
        for (size_t j = 0; j < MANY; j++) assert_int_equal(many.parts[j], j < sizes[i] ? 2 : 0);
    }
    post_destroy(post);
}

typedef struct gathering {
    const uint8_t *pointed; /* the large payload, as it was sent */
    bale *arrived, *kept;
} gathering;

static void on_pieces(void *context, const char *address, const bale_piece *pieces, size_t count) {
    gathering *gathering = context;
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true((pieces[i].bale != NULL) == (pieces[i].bytes.size >= PART_POINTED));
        if (pieces[i].bale != NULL) assert_int_equal(size % 8, 0);
        if (pieces[i].bale != NULL) gathering->pointed = pieces[i].bytes.data;
        size += pieces[i].bytes.size;
    }
    if (gathering->arrived != NULL) return; /* an answer */
    gathering->arrived = bale_new(size);
    uint8_t *at = bale_room(gathering->arrived);
    for (size_t i = 0; i < count; at += pieces[i++].bytes.size) memcpy(at, pieces[i].bytes.data, pieces[i].bytes.size);
}

static void on_kept(void *context, const part_head *from, const part *part, bale *bale) {
    if (part->payload.size >= PART_POINTED) ((gathering *)context)->kept = bale_ref(bale);
}

static void payloads_are_pointed_at_where_they_lie(void **state) {
    office office;
    desk desks[2];
    gathering gathering = {0};
    open_office(&office, desks);
    post_host host = {.send_pieces = on_pieces,
                      .send_context = &gathering,
                      .on_chart = on_chart,
                      .on_part = on_kept,
                      .context = &gathering};
    post *gathers = post_create(&host, 7, "g");
    bale *large = bale_new(PART_POINTED), *small = bale_copy(span_of("abc", 3));
    memset(bale_room(large), 'x', PART_POINTED);
    post_add(gathers, "b", &(part){.kind = PART_TOLD, .name = 1, .payload = bale_bytes(small), .bale = small});
    post_add(gathers, "b", &(part){.kind = PART_TOLD, .name = 2, .payload = bale_bytes(large), .bale = large});
    post_add(gathers, "b", &(part){.kind = PART_TOLD, .name = 3});
    assert_true(large->refs == 2 && small->refs == 1); /* held, and copied */
    post_flush(gathers);
    assert_ptr_equal(gathering.pointed, bale_bytes(large).data);
    assert_int_equal(large->refs, 1); /* whoever sends it holds it if need be */
    bale *arrived = gathering.arrived;
    post_take_bale(office.posts[1], bale_bytes(arrived), arrived);
    assert_true(office.parts[1] == 3 && office.last_name[1] == 3); /* the same batch as if it were in one piece */
    post_take_bale(gathers, bale_bytes(arrived), arrived);
    assert_true(gathering.kept == arrived && arrived->refs == 2); /* and nobody copied it */
    bale_unref(gathering.kept);
    bale_unref(arrived);
    post_destroy(gathers);
    assert_int_equal(large->refs, 1);
    bale_unref(large);
    bale_unref(small);
    close_office(&office);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_are_pointed_at_where_they_lie),
        cmocka_unit_test(one_step_is_one_batch),
        cmocka_unit_test(many_are_told_in_one_step),
        cmocka_unit_test(charts_spread_both_ways),
        cmocka_unit_test(another_generation_is_not_heard),
        cmocka_unit_test(what_is_said_to_oneself_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
