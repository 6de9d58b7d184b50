/* status.c — `miniray status` and `miniray memory`: state of a node on one page. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/look.h"
#include "cli/table.h"

static void print_resources(const mr_value *answer) {
    mr_value rows = look_field(answer, "resources"), row;
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
        double total = (double)look_int(&row, "total") / 1000, free = (double)look_int(&row, "free") / 1000;
        printf("  %-10s %g of %g in use\n", look_text(&row, "name"), total - free, total);
    }
}

static void print_status(const look *look, const mr_value *answer) {
    mr_value node = look_field(answer, "node"), workers = look_field(answer, "workers"),
             silent = look_field(answer, "silent"), processes = look_field(answer, "processes"), row;
    int64_t drivers = 0;
    for (mr_iter iter = mr_value_iter(&processes); mr_iter_next(&iter, &row);)
        drivers += look_text(&row, "role")[0] == 'd';
    printf("node       process %" PRId64 ", up for %s, miniray %s\n", look_int(&node, "pid"),
           table_time(look_int(&node, "age_us")), look_text(&node, "version"));
    printf("address    %s\n", look_text(&node, "address"));
    printf("logs       %s\n", look_text(&node, "folder"));
    printf("drivers    %" PRId64 "\n", drivers);
    int64_t all = look_int(&workers, "total"), idle = look_int(&workers, "idle"), leased = look_int(&workers, "leases");
    printf("workers    %" PRId64 ": %" PRId64 " idle, %" PRId64 " leased, %" PRId64 " for actors; %" PRId64
           " starting, %" PRId64 " requested\n",
           all, idle, leased, all - idle - leased, look_int(&workers, "starting"), look_int(&workers, "waiting"));
    printf("actors     %" PRId64 "\n", look_int(answer, "actors"));
    printf("pending    %" PRId64 " tasks and calls without a result\n", look_int(answer, "pending"));
    printf("objects    %" PRId64 " held, %s\n", look_int(answer, "objects"), table_bytes(look_int(answer, "bytes")));
    printf("memory     %s shared, %s of it in use\n", table_bytes(look_int(&node, "arena_bytes")),
           table_bytes(look_int(&node, "arena_rings") + look_int(&node, "arena_lent")));
    puts("resources");
    print_resources(answer);
    look_print_silent(&silent);
}

static void print_holders(const mr_value *answer) {
    static const char *const headings[] = {"PROCESS", ">PID", "ROLE", ">OBJECTS", ">BYTES", ">RESIDENT", "ACTOR", NULL};
    mr_value rows = look_field(answer, "processes"), row;
    table *table = table_create(headings);
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
        table_cell(table, "%s", look_text(&row, "id"));
        table_cell(table, "%" PRId64, look_int(&row, "pid"));
        table_cell(table, "%s", look_text(&row, "role"));
        table_cell(table, "%" PRId64, look_int(&row, "objects"));
        table_cell(table, "%s", table_bytes(look_int(&row, "bytes")));
        table_cell(table, "%s", table_bytes(look_int(&row, "resident_bytes")));
        table_cell(table, "%s", look_text(&row, "class"));
    }
    table_print(table);
    look_print_rest(mr_value_count(&rows), look_int(answer, "processes_total"));
}

static void print_memory(const look *look, const mr_value *answer) {
    mr_value node = look_field(answer, "node"), store = look_field(answer, "store"),
             largest = look_field(answer, "largest"), silent = look_field(answer, "silent"), row;
    printf("shared memory  %s, %s of it backed by the machine\n", table_bytes(look_int(&node, "arena_bytes")),
           table_bytes(look_int(&node, "arena_backed")));
    printf("               %s in rings between processes, %s for objects and events\n",
           table_bytes(look_int(&node, "arena_rings")), table_bytes(look_int(&node, "arena_lent")));
    printf("store          %s in %s; %s on disk (%" PRId64 " spilled, %" PRId64 " restored)\n",
           table_count(look_int(&store, "objects"), "object"), table_bytes(look_int(&store, "bytes")),
           table_bytes(look_int(&store, "spilled_bytes")), look_int(&store, "spilled"), look_int(&store, "restored"));
    printf("held           %s by processes, %s in total\n\n", table_count(look_int(answer, "objects"), "object"),
           table_bytes(look_int(answer, "bytes")));
    print_holders(answer);
    if (look_int(answer, "bytes") > 0) puts("\nlargest objects:");
    for (mr_iter iter = mr_value_iter(&largest); mr_iter_next(&iter, &row);)
        if (look_int(&row, "bytes") > 0)
            printf("  %-10s %10s  %s\n", look_text(&row, "id"), table_bytes(look_int(&row, "bytes")),
                   look_text(&row, "held_by"));
    look_print_silent(&silent);
}

/* ---- Which nodes there are. */

/* Prints the list and gives true, unless there is one to look at. */
static bool print_nodes(const look *look) {
    static const char *const headings[] = {"KIND", ">PID", "ADDRESS", NULL};
    mr_value all, node;
    const char *environment = getenv("MINIRAY_ADDRESS");
    if (look->address != NULL || (environment != NULL && environment[0] != '\0')) return false;
    if (mr_inspect_nodes(&all) != MR_OK) return false; /* look_run reports the error */
    mr_value nodes = look_field(&all, "nodes");
    size_t count = mr_value_count(&nodes);
    const mr_arg pairs[] = {mr_str("nodes"), mr_value_arg(&nodes)};
    if (count != 1 && look->as_json) (void)command_outcome(look->title, json_output_print(mr_map(pairs, 1)));
    if (count == 0 && !look->as_json)
        puts("No node of this user runs on this machine. A driver starts a private node when it initializes Miniray;\n"
             "`miniray start` starts a standalone node, which several drivers join.");
    if (count > 1 && !look->as_json) {
        table *table = table_create(headings);
        for (mr_iter iter = mr_value_iter(&nodes); mr_iter_next(&iter, &node);) {
            table_cell(table, "%s", look_text(&node, "kind"));
            table_cell(table, "%" PRId64, look_int(&node, "pid"));
            table_cell(table, "%s", look_text(&node, "address"));
        }
        table_print(table);
        puts("`miniray status --address ADDRESS` shows one of them.");
    }
    mr_value_release(&all);
    return count != 1;
}

int command_status(int argc, char **argv) {
    look look = {.title = argv[0], .what = "status"};
    look_parse(&look, argc, argv, NULL,
               "Shows processes, resources, pending work and memory of a node. Lists the nodes if several run.");
    return print_nodes(&look) ? 0 : look_run(&look, print_status);
}

int command_memory(int argc, char **argv) {
    look look = {.title = argv[0], .what = "memory"};
    look_parse(&look, argc, argv, NULL,
               "Shows shared memory, the objects that each process holds, and the largest ones.");
    return look_run(&look, print_memory);
}
