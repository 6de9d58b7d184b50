/* miniray_test.c — the command line program: output, error messages and exit status. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/status.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

enum { USAGE = 2, ARGUMENTS_MAX = 8, TEXT_MAX = 16384 };

typedef struct outcome {
    int code;
    char out[TEXT_MAX], err[TEXT_MAX];
} outcome;

typedef struct start {
    const char *const *arguments;   /* NULL-terminated */
    const char *const *environment; /* NULL-terminated */
    int out_fd, err_fd;
} start;

static int runs_miniray(void *argument) {
    const start *start = argument;
    const char *build = getenv("MINIRAY_TEST_BUILD");
    char path[4096], *argv[ARGUMENTS_MAX + 2] = {path};
    if (build == NULL) return 125;
    snprintf(path, sizeof path, "%s/miniray", build);
    for (int i = 0; start->arguments[i] != NULL; i++) argv[i + 1] = strdup(start->arguments[i]);
    dup2(start->out_fd, STDOUT_FILENO);
    dup2(start->err_fd, STDERR_FILENO);
    clearenv();
    for (int i = 0; start->environment[i] != NULL; i++) putenv(strdup(start->environment[i]));
    execv(path, argv);
    return 126;
}

static void read_all(int fd, char text[TEXT_MAX]) {
    ssize_t size = pread(fd, text, TEXT_MAX - 1, 0);
    text[size < 0 ? 0 : size] = '\0';
    close(fd);
}

static outcome run(const char *const *arguments, const char *const *environment) {
    start start = {arguments, environment, memfd_create("out", MFD_CLOEXEC), memfd_create("err", MFD_CLOEXEC)};
    outcome outcome;
    outcome.code = test_child_run(runs_miniray, &start, 60000);
    read_all(start.out_fd, outcome.out);
    read_all(start.err_fd, outcome.err);
    return outcome;
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING   ((const char *const[]){NULL})
#define RUN(...)  run(LIST(__VA_ARGS__), NOTHING)

static void assert_has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) print_error("'%s' is not in:\n%s\n", part, text);
    assert_non_null(strstr(text, part));
}

static void assert_good(const outcome *outcome) {
    assert_string_equal(outcome->err, "");
    assert_int_equal(outcome->code, 0);
}

static void version_prints_it(void **state) {
    char expected[64];
    snprintf(expected, sizeof expected, "miniray %s\n", mr_version());
    outcome by_command = RUN("version"), by_option = RUN("--version"), short_option = RUN("-V");
    assert_good(&by_command);
    assert_string_equal(by_command.out, expected);
    assert_good(&by_option);
    assert_string_equal(by_option.out, expected);
    assert_good(&short_option);
    assert_string_equal(short_option.out, expected);
}

static void help_lists_the_commands(void **state) {
    outcome outcome = RUN("--help");
    assert_good(&outcome);
    assert_has(outcome.out, "Usage: miniray [OPTION...] COMMAND [ARGUMENT...]\n");
    assert_has(outcome.out, "\nCommands:\n");
    assert_has(outcome.out, "\n  config     list every option");
    assert_has(outcome.out, "\n  version    print the version\n");
    const char *const commands[] = {"doctor", "list", "logs", "memory", "status", "timeline", "why"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n  %-10s ", commands[i]);
        assert_has(outcome.out, line);
        struct outcome help = RUN(commands[i], "--help");
        assert_good(&help);
        assert_has(help.out, "--json");
    }
    outcome = RUN("config", "--help");
    assert_good(&outcome);
    assert_has(outcome.out, "Usage: miniray config [OPTION...]\n");
    assert_has(outcome.out, "--json");
    assert_has(outcome.out, "MINIRAY_LOG_LEVEL=info");
}

