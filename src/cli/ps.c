/* ps.c — `miniray ps scheduler|server|local|status|checkpoint`: the parameter server, started by hand.
 *
 * Without a role it is the one that DMLC_ROLE names, as ps-lite's programs have it; whatever an option does not say is
 * taken from the other variables of that environment. */
#include "cli/ps.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "miniray/ps.h"

static unsigned long read_number(const char *text, const char *name, unsigned long most, struct argp_state *state) {
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || number > most)
        argp_error(state, "--%s is a whole number from 0 to %lu, not '%s'", name, most, text);
    return number;
}

void ps_say_address(void *context, const char *address) {
    printf("The %s listens at %s\n", (const char *)context, address);
    fflush(stdout);
}

static int outcome(const char *title, mr_status status) {
    if (status == MR_OK) return 0;
    fprintf(stderr, "%s: %s\n", title, mr_last_error());
    return 1;
}

/* ---- The scheduler. */

enum {
    LISTEN = 256,
    FOLDER,
    WORKERS,
    SERVERS,
    SLOTS,
    COPIES,
    CONSISTENCY,
    MIXED,
    BACKUP,
    DEADLINE,
    CHECKPOINT,
    EXACT,
    BALANCE,
    BEYOND,
    SCHEDULER,
    NUMBER,
    MEMORY
};

static void read_consistency(const char *text, mr_ps_scheduler_options *options, struct argp_state *state) {
    if (strcmp(text, "bsp") == 0)
        options->consistency = MR_PS_BSP;
    else if (strcmp(text, "asp") == 0)
        options->consistency = MR_PS_ASP;
    else if (strncmp(text, "ssp:", 4) == 0) {
        options->consistency = MR_PS_SSP;
        options->staleness = (uint32_t)read_number(text + 4, "consistency ssp", 1 << 20, state);
    } else
        argp_error(state, "--consistency is bsp, ssp:STEPS or asp, not '%s'", text);
}

static int64_t read_every(const char *text, const char *name, struct argp_state *state) {
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.01) || !(seconds <= 1e6))
        argp_error(state, "--%s is a number of seconds from 0.01, not '%s'", name, text);
    return (int64_t)(seconds * 1e6);
}

