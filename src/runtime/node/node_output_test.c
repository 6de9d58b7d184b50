/* node_output_test.c — lines on their way to a driver: two RPC ends over a loopback; the driver is end 1. */
#include "runtime/node/node_output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/refs/wire.h"
#include "tests/support/rpc_pair.h"

enum { SECOND_US = 1000 * 1000 };

typedef struct fixture {
    rpc_pair *pair;
    node_output *output;
    int64_t now_us;
    buffer shown[STD_STREAMS];
    int answers;
} fixture;

static const node_output_source counter = {.label = "Counter", .pid = 7};
static const node_output_source complaint = {.label = "Counter", .pid = 7, .std_stream = STD_STREAM_ERR};

/* Driver: records the lines that it gets; the pair answers. */
static void program_prints(rpc_side *side, const rpc_call_request *request) {
    fixture *fixture = side->test;
    reader reader = reader_of(request->payload.data, request->payload.size);
    std_stream std_stream = reader_u8(&reader);
    span text = reader_span32(&reader);
    assert_int_equal(request->method, CLIENT_PRINT);
    assert_false(reader.failed);
    assert_true(text.size > 0 && text.data[text.size - 1] == '\n');
    assert_in_range(std_stream, STD_STREAM_OUT, STD_STREAM_ERR);
    assert_int_equal(buffer_append(&fixture->shown[std_stream], text.data, text.size), MR_OK);
}

static void answered(void *context, rpc_call_token token) { ((fixture *)context)->answers++; }

static int setup(void **state) {
    fixture *fixture = calloc(1, sizeof *fixture);
    void *pair;
    if (rpc_pair_setup(&pair) != 0) return 1;
    fixture->pair = pair;
    fixture->pair->sides[1].peek = program_prints;
    fixture->pair->sides[1].test = fixture;
    fixture->now_us = 5 * SECOND_US;
    for (std_stream i = 0; i < STD_STREAMS; i++) buffer_init(&fixture->shown[i], 16 << 20);
    fixture->output =
        node_output_create(fixture->pair->sides[0].rpc, rpc_pair_link(fixture->pair, 0), answered, fixture);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    fixture *fixture = *state;
    void *pair = fixture->pair;
    if (fixture->output != NULL) node_output_end(fixture->output);
    loopback_run(&fixture->pair->loopback);
    for (std_stream i = 0; i < STD_STREAMS; i++) buffer_fini(&fixture->shown[i]);
    int failed = rpc_pair_teardown(&pair);
    free(fixture);
    return failed;
}

static void say(fixture *fixture, const char *line) {
    node_output_line(fixture->output, fixture->now_us, &counter, span_of(line, strlen(line)));
}

static void complain(fixture *fixture, const char *line) {
    node_output_line(fixture->output, fixture->now_us, &complaint, span_of(line, strlen(line)));
}

static void run(fixture *fixture) { loopback_run(&fixture->pair->loopback); }

static void assert_shown_on(fixture *fixture, std_stream std_stream, const char *text) {
    run(fixture);
    assert_int_equal(buffer_append(&fixture->shown[std_stream], "", 1), MR_OK);
    assert_string_equal((const char *)fixture->shown[std_stream].data, text);
    buffer_clear(&fixture->shown[std_stream]);
}

static void assert_shown(fixture *fixture, const char *text) { assert_shown_on(fixture, STD_STREAM_OUT, text); }

static size_t lines_shown(const fixture *fixture) {
    size_t count = 0;
    for (size_t i = 0; i < fixture->shown[STD_STREAM_OUT].size; i++)
        count += fixture->shown[STD_STREAM_OUT].data[i] == '\n';
    return count;
}

static void lines_have_a_prefix(void **state) {
    fixture *fixture = *state;
    say(fixture, "hello");
    say(fixture, "");
    assert_shown(fixture, "(Counter pid=7) hello\n(Counter pid=7) \n");
}

static void one_batch_is_under_way_at_a_time(void **state) {
    fixture *fixture = *state;
    say(fixture, "first");
    say(fixture, "second");
    say(fixture, "third");
    assert_int_equal(fixture->pair->loopback.ends[0].count, 1);
    run(fixture);
    assert_int_equal(fixture->pair->sides[1].seen_count, 2); /* lines queued meanwhile are one batch */
    assert_shown(fixture, "(Counter pid=7) first\n(Counter pid=7) second\n(Counter pid=7) third\n");
}

static void repeats_are_counted(void **state) {
    fixture *fixture = *state;
    for (int i = 0; i < 150; i++) say(fixture, "again");
    say(fixture, "other");
    assert_shown(fixture, "(Counter pid=7) again\n(Counter pid=7) [the line above 10 times more so far]\n"
                          "(Counter pid=7) [the line above 100 times more so far]\n"
                          "(Counter pid=7) [the line above 149 times more]\n(Counter pid=7) other\n");
}

/* The note about a repeated line has the label of the source that repeated the line, not of the next line's source. */
static void one_repeat_is_told_as_one(void **state) {
    fixture *fixture = *state;
    static const node_output_source other = {.label = "Other", .pid = 8};
    say(fixture, "again");
    node_output_line(fixture->output, fixture->now_us, &other, span_of("again", 5));
    say(fixture, "something else");
    say(fixture, "again"); /* not a repeat */
    assert_shown(fixture, "(Counter pid=7) again\n(Other pid=8) [the line above once more]\n"
                          "(Counter pid=7) something else\n(Counter pid=7) again\n");
}