/* The page of each command has the same parts and is shown by -h, --help, help COMMAND and COMMAND help. */
static void every_command_has_a_page(void **state) {
    static const char *const commands[][2] = {{"config"},
                                              {"doctor"},
                                              {"list"},
                                              {"logs"},
                                              {"memory"},
                                              {"ps"},
                                              {"start"},
                                              {"status"},
                                              {"stop"},
                                              {"timeline"},
                                              {"version"},
                                              {"why"},
                                              {"ps", "server"},
                                              {"ps", "status"},
                                              {"ps", "local"},
                                              {"ps", "scheduler"},
                                              {"ps", "checkpoint"}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *first = commands[i][0], *second = commands[i][1];
        outcome page = second == NULL ? RUN(first, "--help") : RUN(first, second, "--help");
        outcome others[] = {second == NULL ? RUN(first, "-h") : RUN(first, second, "-h"),
                            second == NULL ? RUN("help", first) : RUN("help", first, second),
                            second == NULL ? RUN(first, "help") : RUN(first, second, "help"),
                            second == NULL ? RUN("help", first) : RUN(first, "help", second)};
        char usage[64];
        snprintf(usage, sizeof usage, "Usage: miniray %s%s%s [OPTION...]", first, second == NULL ? "" : " ",
                 second == NULL ? "" : second);
        assert_good(&page);
        assert_has(page.out, usage);
        assert_has(page.out, "  -h, --help                 Show this help\n");
        assert_has(page.out, "\nExample");
        assert_has(page.out, "\nExit status: 0 success, 1 failure, 2 wrong arguments.\n");
        assert_null(strstr(page.out, "mr_"));
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            assert_good(&others[k]);
            assert_string_equal(others[k].out, page.out);
        }
    }
    outcome overview = RUN("--help"), by_word = RUN("help"), short_option = RUN("-h"), unknown = RUN("help", "dance");
    assert_string_equal(by_word.out, overview.out);
    assert_string_equal(short_option.out, overview.out);
    assert_int_equal(unknown.code, USAGE);
    assert_has(unknown.err, "unknown command 'dance'");
}

static void ps_wants_a_role(void **state) {
    outcome outcome = RUN("ps");
    assert_int_equal(outcome.code, USAGE);
    assert_has(outcome.err, "no role is given and DMLC_ROLE is not set");
    outcome = run(LIST("ps"), LIST("DMLC_ROLE=worker"));
    assert_int_equal(outcome.code, USAGE);
    assert_has(outcome.err, "unknown role 'worker'");
    assert_has(outcome.err, "a worker is your own program");
    outcome = RUN("ps", "worker");
    assert_int_equal(outcome.code, USAGE);
    assert_has(outcome.err, "miniray ps: unknown role 'worker'");
    outcome = RUN("ps", "local", "--num-workers", "1");
    assert_int_equal(outcome.code, USAGE);
    assert_has(outcome.err, "the number of servers is missing: use --num-servers N, from 1 to 1024");
    outcome = run(LIST("ps"), LIST("DMLC_ROLE=server"));
    assert_int_equal(outcome.code, USAGE);
    assert_has(outcome.err, "miniray ps server: no address of the scheduler is given, and DMLC_PS_ROOT_URI is not set");
    outcome = RUN("ps", "scheduler", "--num-servers", "1");
    assert_int_equal(outcome.code, USAGE);
    assert_has(outcome.err, "num_workers (--num-workers) is not given, and DMLC_NUM_WORKER is not set");
    outcome = RUN("ps", "scheduler", "--consistency", "some");
    assert_int_equal(outcome.code, USAGE);
    assert_has(outcome.err, "--consistency must be bsp, ssp:STEPS or asp, not 'some'");
    outcome = RUN("ps", "local", "--readers", "2000");
    assert_int_equal(outcome.code, USAGE);
    assert_has(outcome.err, "--readers must be a whole number from 0 to 1024, not '2000'");
    outcome = RUN("ps", "status", "--help");
    assert_good(&outcome);
    assert_has(outcome.out, "--json");
}