static error_t parse_scheduler(int key, char *text, struct argp_state *state) {
    mr_ps_scheduler_options *options = state->input;
    switch (key) {
    case LISTEN: options->listen = text; return 0;
    case FOLDER: options->folder = text; return 0;
    case WORKERS: options->workers = (uint32_t)read_number(text, "workers", 1024, state); return 0;
    case SERVERS: options->servers = (uint32_t)read_number(text, "servers", 1024, state); return 0;
    case SLOTS: options->slots = (uint32_t)read_number(text, "slots", 4095, state); return 0;
    case COPIES: options->copies = (uint32_t)read_number(text, "copies", MR_PS_COPIES_MAX, state); return 0;
    case CONSISTENCY: read_consistency(text, options, state); return 0;
    case MIXED: options->mixed = 1; return 0;
    case BACKUP: options->backup = (uint32_t)read_number(text, "backup", 1023, state); return 0;
    case DEADLINE: options->deadline_us = read_every(text, "deadline", state); return 0;
    case CHECKPOINT: options->checkpoint_us = read_every(text, "checkpoint-every", state); return 0;
    case BALANCE:
        options->balance_us = strcmp(text, "never") == 0 ? -1 : read_every(text, "balance-every", state);
        return 0;
    case EXACT: options->exact_checkpoints = 1; return 0;
    case BEYOND: options->beyond_this_machine = 1; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is one argument too many", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option scheduler_options[] = {
    {"folder", FOLDER, "PATH", 0, "What it knows, and checkpoints (default: miniray-ps here)", 0},
    {"listen", LISTEN, "ADDRESS", 0, "tcp:HOST:PORT or unix:PATH (default: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT)", 0},
    {"workers", WORKERS, "N", 0, "How many ranks there are (default: DMLC_NUM_WORKER)", 0},
    {"servers", SERVERS, "N", 0, "How many it waits for before it begins (default: DMLC_NUM_SERVER)", 0},
    {"slots", SLOTS, "N", 0, "That every table is spread over (default: 1)", 0},
    {"copies", COPIES, "N", 0, "Of each slot, on different servers (default: 1)", 0},
    {"consistency", CONSISTENCY, "KIND", 0, "Of tables that name none: bsp, ssp:STEPS or asp (default: asp)", 0},
    {"mixed", MIXED, NULL, 0, "Tables of bsp beside tables of ssp and asp: twice the slots", 0},
    {"backup", BACKUP, "N", 0, "A step of bsp is over when all workers but N have ended it (default: 0)", 0},
    {"deadline", DEADLINE, "SECONDS", 0,
     "A step of bsp is over so long after the first worker has ended it, without those that are late (default: it "
     "waits)",
     0},
    {"checkpoint-every", CHECKPOINT, "SECONDS", 0, "Default: never", 0},
    {"balance-every", BALANCE, "SECONDS", 0,
     "How often slots may move from servers that carry too much, and hot ones get copies for reading; or never "
     "(default: 5)",
     0},
    {"exact-checkpoints", EXACT, NULL, 0, "Workers stand still for a moment: all slots are cut after the same steps",
     0},
    {"beyond-this-machine", BEYOND, NULL, 0, "Allow addresses that other machines reach; nothing is encrypted", 0},
    {0}};

const struct argp ps_scheduler_argp = {
    .options = scheduler_options,
    .parser = parse_scheduler,
    .doc = "Runs the scheduler of a parameter server until SIGTERM or Ctrl-C.\v"
           "Started again with the same folder and address it goes on where it was.",
};

static int be_scheduler(int argc, char **argv) {
    char name[] = "scheduler";
    mr_ps_scheduler_options wanted = {.folder = "miniray-ps", .on_listening = ps_say_address, .context = name};
    argp_parse(&ps_scheduler_argp, argc, argv, 0, NULL, &wanted);
    return outcome(argv[0], mr_ps_run_scheduler(&wanted));
}

/* ---- A server. */

static error_t parse_server(int key, char *text, struct argp_state *state) {
    mr_ps_server_options *options = state->input;
    switch (key) {
    case SCHEDULER: options->scheduler = text; return 0;
    case LISTEN: options->listen = text; return 0;
    case NUMBER: options->number = 1 + (uint32_t)read_number(text, "number", 1023, state); return 0;
    case BEYOND: options->beyond_this_machine = 1; return 0;
    case MEMORY: options->memory_bytes = (uint64_t)read_number(text, "memory", 1 << 30, state) << 20; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is one argument too many", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int be_server(int argc, char **argv) {
    const struct argp_option options[] = {
        {"scheduler", SCHEDULER, "ADDRESS", 0, "Where it is (default: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT)", 0},
        {"listen", LISTEN, "ADDRESS", 0, "Default: a free port of this machine, or a socket beside the scheduler's", 0},
        {"memory", MEMORY, "MB", 0, "That it may have (default: half of what the machine has left)", 0},
        {"number", NUMBER, "N", 0, "For one that takes the place of another (default: the lowest that is free)", 0},
        {"beyond-this-machine", BEYOND, NULL, 0, "Allow addresses that other machines reach; nothing is encrypted", 0},
        {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse_server,
        .doc = "Runs a server of a parameter server until SIGTERM or Ctrl-C.\v"
               "It keeps nothing on disk: started again, it is filled by the others, or from the last checkpoint.",
    };
    char name[] = "server";
    mr_ps_server_options wanted = {.on_listening = ps_say_address, .context = name};
    argp_parse(&argp, argc, argv, 0, NULL, &wanted);
    return outcome(argv[0], mr_ps_run_server(&wanted));
}

/* ---- Which of them. */

typedef struct choice {
    const char *role; /* NULL: none was named */
    int at;
} choice;

static error_t parse_role(int key, char *text, struct argp_state *state) {
    choice *choice = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        choice->role = text;
        choice->at = state->next - 1;
        state->next = state->argc;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_ps(int argc, char **argv) {
    static const struct {
        const char *name;
        command_fn *run;
    } roles[] = {{"scheduler", be_scheduler},
                 {"server", be_server},
                 {"local", ps_local},
                 {"status", ps_status},
                 {"checkpoint", ps_checkpoint}};
    const struct argp argp = {
        .parser = parse_role,
        .args_doc = "scheduler|server|local|status|checkpoint [OPTION...]",
        .doc = "The key-value parameter server: a scheduler, servers, all of them on this machine, how they stand, and "
               "what "
               "checkpoints there are.\v"
               "Without a role it is what DMLC_ROLE says, as in ps-lite. Workers are programs that call mr_ps_connect. "
               "`miniray ps ROLE --help` says more.",
    };
    choice choice = {.at = argc - 1};
    char title[64];
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice);
    if (choice.role == NULL) choice.role = getenv("DMLC_ROLE");
    for (size_t i = 0; choice.role != NULL && i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(choice.role, roles[i].name) != 0) continue;
        snprintf(title, sizeof title, "%s %s", argv[0], roles[i].name);
        argv[choice.at] = title;
        return roles[i].run(argc - choice.at, argv + choice.at);
    }
    if (choice.role == NULL)
        fprintf(stderr,
                "%s: a role is missing: scheduler, server, local, status or checkpoint; and DMLC_ROLE is not set\n",
                argv[0]);
    else
        fprintf(stderr, "%s: '%s' is no role that can be started: scheduler, server, local, status or checkpoint%s\n",
                argv[0], choice.role,
                strcmp(choice.role, "worker") == 0 ? "; a worker is a program of yours, which connects" : "");
    return 64;
}
