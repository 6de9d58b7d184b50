/* cmd_ps.c — `miniray ps scheduler|server|local|status|checkpoint`: processes of the parameter server, run by hand.
 *
 * Without a role in the command line, DMLC_ROLE names it, as for programs of ps-lite; the other DMLC_* variables are
 * the defaults of options. Tested by src/cli/miniray_test.c. */
#include "cli/cmd_ps.h"

#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_line.h"
#include "miniray/admin.h"

static unsigned long read_number(const char *text, const char *name, unsigned long least, unsigned long most,
                                 struct argp_state *state) {
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || number < least || number > most)
        command_line_error(state, "--%s must be a whole number from %lu to %lu, not '%s'", name, least, most, text);
    return number;
}

void ps_say_address(void *context, const char *address) {
    printf("The %s listens at %s\n", (const char *)context, address);
    fflush(stdout);
}

/* ---- The scheduler. */

enum {
    LISTEN = 256,
    DIR,
    WORKERS,
    SERVERS,
    SLOTS,
    REPLICAS,
    CONSISTENCY,
    MIXED,
    BACKUP,
    READERS,
    DEADLINE,
    CHECKPOINT,
    CONSISTENT,
    FINAL,
    BALANCE,
    REMOTE,
    SCHEDULER,
    ID,
    MEMORY
};

static void read_consistency(const char *text, mr_ps_scheduler_options *options, struct argp_state *state) {
    if (strcmp(text, "bsp") == 0)
        options->consistency = MR_PS_BSP;
    else if (strcmp(text, "asp") == 0)
        options->consistency = MR_PS_ASP;
    else if (strncmp(text, "ssp:", 4) == 0) {
        options->consistency = MR_PS_SSP;
        options->staleness = (uint32_t)read_number(text + 4, "consistency ssp", 0, 1 << 20, state);
    } else {
        static const char *const known[] = {"bsp", "ssp:STEPS", "asp"};
        char hint[COMMAND_LINE_HINT_MAX];
        command_line_error(state, "--consistency must be bsp, ssp:STEPS or asp, not '%s'%s", text,
                           command_line_hint(text, known, sizeof known / sizeof *known, "", hint));
    }
}

static int64_t read_every(const char *text, const char *name, struct argp_state *state) {
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.01) || !(seconds <= 1e6))
        command_line_error(state, "--%s must be a number of seconds from 0.01 to 1000000, not '%s'", name, text);
    return (int64_t)(seconds * 1e6);
}