static void say_lines(fixture *fixture, int count) { /* different lines, all at once */
    char line[32];
    for (int i = 0; i < count; i++) {
        snprintf(line, sizeof line, "line %d", i);
        say(fixture, line);
        run(fixture);
    }
}

static void one_line_not_shown_is_told_as_one(void **state) {
    fixture *fixture = *state;
    say_lines(fixture, OUTPUT_LINES_MAX + 1);
    buffer_clear(&fixture->shown[STD_STREAM_OUT]);
    fixture->now_us += SECOND_US;
    say(fixture, "calm again");
    assert_shown(fixture, "(Counter pid=7) [1 line not shown; it is in the logs]\n(Counter pid=7) calm again\n");
}

static void too_many_lines_are_counted(void **state) {
    fixture *fixture = *state;
    say_lines(fixture, OUTPUT_LINES_MAX + 500);
    assert_int_equal(lines_shown(fixture), OUTPUT_LINES_MAX);
    buffer_clear(&fixture->shown[STD_STREAM_OUT]);
    fixture->now_us += SECOND_US;
    say(fixture, "calm again");
    assert_shown(fixture, "(Counter pid=7) [500 lines not shown; they are in the logs]\n(Counter pid=7) calm again\n");
}

static void a_program_that_does_not_read_costs_little(void **state) {
    fixture *fixture = *state;
    char line[900];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    for (int i = 0; i < 900; i++) {
        line[i % 800] = (char)('a' + i % 26);
        say(fixture, line);
        assert_true(fixture->output->streams[STD_STREAM_OUT].waiting.capacity <= OUTPUT_BYTES_MAX);
    }
    run(fixture);
    fixture->now_us += SECOND_US;
    buffer_clear(&fixture->shown[STD_STREAM_OUT]);
    say(fixture, "read again");
    run(fixture);
    assert_non_null(
        memmem(fixture->shown[STD_STREAM_OUT].data, fixture->shown[STD_STREAM_OUT].size, "lines not shown", 15));
    assert_non_null(memmem(fixture->shown[STD_STREAM_OUT].data, fixture->shown[STD_STREAM_OUT].size, "read again", 10));
}

static void a_drain_ends_when_all_output_is_shown(void **state) {
    fixture *fixture = *state;
    node_output_drain(fixture->output, (rpc_call_token){0});
    assert_int_equal(fixture->answers, 1); /* no output: answered at once */
    say(fixture, "a line");
    say(fixture, "a line");
    node_output_drain(fixture->output, (rpc_call_token){0});
    assert_int_equal(fixture->answers, 1);
    run(fixture);
    assert_int_equal(fixture->answers, 2);
    assert_shown(fixture, "(Counter pid=7) a line\n(Counter pid=7) [the line above once more]\n");
}

/* The same line on the other stream is no repeat, and many lines on one stream hide no line of the other. */
static void std_streams_are_folded_apart(void **state) {
    fixture *fixture = *state;
    say(fixture, "again");
    complain(fixture, "again");
    say(fixture, "again");
    complain(fixture, "other");
    say(fixture, "last");
    assert_shown(fixture, "(Counter pid=7) again\n(Counter pid=7) [the line above once more]\n(Counter pid=7) last\n");
    assert_shown_on(fixture, STD_STREAM_ERR, "(Counter pid=7) again\n(Counter pid=7) other\n");
    say_lines(fixture, OUTPUT_LINES_MAX + 500);
    complain(fixture, "help");
    assert_shown_on(fixture, STD_STREAM_ERR, "(Counter pid=7) help\n");
}

static void all_is_shown_when_both_std_streams_are(void **state) {
    fixture *fixture = *state;
    complain(fixture, "one");
    complain(fixture, "two");
    say(fixture, "three");
    node_output_drain(fixture->output, (rpc_call_token){0});
    assert_int_equal(fixture->answers, 0);
    run(fixture);
    assert_int_equal(fixture->answers, 1);
    assert_shown(fixture, "(Counter pid=7) three\n");
    assert_shown_on(fixture, STD_STREAM_ERR, "(Counter pid=7) one\n(Counter pid=7) two\n");
}

static void a_program_that_leaves_takes_its_lines_along(void **state) {
    fixture *fixture = *state;
    say(fixture, "under way");
    say(fixture, "waiting");
    complain(fixture, "under way, too");
    node_output_drain(fixture->output, (rpc_call_token){0});
    node_output_end(fixture->output); /* freed when the RPC has ended */
    fixture->output = NULL;
    loopback_break(&fixture->pair->loopback, fixture->pair->link, MR_PEER_DIED, "it was killed");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(lines_have_a_prefix),
        TEST(one_batch_is_under_way_at_a_time),
        TEST(repeats_are_counted),
        TEST(one_repeat_is_told_as_one),
        TEST(one_line_not_shown_is_told_as_one),
        TEST(too_many_lines_are_counted),
        TEST(a_program_that_does_not_read_costs_little),
        TEST(a_drain_ends_when_all_output_is_shown),
        TEST(std_streams_are_folded_apart),
        TEST(all_is_shown_when_both_std_streams_are),
        TEST(a_program_that_leaves_takes_its_lines_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
