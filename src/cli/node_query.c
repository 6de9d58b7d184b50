/* node_query.c — see node_query.h. Tested by src/cli/miniray_test.c. */
#include "cli/node_query.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_line.h"
#include "cli/json_output.h"

enum { LIMIT = 100, LIMIT_MAX = 100 * 1000, TEXT_SIZE = 512, NODE_QUERY_ADDRESS_SIZE = 512, TEXTS = 8 };

static size_t read_limit(struct argp_state *state, const char *text) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 0 || value > LIMIT_MAX)
        command_line_error(state, "--limit must be a number from 0 to %d, not '%s'", LIMIT_MAX, text);
    return (size_t)value;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    node_query *query = state->input;
    switch (key) {
    case ARGP_KEY_INIT: query->limit = query->limit == 0 ? LIMIT : query->limit; return 0;
    case 'j': query->as_json = true; return 0;
    case 'a': query->address = text; return 0;
    case 'n': query->limit = read_limit(state, text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"address", 'a', "SOCKET", 0,
     "The node: auto, or the path of its socket (default: MINIRAY_ADDRESS, the only node, or the standalone node)", 0},
    {"json", 'j', NULL, 0, "Print one JSON object; times are in us, sizes in bytes", 0},
    {"limit", 'n', "N", 0, "Print at most N rows (default: 100, timeline 100000); totals count all rows", 0},
    {0}};
const struct argp node_query_options = {.options = options, .parser = parse};

/* Ends the program for a word that the command does not know. */
static void refuse_word(const node_query *query, const char *word, struct argp_state *state) {
    char hint[COMMAND_LINE_HINT_MAX] = "";
    size_t count = 0;
    while (query->words != NULL && query->words[count] != NULL) count++;
    if (count > 0) command_line_hint(word, query->words, count, "", hint);
    command_line_error(state, query->unknown, word, hint);
}

static error_t parse_word(int key, char *text, struct argp_state *state) {
    node_query *query = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = query; return 0;
    case ARGP_KEY_ARG:
        if (query->missing == NULL || query->word != NULL) return ARGP_ERR_UNKNOWN;
        if (query->knows != NULL && !query->knows(text)) refuse_word(query, text, state);
        query->word = text;
        return 0;
    case ARGP_KEY_END:
        if (query->missing != NULL && query->word == NULL) command_line_error(state, "%s", query->missing);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

void node_query_parse(node_query *query, int argc, char **argv, const char *args_doc, const char *doc) {
    const struct argp_child children[] = {{&node_query_options, 0, NULL, 0}, {0}};
    const struct argp argp = {.parser = parse_word, .children = children, .args_doc = args_doc, .doc = doc};
    command_line_parse(&argp, argc, argv, 0, query, query->examples);
}

/* ---- Query. */

/* Chooses the only node, or the standalone one; prints an error if there is neither. */
static int choose(const node_query *query, const mr_value *nodes, char out[NODE_QUERY_ADDRESS_SIZE]) {
    mr_value node;
    size_t count = mr_value_count(nodes);
    for (mr_iter iter = mr_value_iter(nodes); mr_iter_next(&iter, &node);) {
        bool standalone = strcmp(node_query_text(&node, "kind"), "standalone") == 0;
        if (count == 1 || standalone) {
            snprintf(out, NODE_QUERY_ADDRESS_SIZE, "%s", node_query_text(&node, "address"));
            return COMMAND_OK;
        }
    }
    fprintf(stderr, "%s: %s\n", query->title,
            count == 0 ? "no node of this user runs on this machine: start a driver, or use `miniray start`"
                       : "several nodes run on this machine; choose one with --address:");
    for (mr_iter iter = mr_value_iter(nodes); mr_iter_next(&iter, &node);)
        fprintf(stderr, "  %s (process %" PRId64 ")\n", node_query_text(&node, "address"),
                node_query_int(&node, "pid"));
    return COMMAND_FAILED;
}

static int find_address(const node_query *query, char out[NODE_QUERY_ADDRESS_SIZE]) {
    const char *address = query->address != NULL ? query->address : getenv("MINIRAY_ADDRESS");
    if (address != NULL && address[0] != '\0') {
        snprintf(out, NODE_QUERY_ADDRESS_SIZE, "%s", address);
        return COMMAND_OK;
    }
    mr_value all;
    int code = command_outcome(query->title, mr_inspect_nodes(&all));
    if (code != COMMAND_OK) return code;
    mr_value nodes = node_query_field(&all, "nodes");
    code = choose(query, &nodes, out);
    mr_value_release(&all);
    return code;
}

int node_query_open(const node_query *query, mr_inspect **inspect) {
    char address[NODE_QUERY_ADDRESS_SIZE];
    int code = find_address(query, address);
    return code != COMMAND_OK ? code : command_outcome(query->title, mr_inspect_open(address, inspect));
}

int node_query_ask(const node_query *query, mr_inspect **inspect, mr_value *answer) {
    int code = node_query_open(query, inspect);
    if (code != COMMAND_OK) return code;
    code = command_outcome(query->title, mr_inspect_ask(*inspect, query->what, query->id, query->limit, answer));
    if (code != COMMAND_OK) mr_inspect_close(*inspect);
    return code;
}

int node_query_run(const node_query *query, node_query_print_fn *print) {
    mr_inspect *inspect;
    mr_value answer;
    int code = node_query_ask(query, &inspect, &answer);
    if (code != COMMAND_OK) return code;
    code = query->as_json ? command_outcome(query->title, json_output_print(mr_value_arg(&answer))) : 0;
    if (!query->as_json) print(query, &answer);
    mr_value_release(&answer);
    mr_inspect_close(inspect);
    return code;
}

/* ---- Access to the answer. */

mr_value node_query_field(const mr_value *map, const char *key) {
    mr_value value;
    if (mr_value_field(map, key, &value) == MR_OK) return value;
    return (mr_value){0};
}

int64_t node_query_int(const mr_value *map, const char *key) {
    mr_value value = node_query_field(map, key);
    int64_t number = 0;
    if (mr_value_kind(&value) != MR_KIND_INT || mr_value_int(&value, &number) != MR_OK) return 0;
    return number;
}

const char *node_query_text(const mr_value *map, const char *key) {
    static _Thread_local char texts[TEXTS][TEXT_SIZE];
    static _Thread_local unsigned next;
    char *text = texts[next++ % TEXTS];
    mr_value value = node_query_field(map, key);
    mr_span span = {0};
    if (mr_value_kind(&value) != MR_KIND_STR || mr_value_str(&value, &span) != MR_OK) span.size = 0;
    snprintf(text, TEXT_SIZE, "%.*s", (int)span.size, span.size == 0 ? "" : (const char *)span.data);
    return text;
}

void node_query_print_rest(size_t shown, int64_t total) {
    if (total > (int64_t)shown) printf("… and %" PRId64 " more (--limit)\n", total - (int64_t)shown);
}

void node_query_print_silent(const mr_value *silent) {
    mr_value part;
    for (mr_iter iter = mr_value_iter(silent); mr_iter_next(&iter, &part);)
        printf("p%" PRId64 " (%s, process %" PRId64 ") %s\n", node_query_int(&part, "process"),
               node_query_text(&part, "role"), node_query_int(&part, "pid"), node_query_text(&part, "silent"));
}