static void an_old_name_is_an_error_that_names_the_new_one(void **state) {
    static const struct {
        const char *role, *old, *said;
    } renamed[] = {
        {"scheduler", "--copies=2", "miniray ps scheduler: --copies was renamed: use --replicas\n"},
        {"scheduler", "--beyond-this-machine", "--beyond-this-machine was renamed: use --allow-remote\n"},
        {"local", "--folder=/tmp", "miniray ps local: --folder was renamed: use --checkpoint-dir\n"},
        {"local", "--exact-checkpoints", "--exact-checkpoints was renamed: use --consistent-checkpoints\n"},
        {"local", "--backup=1", "--backup was renamed: use --backup-workers\n"}, /* argp would accept an abbreviation */
        {"local", "--mixed", "--mixed was renamed: use --mixed-consistency\n"},  /* here, too */
        {"local", "--with=1", "--with was renamed: use --parent-pid\n"},
        {"server", "--number=1", "miniray ps server: --number was renamed: use --id\n"},
        {"checkpoint", "make", "miniray ps checkpoint: make was renamed: use create\n"},
    };
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        outcome outcome = RUN("ps", renamed[i].role, renamed[i].old);
        assert_int_equal(outcome.code, USAGE);
        assert_has(outcome.err, renamed[i].said);
    }
    outcome outcome = RUN("ps", "checkpoint", "--checkpoint-dir", "make",
                          "list"); /* "make" is a value here, not the renamed command */
    assert_int_equal(outcome.code, 1);
    assert_null(strstr(outcome.err, "renamed"));
    outcome = run(LIST("config"), LIST("MINIRAY_SPILL_FOLDER=/tmp"));
    assert_int_equal(outcome.code, USAGE);
    assert_has(outcome.err, "MINIRAY_SPILL_FOLDER was renamed: use MINIRAY_SPILL_DIR\n");
}

static void config_is_a_table(void **state) {
    outcome outcome = RUN("config");
    assert_good(&outcome);
    assert_has(outcome.out, "OPTION            VALUE     SOURCE       DEFAULT   DESCRIPTION\n");
    assert_has(outcome.out, "\narena_bytes       0         default      0         size of");
    assert_has(outcome.out, "\nlog_level         warn      default      warn      ");
    assert_ptr_equal(strstr(outcome.out, "OPTION"), outcome.out);
    outcome = run(LIST("config"), LIST("MINIRAY_ARENA_BYTES=2048M", "MINIRAY_LOG_LEVEL=debug"));
    assert_good(&outcome);
    assert_has(outcome.out, "\narena_bytes       2G        environment  0         size of");
    assert_has(outcome.out, "\nlog_level         debug     environment  warn      ");
}

static void config_is_json(void **state) {
    outcome outcome = run(LIST("config", "--json"), LIST("MINIRAY_SPIN_US=1ms"));
    assert_good(&outcome);
    assert_has(outcome.out, "\"spin_us\":{\"variable\":\"MINIRAY_SPIN_US\",\"value\":1000,\"source\":\"environment\"");
    assert_ptr_equal(strstr(outcome.out, "{\"format\":2,\""), outcome.out);
    assert_string_equal(outcome.out + strlen(outcome.out) - 3, "}}\n");
}

static void a_bad_variable_is_an_error_that_says_it(void **state) {
    for (int json = 0; json <= 1; json++) {
        outcome outcome = run(json ? LIST("config", "-j") : LIST("config"), LIST("MINIRAY_LOG_LEVEL=loud"));
        assert_int_equal(outcome.code, USAGE);
        assert_string_equal(outcome.out, "");
        assert_string_equal(
            outcome.err,
            "miniray config: MINIRAY_LOG_LEVEL: 'loud' is not allowed: expected error, warn, info or debug\n");
    }
}

static void an_unknown_variable_is_a_warning(void **state) {
    outcome outcome = run(LIST("config"), LIST("MINIRAY_SPIN=5us"));
    assert_int_equal(outcome.code, 0);
    assert_has(outcome.out, "\nspin_us           20us      default ");
    assert_has(outcome.err, "environment variable MINIRAY_SPIN is not an option of this version; did you mean "
                            "MINIRAY_SPIN_US?");
}

