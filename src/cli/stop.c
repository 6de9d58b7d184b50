/* stop.c — `miniray stop`: ends a lasting node. */
#include <argp.h>
#include <stdio.h>

#include "cli/command.h"
#include "miniray/node.h"

enum { ADDRESS = 256 };

static error_t parse(int key, char *text, struct argp_state *state) {
    const char **address = state->input;
    switch (key) {
    case ADDRESS: *address = text; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is one argument too many", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_stop(int argc, char **argv) {
    const struct argp_option options[] = {
        {"address", ADDRESS, "PATH", 0, "Where its socket is (default: auto, this user's own place)", 0}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Ends the lasting node and everything it has started; returns when it is gone.\v"
               "Programs that have joined it go on; what they still wait for fails and says why.",
    };
    const char *address = NULL;
    mr_node_info node;
    argp_parse(&argp, argc, argv, 0, NULL, &address);
    if (mr_node_stop(address, &node) != MR_OK) {
        fprintf(stderr, "%s: %s\n", argv[0], mr_last_error());
        return 1;
    }
    printf("The node at %s is gone (it was process %d)\n", node.address, node.pid);
    return 0;
}
