/* cmd_start.c — `miniray start`: start of a standalone node on this machine. */
#include <argp.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_line.h"
#include "miniray/admin.h"

static int read_cpus(const char *text, struct argp_state *state) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 1 || number > 1024)
        command_line_error(state, "--num-cpus must be a whole number from 1 to 1024, not '%s'", text);
    return (int)number;
}

static double read_gpus(const char *text, struct argp_state *state) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= 0))
        command_line_error(state, "--num-gpus must be 0 or more, not '%s'", text);
    return number;
}

/* Reads a number of bytes: digits, then optionally k, M or G. */
static size_t read_bytes(const char *text, struct argp_state *state) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10), unit = 1;
    switch (*end) {
    case 'k': unit = 1ULL << 10; break;
    case 'M': unit = 1ULL << 20; break;
    case 'G': unit = 1ULL << 30; break;
    default: break;
    }
    if (unit != 1) end++;
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || number == 0 || number > SIZE_MAX / unit)
        command_line_error(state, "--store-bytes must be a number of bytes such as 4096, 16k, 256M or 2G, not '%s'",
                           text);
    return (size_t)(number * unit);
}

enum { NUM_CPUS = 256, NUM_GPUS, RESOURCES, STORE_BYTES, ADDRESS };

static error_t parse(int key, char *text, struct argp_state *state) {
    mr_node_options *options = state->input;
    switch (key) {
    case NUM_CPUS: options->num_cpus = read_cpus(text, state); return 0;
    case NUM_GPUS: options->num_gpus = read_gpus(text, state); return 0;
    case RESOURCES: options->resources = text; return 0;
    case STORE_BYTES: options->store_bytes = read_bytes(text, state); return 0;
    case ADDRESS: options->address = text; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_start(int argc, char **argv) {
    const struct argp_option options[] = {
        {"num-cpus", NUM_CPUS, "N", 0, "CPUs for tasks and actors (default: the CPUs of this machine)", 0},
        {"num-gpus", NUM_GPUS, "N", 0, "GPUs for tasks and actors (default: 0)", 0},
        {"resources", RESOURCES, "NAME=N,...", 0, "Custom resources that tasks and actors may request", 0},
        {"store-bytes", STORE_BYTES, "BYTES", 0,
         "Size of the shared memory (default: the option arena_bytes, or 30 % of the available memory)", 0},
        {"address", ADDRESS, "PATH", 0, "Path of the node's socket (default: auto, one path per user)", 0},
        {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Starts a standalone node on this machine and returns when the node is ready.\v"
               "A driver joins the node when MINIRAY_ADDRESS, or the address that it passes to init, is auto or the "
               "path of the node's socket. `miniray stop` stops the node.",
    };
    mr_node_options wanted = MR_INIT(mr_node_options);
    mr_node_info node;
    command_line_parse(&argp, argc, argv, 0, &wanted, "miniray start --num-cpus 4 --resources licence=2");
    int code = command_outcome(argv[0], mr_node_start(&wanted, &node));
    if (code != COMMAND_OK) return code;
    printf("The node is running: process %d at %s\n", node.pid, node.address);
    printf("Its logs are in %s\n", node.folder);
    printf("Drivers join it with MINIRAY_ADDRESS=%s\n", wanted.address == NULL ? "auto" : node.address);
    return 0;
}