static error_t parse_scheduler(int key, char *text, struct argp_state *state) {
    mr_ps_scheduler_options *options = state->input;
    switch (key) {
    case LISTEN: options->listen = text; return 0;
    case DIR: options->checkpoint_dir = text; return 0;
    case WORKERS: options->num_workers = (uint32_t)read_number(text, "num-workers", 1, 1024, state); return 0;
    case SERVERS: options->num_servers = (uint32_t)read_number(text, "num-servers", 1, 1024, state); return 0;
    case SLOTS: options->slots = (uint32_t)read_number(text, "slots", 1, 4095, state); return 0;
    case REPLICAS: options->replicas = (uint32_t)read_number(text, "replicas", 1, MR_PS_REPLICAS_MAX, state); return 0;
    case CONSISTENCY: read_consistency(text, options, state); return 0;
    case MIXED: options->mixed_consistency = 1; return 0;
    case BACKUP: options->backup_workers = (uint32_t)read_number(text, "backup-workers", 0, 1023, state); return 0;
    case READERS: options->readers = (uint32_t)read_number(text, "readers", 0, 1024, state); return 0;
    case DEADLINE: options->deadline_us = read_every(text, "deadline", state); return 0;
    case CHECKPOINT: options->checkpoint_us = read_every(text, "checkpoint-every", state); return 0;
    case FINAL:
        options->final_checkpoint_us = strcmp(text, "never") == 0 ? -1 : read_every(text, "final-checkpoint", state);
        return 0;
    case BALANCE:
        options->balance_us = strcmp(text, "never") == 0 ? -1 : read_every(text, "balance-every", state);
        return 0;
    case CONSISTENT: options->consistent_checkpoints = 1; return 0;
    case REMOTE: options->allow_remote = 1; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const char remote_doc[] = "Rejected: addresses that other machines can reach need TLS, which is not there yet";

static const struct argp_option scheduler_options[] = {
    {"checkpoint-dir", DIR, "PATH", 0, "Directory of the scheduler's state and of checkpoints (default: ./miniray-ps)",
     0},
    {"listen", LISTEN, "ADDRESS", 0, "tcp:HOST:PORT or unix:PATH (default: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT)", 0},
    {"num-workers", WORKERS, "N", 0, "Number of ranks (default: DMLC_NUM_WORKER)", 0},
    {"num-servers", SERVERS, "N", 0, "Number of servers to wait for before the start (default: DMLC_NUM_SERVER)", 0},
    {"slots", SLOTS, "N", 0,
     "Number of slots; every table is partitioned into them (default: that of --checkpoint-dir; 16 in a new one). "
     "Another number than that of --checkpoint-dir distributes the tables of its newest checkpoint anew",
     0},
    {"replicas", REPLICAS, "N", 0, "Replicas of each slot, on different servers (default: 1)", 0},
    {"consistency", CONSISTENCY, "KIND", 0,
     "bsp, ssp:STEPS or asp, for tables that do not choose their own (default: asp)", 0},
    {"mixed-consistency", MIXED, NULL, 0, "Allow bsp tables beside ssp and asp tables; doubles the slots", 0},
    {"backup-workers", BACKUP, "N", 0, "A bsp step ends when all ranks but N have ended it (default: 0)", 0},
    {"readers", READERS, "N", 0, "Number of readers, which only pull, that may be connected at once (default: 0)", 0},
    {"deadline", DEADLINE, "SECONDS", 0,
     "A bsp step ends this long after the first rank has ended it, without the late ranks (default: no deadline)", 0},
    {"checkpoint-every", CHECKPOINT, "SECONDS", 0, "Interval of automatic checkpoints (default: none are made)", 0},
    {"final-checkpoint", FINAL, "SECONDS", 0,
     "At SIGTERM and Ctrl-C a last checkpoint is made, for as long as it makes progress within this time, or never "
     "(default: 30)",
     0},
    {"balance-every", BALANCE, "SECONDS", 0,
     "Interval at which slots may move away from overloaded servers and hot slots get read replicas, or never "
     "(default: 5)",
     0},
    {"consistent-checkpoints", CONSISTENT, NULL, 0,
     "Pause all ranks between two steps, so that a checkpoint holds the same steps of every slot", 0},
    {"allow-remote", REMOTE, NULL, 0, remote_doc, 0},
    {0}};

const struct argp ps_scheduler_argp = {
    .options = scheduler_options,
    .parser = parse_scheduler,
    .doc =
        "Runs the scheduler of a parameter server until SIGTERM or Ctrl-C.\v"
        "A scheduler that is started again with the same --checkpoint-dir and --listen continues from its saved state.",
};

static int be_scheduler(int argc, char **argv) {
    char name[] = "scheduler";
    mr_ps_scheduler_options wanted = MR_OPTIONS(mr_ps_scheduler_options, .checkpoint_dir = "miniray-ps",
                                                .on_listening = ps_say_address, .context = name);
    command_line_parse(&ps_scheduler_argp, argc, argv, 0, &wanted,
                       "miniray ps scheduler --listen tcp:127.0.0.1:9000 --num-servers 2 --num-workers 4");
    return command_outcome(argv[0], mr_ps_run_scheduler(&wanted));
}

/* ---- A server. */

static error_t parse_server(int key, char *text, struct argp_state *state) {
    mr_ps_server_options *options = state->input;
    switch (key) {
    case SCHEDULER: options->scheduler = text; return 0;
    case LISTEN: options->listen = text; return 0;
    case ID: options->number = 1 + (uint32_t)read_number(text, "id", 0, 1023, state); return 0;
    case REMOTE: options->allow_remote = 1; return 0;
    case MEMORY: options->memory_bytes = (uint64_t)read_number(text, "memory", 1, 1 << 30, state) << 20; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int be_server(int argc, char **argv) {
    const struct argp_option options[] = {
        {"scheduler", SCHEDULER, "ADDRESS", 0,
         "Address of the scheduler (default: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT)", 0},
        {"listen", LISTEN, "ADDRESS", 0,
         "tcp:HOST:PORT or unix:PATH (default: a free port, or a socket beside the scheduler's)", 0},
        {"memory", MEMORY, "MB", 0, "Memory limit in MB (default: half of the available memory)", 0},
        {"id", ID, "N", 0, "Id of the server, to replace one that is gone (default: the lowest free id)", 0},
        {"allow-remote", REMOTE, NULL, 0, remote_doc, 0},
        {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse_server,
        .doc = "Runs one server of a parameter server until SIGTERM or Ctrl-C.\v"
               "A server keeps nothing on disk. A server that is started again copies its slots from other replicas, "
               "or from the last checkpoint.",
    };
    char name[] = "server";
    mr_ps_server_options wanted = MR_OPTIONS(mr_ps_server_options, .on_listening = ps_say_address, .context = name);
    command_line_parse(&argp, argc, argv, 0, &wanted, "miniray ps server --scheduler tcp:127.0.0.1:9000");
    return command_outcome(argv[0], mr_ps_run_server(&wanted));
}

/* ---- Choice of the role. */

/* Fails for the name of an option or command that an earlier version had, with its successor. */
static bool check_renamed(const char *title, const char *role, int argc, char **argv) {
    static const char *const renamed[][2] = {
        {"--copies", "--replicas"},         {"--beyond-this-machine", "--allow-remote"},
        {"--folder", "--checkpoint-dir"},   {"--workers", "--num-workers"},
        {"--servers", "--num-servers"},     {"--exact-checkpoints", "--consistent-checkpoints"},
        {"--backup", "--backup-workers"},   {"--number", "--id"},
        {"--with", "--parent-pid"},         {"-w", "--parent-pid"},
        {"--mixed", "--mixed-consistency"}, {"make", "create"},
    };
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t k = 0; k < sizeof renamed / sizeof *renamed; k++) {
            size_t size = strlen(renamed[k][0]);
            if (strncmp(argv[i], renamed[k][0], size) != 0 || (argv[i][size] != '\0' && argv[i][size] != '=')) continue;
            if (argv[i][0] != '-' && i != 1) continue; /* a value of an option, or a file name */
            fprintf(stderr, "%s %s: %s was renamed: use %s\n", title, role, renamed[k][0], renamed[k][1]);
            return false;
        }
    return true;
}

static const char worker_hint[] = "; a worker is your own program, which connects to the scheduler";

static error_t parse_role(int key, char *text, struct argp_state *state) {
    if (key == ARGP_KEY_ARG && strcmp(text, "worker") == 0)
        command_line_error(state, "unknown role 'worker'%s", worker_hint);
    return command_line_choose(key, text, state);
}

/* The role that DMLC_ROLE names; prints an error if there is none. */
static const command *role_of_environment(const command_choice *choice, const char *title) {
    const char *role = getenv("DMLC_ROLE");
    const command *found = role == NULL ? NULL : command_line_find(choice, role);
    if (role == NULL)
        fprintf(stderr,
                "%s: no role is given and DMLC_ROLE is not set: use scheduler, server, local, status or checkpoint; "
                "`%s --help` describes them\n",
                title, title);
    else if (found == NULL)
        fprintf(stderr, "%s: DMLC_ROLE names the unknown role '%s': use scheduler or server%s\n", title, role,
                strcmp(role, "worker") == 0 ? worker_hint : "");
    return found;
}

int command_ps(int argc, char **argv) {
    static const command roles[] = {
        {"scheduler", be_scheduler, "run the scheduler"},
        {"server", be_server, "run a server"},
        {"local", ps_local, "run the scheduler and all servers on this machine"},
        {"status", ps_status, "show slots, servers, ranks, tables and checkpoints"},
        {"checkpoint", ps_checkpoint, "list, export or create checkpoints"},
    };
    const struct argp argp = {
        .parser = parse_role,
        .args_doc = "ROLE [ARGUMENT...]\nhelp ROLE",
        .doc = "Runs processes of the key-value parameter server, shows their status, or manages checkpoints.\v"
               "Without a role, DMLC_ROLE names it, as in ps-lite. Workers are your own programs, which connect to the "
               "scheduler.",
        .help_filter = command_line_list,
    };
    command_choice choice = {.commands = roles, .count = sizeof roles / sizeof *roles, .kind = "role", .at = argc - 1};
    command_line_parse(&argp, argc, argv, ARGP_IN_ORDER, &choice,
                       "miniray ps local --num-servers 2 --num-workers 4\nminiray ps help status");
    if (choice.chosen == NULL) choice.chosen = role_of_environment(&choice, argv[0]);
    if (choice.chosen == NULL) return COMMAND_USAGE;
    bool known = check_renamed(argv[0], choice.chosen->name, argc - choice.at, argv + choice.at);
    return known ? command_line_run(&choice, argv[0], argc, argv) : COMMAND_USAGE;
}
