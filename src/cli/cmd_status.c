/* cmd_status.c — `miniray status` and `miniray memory`: state of a node on one page. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/node_query.h"
#include "cli/text_table.h"

static void print_resources(const mr_value *answer) {
    mr_value rows = node_query_field(answer, "resources"), row;
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
        double total = (double)node_query_int(&row, "total") / 1000, free = (double)node_query_int(&row, "free") / 1000;
        printf("  %-10s %g of %g in use\n", node_query_text(&row, "name"), total - free, total);
    }
}

static void print_status(const node_query *query, const mr_value *answer) {
    mr_value node = node_query_field(answer, "node"), workers = node_query_field(answer, "workers"),
             silent = node_query_field(answer, "silent"), processes = node_query_field(answer, "processes"), row;
    int64_t drivers = 0;
    for (mr_iter iter = mr_value_iter(&processes); mr_iter_next(&iter, &row);)
        drivers += node_query_text(&row, "role")[0] == 'd';
    printf("node       process %" PRId64 ", up for %s, miniray %s\n", node_query_int(&node, "pid"),
           text_table_time(node_query_int(&node, "age_us")), node_query_text(&node, "version"));
    printf("address    %s\n", node_query_text(&node, "address"));
    printf("logs       %s\n", node_query_text(&node, "folder"));
    printf("drivers    %" PRId64 "\n", drivers);
    int64_t all = node_query_int(&workers, "total"), idle = node_query_int(&workers, "idle"),
            leased = node_query_int(&workers, "leases");
    printf("workers    %" PRId64 ": %" PRId64 " idle, %" PRId64 " leased, %" PRId64 " for actors; %" PRId64
           " starting, %" PRId64 " requested\n",
           all, idle, leased, all - idle - leased, node_query_int(&workers, "starting"),
           node_query_int(&workers, "waiting"));
    printf("actors     %" PRId64 "\n", node_query_int(answer, "actors"));
    printf("pending    %" PRId64 " without a result (tasks and calls)\n", node_query_int(answer, "pending"));
    printf("objects    %" PRId64 " held, %s\n", node_query_int(answer, "objects"),
           text_table_bytes(node_query_int(answer, "bytes")));
    printf("memory     %s shared, %s of it in use\n", text_table_bytes(node_query_int(&node, "arena_bytes")),
           text_table_bytes(node_query_int(&node, "arena_rings") + node_query_int(&node, "arena_lent")));
    puts("resources");
    print_resources(answer);
    node_query_print_silent(&silent);
}

static void print_holders(const mr_value *answer) {
    static const char *const headings[] = {"PROCESS", ">PID", "ROLE", ">OBJECTS", ">BYTES", ">RESIDENT", "ACTOR", NULL};
    mr_value rows = node_query_field(answer, "processes"), row;
    text_table *table = text_table_create(headings);
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
        text_table_cell(table, "%s", node_query_text(&row, "id"));
        text_table_cell(table, "%" PRId64, node_query_int(&row, "pid"));
        text_table_cell(table, "%s", node_query_text(&row, "role"));
        text_table_cell(table, "%" PRId64, node_query_int(&row, "objects"));
        text_table_cell(table, "%s", text_table_bytes(node_query_int(&row, "bytes")));
        text_table_cell(table, "%s", text_table_bytes(node_query_int(&row, "resident_bytes")));
        text_table_cell(table, "%s", node_query_text(&row, "class"));
    }
    text_table_print(table);
    node_query_print_rest(mr_value_count(&rows), node_query_int(answer, "processes_total"));
}

static void print_memory(const node_query *query, const mr_value *answer) {
    mr_value node = node_query_field(answer, "node"), store = node_query_field(answer, "store"),
             largest = node_query_field(answer, "largest"), silent = node_query_field(answer, "silent"), row;
    printf("shared memory  %s, %s of it backed by the machine\n",
           text_table_bytes(node_query_int(&node, "arena_bytes")),
           text_table_bytes(node_query_int(&node, "arena_backed")));
    printf("               %s in rings between processes, %s for objects and events\n",
           text_table_bytes(node_query_int(&node, "arena_rings")),
           text_table_bytes(node_query_int(&node, "arena_lent")));
    printf("store          %s in %s; %s on disk (%" PRId64 " spilled, %" PRId64 " restored)\n",
           text_table_count(node_query_int(&store, "objects"), "object"),
           text_table_bytes(node_query_int(&store, "bytes")), text_table_bytes(node_query_int(&store, "spilled_bytes")),
           node_query_int(&store, "spilled"), node_query_int(&store, "restored"));
    printf("held           %s by processes, %s in total\n\n",
           text_table_count(node_query_int(answer, "objects"), "object"),
           text_table_bytes(node_query_int(answer, "bytes")));
    print_holders(answer);
    if (node_query_int(answer, "bytes") > 0) puts("\nlargest objects:");
    for (mr_iter iter = mr_value_iter(&largest); mr_iter_next(&iter, &row);)
        if (node_query_int(&row, "bytes") > 0)
            printf("  %-10s %10s  %s\n", node_query_text(&row, "id"), text_table_bytes(node_query_int(&row, "bytes")),
                   node_query_text(&row, "held_by"));
    node_query_print_silent(&silent);
}

/* ---- List of nodes. */

/* Prints the list of nodes and returns true, unless there is exactly one node or an address is given. */
static bool print_nodes(const node_query *query) {
    static const char *const headings[] = {"KIND", ">PID", "ADDRESS", NULL};
    mr_value all, node;
    const char *environment = getenv("MINIRAY_ADDRESS");
    if (query->address != NULL || (environment != NULL && environment[0] != '\0')) return false;
    if (mr_inspect_nodes(&all) != MR_OK) return false; /* node_query_run reports the error */
    mr_value nodes = node_query_field(&all, "nodes");
    size_t count = mr_value_count(&nodes);
    const mr_arg pairs[] = {mr_str("nodes"), mr_value_arg(&nodes)};
    if (count != 1 && query->as_json) (void)command_outcome(query->title, json_output_print(mr_map(pairs, 1)));
    if (count == 0 && !query->as_json)
        puts("No node of this user runs on this machine. A driver starts a private node when it initializes Miniray;\n"
             "`miniray start` starts a standalone node, which several drivers join.");
    if (count > 1 && !query->as_json) {
        text_table *table = text_table_create(headings);
        for (mr_iter iter = mr_value_iter(&nodes); mr_iter_next(&iter, &node);) {
            text_table_cell(table, "%s", node_query_text(&node, "kind"));
            text_table_cell(table, "%" PRId64, node_query_int(&node, "pid"));
            text_table_cell(table, "%s", node_query_text(&node, "address"));
        }
        text_table_print(table);
        puts("`miniray status --address ADDRESS` shows one of them.");
    }
    mr_value_release(&all);
    return count != 1;
}

int command_status(int argc, char **argv) {
    node_query query = {.title = argv[0], .what = "status", .examples = "miniray status\nminiray status --json"};
    node_query_parse(&query, argc, argv, NULL,
                     "Shows processes, resources, pending work and memory of a node. Lists the nodes if several run.");
    return print_nodes(&query) ? 0 : node_query_run(&query, print_status);
}

int command_memory(int argc, char **argv) {
    node_query query = {.title = argv[0], .what = "memory", .examples = "miniray memory"};
    node_query_parse(&query, argc, argv, NULL,
                     "Shows shared memory, the objects that each process holds, and the largest ones.");
    return node_query_run(&query, print_memory);
}