static void assert_usage_error(outcome outcome, const char *said) {
    assert_int_equal(outcome.code, USAGE);
    assert_string_equal(outcome.out, "");
    assert_has(outcome.err, said);
    assert_has(outcome.err, "Try `miniray");
}

static void wrong_usage_is_told(void **state) {
    assert_usage_error(run(NOTHING, NOTHING), "miniray: no command is given\n");
    assert_usage_error(RUN("dance"), "miniray: unknown command 'dance'\n");
    assert_usage_error(RUN(""), "miniray: unknown command ''\n");
    assert_usage_error(RUN("conf"), "unknown command 'conf'; did you mean config?\n"); /* no abbreviations */
    assert_usage_error(RUN("--dance"), "unknown option '--dance'\n");
    assert_usage_error(RUN("--json", "config"), "unknown option '--json'\n");
    assert_usage_error(RUN("status", "--jsn"), "miniray status: unknown option '--jsn'; did you mean --json?\n");
    assert_usage_error(RUN("status", "-x"), "miniray status: unknown option '-x'\n");
    assert_usage_error(RUN("status", "-jx"), "miniray status: unknown option '-x'\n");
    assert_usage_error(RUN("status", "--limit"), "miniray status: option --limit needs a value\n");
    assert_usage_error(RUN("status", "-n"), "miniray status: option -n needs a value\n");
    assert_usage_error(RUN("status", "--json=3"), "miniray status: option --json takes no value\n");
    assert_usage_error(RUN("start", "--num", "3"), "option --num is ambiguous: --num-cpus or --num-gpus\n");
    assert_usage_error(RUN("list", "actor"), "; did you mean actors?\n");
    assert_usage_error(RUN("why", "banana"), "'banana' is not an id such as t4:17");
    assert_usage_error(RUN("config", "--dance"), "miniray config: unknown option '--dance'\n");
    assert_usage_error(RUN("config", "spin_us"), "miniray config: unexpected argument 'spin_us'\n");
    assert_usage_error(RUN("list"), "miniray list: no list is given: use tasks, actors, objects, workers or groups\n");
    assert_usage_error(RUN("list", "jobs"), "unknown list 'jobs'");
    assert_usage_error(RUN("list", "tasks", "actors"), "miniray list: unexpected argument 'actors'\n");
    assert_usage_error(RUN("list", "tasks", "--limit", "-1"), "--limit must be a number from 0 to 100000, not '-1'");
    assert_usage_error(RUN("list", "tasks", "--limit=x"), "--limit must be a number");
    assert_usage_error(RUN("timeline"), "miniray timeline: no output file is given");
    assert_usage_error(RUN("timeline", "a", "b"), "miniray timeline: unexpected argument 'b'\n");
    assert_usage_error(RUN("logs", "a", "b"), "miniray logs: unexpected argument 'b'\n");
    assert_usage_error(RUN("why"), "miniray why: no id is given");
    assert_usage_error(RUN("why", "t1:1", "t1:2"), "miniray why: unexpected argument 't1:2'\n");
    assert_usage_error(RUN("status", "please"), "miniray status: unexpected argument 'please'\n");
    assert_usage_error(RUN("doctor", "please"), "miniray doctor: unexpected argument 'please'\n");
    assert_usage_error(RUN("version", "please"), "miniray version: unexpected argument 'please'\n");
}

