/* node_query.h — common part of the commands that inspect a running node: the options --address, --json and --limit,
 * the query, and access to its answer. */
#pragma once
#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "miniray/admin.h"

typedef struct node_query {
    const char *title;   /* "miniray status", for messages */
    const char *address; /* NULL: the only node, or the standalone one */
    const char *what, *id;
    const char *word;                /* argument of the command; NULL: none */
    const char *missing;             /* error if the word is missing; NULL: the command takes no word */
    bool (*knows)(const char *word); /* NULL: every word is valid */
    const char *unknown;             /* error for other words, with %s for the word and %s for the hint */
    const char *const *words;        /* the valid ones, for the hint; ends with NULL. NULL: no hint */
    const char *examples;            /* command lines for the help, one per line */
    size_t limit;
    bool as_json;
} node_query;

extern const struct argp node_query_options; /* argp child with the common options; its input is a node_query */

/* Parses the arguments of a command with these options and at most one word. */
void node_query_parse(node_query *query, int argc, char **argv, const char *args_doc, const char *doc);

typedef void node_query_print_fn(const node_query *query, const mr_value *answer);

/* Queries the node, then prints the answer as JSON or calls `print`; returns the exit status. */
int node_query_run(const node_query *query, node_query_print_fn *print);

/* Queries the node; returns the exit status. COMMAND_OK: the caller must release the answer and close *inspect.
 * Otherwise the error was printed. */
int node_query_ask(const node_query *query, mr_inspect **inspect, mr_value *answer);
/* Joins the node only. COMMAND_OK: the caller must close *inspect. */
int node_query_open(const node_query *query, mr_inspect **inspect);

/* Fields of a map; a missing field is nil, 0 or "". A text is valid for the next seven calls. */
mr_value node_query_field(const mr_value *map, const char *key);
int64_t node_query_int(const mr_value *map, const char *key);
const char *node_query_text(const mr_value *map, const char *key);

/* "… and 4 more (--limit)", and the processes that did not answer. */
void node_query_print_rest(size_t shown, int64_t total);
void node_query_print_silent(const mr_value *silent);
