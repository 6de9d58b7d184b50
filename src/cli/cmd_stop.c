/* cmd_stop.c — `miniray stop`: stop of a standalone node. */
#include <argp.h>
#include <stdio.h>

#include "cli/command_line.h"
#include "miniray/admin.h"

enum { ADDRESS = 256 };

static error_t parse(int key, char *text, struct argp_state *state) {
    const char **address = state->input;
    switch (key) {
    case ADDRESS: *address = text; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_stop(int argc, char **argv) {
    const struct argp_option options[] = {
        {"address", ADDRESS, "PATH", 0, "Path of the node's socket (default: auto, one path per user)", 0}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Stops the standalone node and all processes it started; returns when the node has ended.\v"
               "Drivers that joined the node keep running; their pending tasks and calls fail with an error.",
    };
    const char *address = NULL;
    mr_node_info node;
    command_line_parse(&argp, argc, argv, 0, &address, "miniray stop");
    int code = command_outcome(argv[0], mr_node_stop(address, &node));
    if (code != COMMAND_OK) return code;
    printf("The node at %s (process %d) has ended\n", node.address, node.pid);
    return 0;
}