static void the_doctor_looks_at_the_machine(void **state) {
    outcome outcome = run(LIST("doctor"), LIST("TMPDIR=/tmp"));
    assert_has(outcome.out, "STATE  CHECK             FOUND\n");
    assert_has(outcome.out, "  memfd             can be created and sealed\n");
    assert_int_equal(outcome.code, strstr(outcome.out, "\nfail  ") != NULL);
    outcome = run(LIST("doctor"), LIST("TMPDIR=/nowhere/at/all", "MINIRAY_LOG_LEVEL=none"));
    assert_int_equal(outcome.code, 1);
    assert_has(outcome.out, "\nwarn   session dir       /nowhere/at/all: No such file or directory; nodes use /");
    assert_has(outcome.out,
               "\nwarn: session dir\n  A node's sockets and logs are not where XDG_RUNTIME_DIR or TMPDIR says");
    assert_null(strstr(outcome.out, "free below /nowhere"));
    assert_null(strstr(outcome.out, "disk              /nowhere"));
    assert_has(outcome.out, "\nfail   options           MINIRAY_LOG_LEVEL: 'none' is not allowed");
    assert_null(strstr(outcome.out, "This machine has everything"));
    outcome = run(LIST("doctor"), LIST("MINIRAY_SPILL_DIR=/nowhere/else"));
    assert_has(outcome.out, "\nwarn   disk              /nowhere/else: No such file or directory\n");
    outcome = run(LIST("doctor", "--json"), LIST("MINIRAY_ARENA_BYTES=16384G"));
    assert_int_equal(outcome.code, 1);
    assert_has(outcome.out, "{\"format\":2,\"good\":false,\"checks\":[{\"name\":\"kernel\",");
    assert_has(outcome.out, "a node's shared memory is 16 TB\"");
}

/* Whether the text has no byte that changes a terminal: control characters, also those of two bytes in UTF-8,
 * characters that change the direction of text, and bytes that are no UTF-8. */
static bool is_harmless(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if ((*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f || *at == 0xff) return false;
        if ((at[0] == 0xc2 && at[1] < 0xa0) || (at[0] == 0xe2 && at[1] == 0x80 && at[2] == 0xae)) return false;
    }
    return true;
}

/* Names from the command line appear in errors, in the title of a window or over the line before. */
static void control_characters_are_shown_harmlessly(void **state) {
    static const char bad[] = "\033]0;title\007\033[2K\rname\x7f\xc2\x9b"
                              "31m\xe2\x80\xae\xff\xe2\x82\xac\xc3";
    const char *const *all[] = {LIST(bad),
                                LIST("list", bad),
                                LIST("why", bad),
                                LIST("logs", bad),
                                LIST("status", "--address", bad),
                                LIST("stop", "--address", bad),
                                LIST("timeline", bad),
                                LIST("ps", bad),
                                LIST("ps", "status", "--scheduler", bad),
                                LIST("ps", "checkpoint", "list", bad),
                                LIST("ps", "server", "--scheduler", bad),
                                LIST("config", bad),
                                LIST("start", "--address", bad)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        outcome outcome = run(all[i], LIST("TMPDIR=/nowhere/at/all", "MINIRAY_LOG_LEVEL=warn"));
        assert_int_not_equal(outcome.code, 0);
        if (!is_harmless(outcome.out) || !is_harmless(outcome.err)) fail_msg("%zu: %s%s", i, outcome.out, outcome.err);
    }
    outcome shown = run(LIST(bad), LIST("PATH=/bin"));
    assert_has(shown.err,
               "miniray: unknown command '\\u001b]0;title\\u0007\\u001b[2K\\u000dname\\u007f\\u009b31m\\u202e"
               "\\xff€\\xc3'");
}

static void a_node_that_is_not_there_is_told(void **state) {
    const char *const *all[] = {LIST("status"), LIST("list", "tasks"), LIST("memory"), LIST("why", "t1:1"),
                                LIST("timeline", "/dev/null")};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        outcome outcome = run(all[i], LIST("MINIRAY_ADDRESS=/nowhere/at/all"));
        assert_int_equal(outcome.code, 1);
        assert_int_equal(run(all[i], LIST("MINIRAY_ADDRESS=word")).code, USAGE);
        assert_string_equal(outcome.out, "");
        assert_has(outcome.err, "/nowhere/at/all");
    }
}

