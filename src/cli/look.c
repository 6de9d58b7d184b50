/* look.c — see look.h. Tested by src/cli/miniray_test.c. */
#include "cli/look.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json_output.h"

enum { LIMIT = 100, LIMIT_MAX = 100 * 1000, TEXT_SIZE = 512, LOOK_ADDRESS_SIZE = 512, TEXTS = 8 };

static size_t read_limit(struct argp_state *state, const char *text) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 0 || value > LIMIT_MAX)
        argp_error(state, "--limit must be a number from 0 to %d, not '%s'", LIMIT_MAX, text);
    return (size_t)value;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    look *look = state->input;
    switch (key) {
    case ARGP_KEY_INIT: look->limit = look->limit == 0 ? LIMIT : look->limit; return 0;
    case 'j': look->as_json = true; return 0;
    case 'a': look->address = text; return 0;
    case 'n': look->limit = read_limit(state, text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"address", 'a', "SOCKET", 0,
     "The node: auto, or the path of its socket (default: MINIRAY_ADDRESS, the only node, or the standalone node)", 0},
    {"json", 'j', NULL, 0, "Print one JSON object; times are in us, sizes in bytes", 0},
    {"limit", 'n', "N", 0, "Print at most N rows (default: 100, timeline 100000); totals count all rows", 0},
    {0}};
const struct argp look_options = {.options = options, .parser = parse};

static error_t parse_word(int key, char *text, struct argp_state *state) {
    look *look = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = look; return 0;
    case ARGP_KEY_ARG:
        if (look->missing == NULL || look->word != NULL) return ARGP_ERR_UNKNOWN;
        if (look->knows != NULL && !look->knows(text)) argp_error(state, look->unknown, text);
        look->word = text;
        return 0;
    case ARGP_KEY_END:
        if (look->missing != NULL && look->word == NULL) argp_error(state, "%s", look->missing);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

void look_parse(look *look, int argc, char **argv, const char *args_doc, const char *doc) {
    const struct argp_child children[] = {{&look_options, 0, NULL, 0}, {0}};
    const struct argp argp = {.parser = parse_word, .children = children, .args_doc = args_doc, .doc = doc};
    argp_parse(&argp, argc, argv, 0, NULL, look);
}

/* ---- Asking. */

/* The only node, or the standalone one; prints an error if there is neither. */
static bool choose(const look *look, const mr_value *nodes, char out[LOOK_ADDRESS_SIZE]) {
    mr_value node;
    size_t count = mr_value_count(nodes);
    for (mr_iter iter = mr_value_iter(nodes); mr_iter_next(&iter, &node);) {
        bool standalone = strcmp(look_text(&node, "kind"), "standalone") == 0;
        if (count == 1 || standalone) {
            snprintf(out, LOOK_ADDRESS_SIZE, "%s", look_text(&node, "address"));
            return true;
        }
    }
    fprintf(stderr, "%s: %s\n", look->title,
            count == 0 ? "no node of this user runs on this machine: start a driver, or use `miniray start`"
                       : "several nodes run on this machine; choose one with --address:");
    for (mr_iter iter = mr_value_iter(nodes); mr_iter_next(&iter, &node);)
        fprintf(stderr, "  %s (process %" PRId64 ")\n", look_text(&node, "address"), look_int(&node, "pid"));
    return false;
}

static bool find_address(const look *look, char out[LOOK_ADDRESS_SIZE]) {
    const char *address = look->address != NULL ? look->address : getenv("MINIRAY_ADDRESS");
    if (address != NULL && address[0] != '\0') {
        snprintf(out, LOOK_ADDRESS_SIZE, "%s", address);
        return true;
    }
    mr_value all;
    if (command_outcome(look->title, mr_inspect_nodes(&all)) != 0) return false;
    mr_value nodes = look_field(&all, "nodes");
    bool found = choose(look, &nodes, out);
    mr_value_release(&all);
    return found;
}

bool look_open(const look *look, mr_inspect **inspect) {
    char address[LOOK_ADDRESS_SIZE];
    if (!find_address(look, address)) return false;
    return command_outcome(look->title, mr_inspect_open(address, inspect)) == 0;
}

bool look_ask(const look *look, mr_inspect **inspect, mr_value *answer) {
    if (!look_open(look, inspect)) return false;
    mr_status status = mr_inspect_ask(*inspect, look->what, look->id, look->limit, answer);
    if (command_outcome(look->title, status) == 0) return true;
    mr_inspect_close(*inspect);
    return false;
}

int look_run(const look *look, look_print_fn *print) {
    mr_inspect *inspect;
    mr_value answer;
    if (!look_ask(look, &inspect, &answer)) return 1;
    int code = look->as_json ? command_outcome(look->title, json_output_print(mr_value_arg(&answer))) : 0;
    if (!look->as_json) print(look, &answer);
    mr_value_release(&answer);
    mr_inspect_close(inspect);
    return code;
}

/* ---- Reading. */

mr_value look_field(const mr_value *map, const char *key) {
    mr_value value;
    if (mr_value_field(map, key, &value) == MR_OK) return value;
    return (mr_value){0};
}

int64_t look_int(const mr_value *map, const char *key) {
    mr_value value = look_field(map, key);
    int64_t number = 0;
    if (mr_value_kind(&value) != MR_KIND_INT || mr_value_int(&value, &number) != MR_OK) return 0;
    return number;
}

const char *look_text(const mr_value *map, const char *key) {
    static _Thread_local char texts[TEXTS][TEXT_SIZE];
    static _Thread_local unsigned next;
    char *text = texts[next++ % TEXTS];
    mr_value value = look_field(map, key);
    mr_span span = {0};
    if (mr_value_kind(&value) != MR_KIND_STR || mr_value_str(&value, &span) != MR_OK) span.size = 0;
    snprintf(text, TEXT_SIZE, "%.*s", (int)span.size, span.size == 0 ? "" : (const char *)span.data);
    return text;
}

void look_print_rest(size_t shown, int64_t total) {
    if (total > (int64_t)shown) printf("… and %" PRId64 " more (--limit)\n", total - (int64_t)shown);
}

void look_print_silent(const mr_value *silent) {
    mr_value part;
    for (mr_iter iter = mr_value_iter(silent); mr_iter_next(&iter, &part);)
        printf("p%" PRId64 " (%s, process %" PRId64 ") %s\n", look_int(&part, "process"), look_text(&part, "role"),
               look_int(&part, "pid"), look_text(&part, "silent"));
}