static void no_node_at_all_is_no_fault_of_status(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX], variable[TEMP_DIR_FOLDER_MAX + 16];
    assert_true(temp_dir_folder(folder));
    snprintf(variable, sizeof variable, "TMPDIR=%s", folder);
    outcome outcome = run(LIST("status"), LIST(variable));
    assert_good(&outcome);
    assert_has(outcome.out, "No node of this user runs on this machine.");
    outcome = run(LIST("status", "--json"), LIST(variable));
    assert_good(&outcome);
    assert_string_equal(outcome.out, "{\"format\":2,\"nodes\":[]}\n");
    outcome = run(LIST("list", "tasks"), LIST(variable));
    assert_int_equal(outcome.code, 1);
    assert_has(outcome.err, "no node of this user runs on this machine: start a driver, or use `miniray start`");
    outcome = run(LIST("logs"), LIST(variable));
    assert_good(&outcome);
    assert_has(outcome.out, "No session of this user has left a log.");
    outcome = run(LIST("logs", "4711"), LIST(variable));
    assert_int_equal(outcome.code, 1);
    assert_has(outcome.err, "no log of process '4711'");
    assert_int_equal(rmdir(folder), 0); /* the command has left no file */
}

static void write_log(const char *run, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", run, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Logs of an ended session: the newest lines, or one complete file; control characters are replaced. */
static void logs_of_a_run_are_shown(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX], base[TEMP_DIR_FOLDER_MAX + 32], run_folder[TEMP_DIR_FOLDER_MAX + 64],
        variable[96];
    char long_text[4000] = "";
    assert_true(temp_dir_folder(folder));
    snprintf(variable, sizeof variable, "TMPDIR=%s", folder);
    snprintf(base, sizeof base, "%s/miniray-%u", folder, (unsigned)geteuid());
    snprintf(run_folder, sizeof run_folder, "%s/20260101-000000-1-0", base);
    assert_int_equal(mkdir(base, 0700), 0);
    assert_int_equal(mkdir(run_folder, 0700), 0);
    for (int i = 0; i < 100; i++) snprintf(long_text + strlen(long_text), 32, "line %d\n", i);
    write_log(run_folder, "4711.out.log", long_text);
    write_log(run_folder, "4711.out.log.1", "older\n");
    write_log(run_folder, "4711.err.log", ""); /* empty: nothing was written to stderr */
    write_log(run_folder, "4712.out.log", "\x1ename:Counter(7)\na \033[31mred\033[0m line");
    write_log(run_folder, "4712.err.log", "a complaint\n");
    outcome all = run(LIST("logs"), LIST(variable)), one = run(LIST("logs", "4711"), LIST(variable)),
            both = run(LIST("logs", "4712"), LIST(variable)),
            json = run(LIST("logs", "--json", "4712"), LIST(variable));
    assert_good(&all);
    assert_has(all.out, "[4711.out] line 99\n[4712.err] a complaint\n[4712.out] a \\u001b[31mred\\u001b[0m line\n");
    assert_has(all.out, "[4711.out] line 80\n");
    assert_good(&both);
    assert_string_equal(both.out, "[4712.err] a complaint\n[4712.out] a \\u001b[31mred\\u001b[0m line\n");
    assert_null(strstr(all.out, "line 79\n"));
    assert_good(&one);
    assert_ptr_equal(strstr(one.out, "older\n"), one.out);
    assert_string_equal(one.out + 6, long_text);
    assert_good(&json);
    assert_has(json.out, "\"logs\":[{\"name\":\"4712.err\",\"stream\":\"stderr\",\"path\":");
    assert_has(json.out, "{\"name\":\"4712.out\",\"stream\":\"stdout\",\"path\":");
    const char *const names[] = {"4711.out.log", "4711.out.log.1", "4711.err.log", "4712.out.log", "4712.err.log"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", run_folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(run_folder) + rmdir(base) + rmdir(folder), 0);
}

static void output_that_is_lost_is_an_error(void **state) {
    const char *const *all[] = {LIST("version"), LIST("config"), LIST("doctor"), LIST("--help")};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        start start = {all[i], NOTHING, open("/dev/full", O_WRONLY | O_CLOEXEC), memfd_create("err", MFD_CLOEXEC)};
        char err[TEXT_MAX];
        assert_true(start.out_fd >= 0);
        assert_int_equal(test_child_run(runs_miniray, &start, 60000), 1);
        close(start.out_fd);
        read_all(start.err_fd, err);
        assert_string_equal(err, "miniray: cannot write the output: No space left on device\n");
    }
}

static void a_node_is_started_and_stopped(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX], variable[TEMP_DIR_FOLDER_MAX + 8], address[TEMP_DIR_FOLDER_MAX + 32];
    assert_true(temp_dir_folder(folder));
    snprintf(variable, sizeof variable, "TMPDIR=%s", folder);
    snprintf(address, sizeof address, "--address=%s/node", folder);
    const char *const *environment = LIST(variable);
    outcome none = run(LIST("stop"), environment);
    assert_int_equal(none.code, 1);
    assert_has(none.err, "miniray stop: no node is running at ");
    outcome started = run(LIST("start", "--num-cpus=1", "--store-bytes=16M", "--resources=a=1"), environment);
    assert_good(&started);
    assert_has(started.out, "MINIRAY_ADDRESS=auto\n");
    outcome again = run(LIST("start"), environment);
    assert_int_equal(again.code, 1);
    assert_has(again.err, "already");
    outcome beside = run(LIST("start", "--store-bytes=16M", address), environment);
    assert_good(&beside);
    assert_has(beside.out, address + strlen("--address="));
    outcome stopped = run(LIST("stop"), environment), other = run(LIST("stop", address), environment);
    assert_good(&stopped);
    assert_good(&other);
    assert_true(temp_dir_is_empty(folder));
    rmdir(folder);
}

static void wrong_arguments_of_start_are_told(void **state) {
    static const struct {
        const char *argument, *said;
        int code;
    } wrong[] = {
        {"--num-cpus=0", "from 1 to 1024, not '0'", USAGE},
        {"--num-cpus=2x", "from 1 to 1024, not '2x'", USAGE},
        {"--num-gpus=-1", "0 or more, not '-1'", USAGE},
        {"--store-bytes=1T", "not '1T'", USAGE},
        {"--store-bytes=0", "not '0'", USAGE},
        {"node", "unexpected argument 'node'", USAGE},
        {"--resources=a", "expected name=amount", USAGE},
        {"--address=word", "'word' is not the address", USAGE},
        {"--address=/no/such/folder/socket", "No such file or directory", 1},
        {"--store-bytes=1k", "the minimum is", 1},
    };
    char folder[TEMP_DIR_FOLDER_MAX], variable[TEMP_DIR_FOLDER_MAX + 8];
    assert_true(temp_dir_folder(folder));
    snprintf(variable, sizeof variable, "TMPDIR=%s", folder);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        outcome outcome = run(LIST("start", wrong[i].argument), LIST(variable));
        assert_int_equal(outcome.code, wrong[i].code);
        assert_has(outcome.err, wrong[i].said);
        assert_true(temp_dir_is_empty(folder));
    }
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_prints_it),
        cmocka_unit_test(help_lists_the_commands),
        cmocka_unit_test(every_command_has_a_page),
        cmocka_unit_test(ps_wants_a_role),
        cmocka_unit_test(an_old_name_is_an_error_that_names_the_new_one),
        cmocka_unit_test(config_is_a_table),
        cmocka_unit_test(config_is_json),
        cmocka_unit_test(a_bad_variable_is_an_error_that_says_it),
        cmocka_unit_test(an_unknown_variable_is_a_warning),
        cmocka_unit_test(wrong_usage_is_told),
        cmocka_unit_test(the_doctor_looks_at_the_machine),
        cmocka_unit_test(control_characters_are_shown_harmlessly),
        cmocka_unit_test(a_node_that_is_not_there_is_told),
        cmocka_unit_test(no_node_at_all_is_no_fault_of_status),
        cmocka_unit_test(logs_of_a_run_are_shown),
        cmocka_unit_test(output_that_is_lost_is_an_error),
        cmocka_unit_test(a_node_is_started_and_stopped),
        cmocka_unit_test(wrong_arguments_of_start_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
