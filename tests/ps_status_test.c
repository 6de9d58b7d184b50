/* ps_status_test.c — output of `miniray ps status` and mr_ps_overview_get for real processes: tables and their
 * contents, failed checkpoints, and the cause of a stall when servers do not start or do not return; errors of
 * waiting workers, and the log, name the cause too. */
#include <fcntl.h>
#include <limits.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { SLOTS = 4, DIM = 3, KEYS = 50, ITEMS = 60, LOG_MAX = 1 << 16 };
#define A_WHILE_US INT64_C(1000000)
#define LONG_NAME  "a table with a name that is rather long, but not too long"

/* Redirects the stderr of the fixture's later processes to a file, which the caller closes. */
static int divert(ps_fixture *fixture) {
    int before = dup(STDERR_FILENO), file = memfd_create("log", 0);
    assert_true(before >= 0 && file >= 0);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    bool made = ps_fixture_init(fixture);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    assert_true(made);
    return file;
}

static bool has_logged(int file, const char *words) {
    static char text[LOG_MAX];
    ssize_t size = pread(file, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    return strstr(text, words) != NULL;
}

static void wait_for_log(int file, const char *words) {
    for (int64_t us = 0; !has_logged(file, words); us += 20000, usleep(20000)) {
        if (us >= PS_FIXTURE_PATIENCE_US) fprintf(stderr, "nothing was logged of '%s'\n", words);
        assert_true(us < PS_FIXTURE_PATIENCE_US);
    }
}

static mr_ps_overview *overview_of(const ps_fixture *fixture) {
    mr_ps_overview *overview = NULL;
    must(mr_ps_overview_get(fixture->address, PS_FIXTURE_PATIENCE_US, &overview));
    return overview;
}

/* The first overview for which `is` holds. */
static mr_ps_overview *overview_when(const ps_fixture *fixture, bool (*is)(const mr_ps_overview *overview)) {
    mr_ps_overview *overview = overview_of(fixture);
    for (int64_t us = 0; !is(overview); us += 20000, usleep(20000)) {
        if (us >= PS_FIXTURE_PATIENCE_US)
            fprintf(stderr, "awaited '%s', trouble '%s'\n", overview->stall, overview->checkpoint_error);
        assert_true(us < PS_FIXTURE_PATIENCE_US);
        mr_ps_overview_free(overview);
        overview = overview_of(fixture);
    }
    return overview;
}

static void status(const ps_fixture *fixture, const char *arguments, char *text, size_t room) {
    assert_true(ps_fixture_status(fixture, arguments, text, room));
}

/* Prints the status on a terminal of `columns` columns. */
static void status_at(const ps_fixture *fixture, unsigned short columns, char *text, size_t room) {
    const struct winsize window = {.ws_row = 50, .ws_col = columns};
    char program[PATH_MAX];
    size_t size = 0;
    int terminal, code;
    snprintf(program, sizeof program, "%s/miniray", getenv("MINIRAY_TEST_BUILD"));
    pid_t child = forkpty(&terminal, NULL, NULL, &window);
    assert_true(child >= 0);
    if (child == 0) {
        execl(program, program, "ps", "status", "--scheduler", fixture->address, (char *)NULL);
        _exit(127);
    }
    for (ssize_t more; (more = read(terminal, text + size, room - 1 - size)) > 0;) size += (size_t)more;
    text[size] = '\0';
    assert_int_equal(waitpid(child, &code, 0), child);
    close(terminal);
    assert_int_equal(code, 0);
}

static size_t characters(const char *line, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) count += ((unsigned char)line[i] & 0xc0) != 0x80;
    return count;
}

static void has(const char *text, const char *words) {
    if (strstr(text, words) == NULL) fprintf(stderr, "no '%s' in:\n%s\n", words, text);
    assert_non_null(strstr(text, words));
}

/* ---- Tables. */

/* State of the table of that name; empty: no such table. */
static mr_ps_table_state table_of(const mr_ps_overview *overview, const char *name) {
    for (uint32_t i = 0; i < overview->table_count; i++)
        if (strcmp(overview->tables[i].name, name) == 0) return overview->tables[i];
    return (mr_ps_table_state){.rows = 0};
}

static bool is_counted(const mr_ps_overview *overview) {
    return table_of(overview, "rows").rows == KEYS && table_of(overview, "vectors").rows == KEYS &&
           table_of(overview, "model").bytes >= ITEMS * sizeof(float);
}

static void push_to_all(mr_ps *ps) {
    const mr_ps_array arrays[] = {{.name = "w", .dims = 2, .shape = {5, ITEMS / 5 - 2}},
                                  {.name = "b", .dims = 1, .shape = {10}}};
    const mr_ps_table_options rows = MR_OPTIONS(mr_ps_table_options, .dim = DIM, .optimizer = "adam",
                                                .compression = "int8", .consistency = "ssp:2"),
                              vectors = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS, .dtype = MR_I64),
                              dense = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = arrays,
                                                 .array_count = 2, .block = 7);
    mr_ps_table *tables[4];
    uint64_t keys[KEYS], step;
    uint32_t lengths[KEYS];
    int64_t counts[KEYS] = {0};
    float values[KEYS * DIM] = {1};
    mr_ps_ticket tickets[4];
    for (uint32_t i = 0; i < KEYS; i++) keys[i] = i * UINT64_C(7919) + 3, lengths[i] = 1;
    must(mr_ps_table_create(ps, "rows", &rows, PS_FIXTURE_PATIENCE_US, &tables[0]));
    must(mr_ps_table_create(ps, "vectors", &vectors, PS_FIXTURE_PATIENCE_US, &tables[1]));
    must(mr_ps_table_create(ps, "model", &dense, PS_FIXTURE_PATIENCE_US, &tables[2]));
    must(mr_ps_table_create(ps, LONG_NAME, &vectors, PS_FIXTURE_PATIENCE_US, &tables[3]));
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    must(mr_ps_push(tables[0], keys, KEYS, values, NULL, NULL, &tickets[0]));
    must(mr_ps_push(tables[1], keys, KEYS, counts, lengths, NULL, &tickets[1]));
    must(mr_ps_push_array(tables[2], 0, values, 0, ITEMS - 10, NULL, &tickets[2]));
    must(mr_ps_push_array(tables[2], 1, values, 0, 10, NULL, &tickets[3]));
    must(mr_ps_end(ps));
    must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    for (int i = 0; i < 4; i++) mr_ps_table_free(tables[i]);
}

/* A name that is too long is cut, and the columns after it are complete. */
static void fits_into_a_terminal(const ps_fixture *fixture) {
    char text[16384], *line = text;
    int found = 0;
    status_at(fixture, 80, text, sizeof text);
    for (char *row; (row = strsep(&line, "\r\n")) != NULL;) {
        if (strncmp(row, LONG_NAME, 8) != 0) continue;
        assert_int_equal(characters(row, strlen(row)), 80 - strlen("CODEC") + strlen("none"));
        has(row, "…  vectors    -  int64     0  ");
        has(row, " 0 B  asp    add        none");
        found++;
    }
    assert_int_equal(found, 1);
}

static void tables_are_shown(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = SLOTS, .copies = 2, .consistency = MR_PS_ASP};
    char text[16384];
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    assert_non_null(ps);
    push_to_all(ps);
    mr_ps_overview *overview = overview_when(&fixture, is_counted);
    assert_int_equal(overview->table_count, 4);
    assert_true(overview->servers == 2 && overview->counted <= 2);
    mr_ps_table_state rows = table_of(overview, "rows"), vectors = table_of(overview, "vectors"),
                      model = table_of(overview, "model");
    assert_true(rows.kind == MR_PS_SPARSE && rows.dtype == MR_F32 && rows.dim == DIM && rows.arrays == 0);
    assert_in_range(rows.bytes, KEYS * DIM * 3 * sizeof(float), 1 << 20); /* with adam's state; counted once */
    assert_string_equal(rows.optimizer, "adam");
    assert_string_equal(rows.compression, "int8");
    assert_string_equal(rows.consistency, "ssp:2");
    assert_true(vectors.kind == MR_PS_VECTORS && vectors.dtype == MR_I64 && vectors.dim == 0);
    assert_string_equal(vectors.compression, "none");
    assert_string_equal(vectors.consistency, "asp");
    assert_true(model.kind == MR_PS_DENSE && model.arrays == 2 && model.rows == ITEMS && model.nonfinite == 0);
    mr_ps_overview_free(overview);
    status(&fixture, "", text, sizeof text);
    has(text, "KIND     DIM  DTYPE  ROWS");
    has(text, "sparse     3  fp32     50");
    has(text, "vectors    -  int64    50");
    has(text, "dense      -  fp32     60");
    has(text, LONG_NAME);
    fits_into_a_terminal(&fixture);
    has(text, "every slot has all its replicas");
    status(&fixture, "--json", text, sizeof text);
    has(text, "{\"name\":\"rows\",\"kind\":\"sparse\",\"dtype\":\"fp32\",\"dim\":3,");
    has(text, "\"optimizer\":\"adam\",\"codec\":\"int8\",\"consistency\":\"ssp:2\",\"rows\":50,");
    has(text, "\"stall\":null");
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- Checkpoints. */

static bool is_troubled(const mr_ps_overview *overview) { return overview->checkpoint_failed != 0; }
static bool is_fine(const mr_ps_overview *overview) { return overview->checkpoint_failed == 0; }

/* A folder has the name of the next manifest, so that writing it fails as on a full disk. */
static void trouble_with_checkpoints_is_shown(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = SLOTS, .copies = 1, .consistency = MR_PS_ASP};
    char text[16384], obstacle[TEMP_DIR_FOLDER_MAX + 32];
    char *folder;
    uint64_t number;
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    folder = realpath(fixture.folder, NULL);
    assert_non_null(folder);
    must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US, &number));
    mr_ps_overview *overview = overview_of(&fixture);
    assert_true(overview->checkpoint == number && overview->every_us == 0 && !overview->checkpoint_failed);
    int64_t age_us = clock_wall_us(clock_real()) - overview->checkpoint_us;
    assert_true(age_us >= 0 && age_us < 10 * PS_FIXTURE_PATIENCE_US);
    assert_string_equal(overview->checkpoint_error, "");
    assert_string_equal(overview->folder, folder);
    mr_ps_overview_free(overview);

    snprintf(obstacle, sizeof obstacle, "%s/manifest.new", fixture.folder);
    assert_int_equal(mkdir(obstacle, 0700), 0);
    uint64_t failed = 0;
    mr_status outcome = MR_TIMEOUT;
    while (failed == 0 && (outcome = mr_ps_checkpoint(fixture.address, A_WHILE_US, &failed)) == MR_TIMEOUT &&
           strstr(mr_last_error(), "manifest.new") == NULL) {}
    assert_int_equal(outcome, MR_TIMEOUT); /* the error names the cause */
    overview = overview_when(&fixture, is_troubled);
    has(overview->checkpoint_error, "manifest.new");
    assert_true(overview->checkpoint == number && overview->checkpoint_error_us >= overview->checkpoint_us);
    mr_ps_overview_free(overview);
    status(&fixture, "", text, sizeof text);
    has(text, "The last checkpoint failed ");
    has(text, folder);
    status(&fixture, "--json", text, sizeof text);
    has(text, "\"failed\":true,\"error\":\"");

    assert_int_equal(rmdir(obstacle), 0);
    must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US, &number));
    overview = overview_when(&fixture, is_fine);
    assert_true(overview->checkpoint >= number);
    has(overview->checkpoint_error, "manifest.new"); /* the cause */
    mr_ps_overview_free(overview);
    status(&fixture, "", text, sizeof text);
    has(text, "An earlier checkpoint failed ");

    ps_fixture_kill(&fixture, &fixture.scheduler); /* the next scheduler knows the time of the last checkpoint */
    assert_true(ps_fixture_start_scheduler(&fixture));
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    for (; ps_fixture_checkpoint(&fixture) == 0; usleep(20000)) assert_true(clock_now_us(clock_real()) < until_us);
    overview = overview_of(&fixture);
    age_us = clock_wall_us(clock_real()) - overview->checkpoint_us;
    assert_true(overview->checkpoint >= number && age_us >= 0 && age_us < 10 * PS_FIXTURE_PATIENCE_US);
    mr_ps_overview_free(overview);
    free(folder);
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- Stalls. */

static bool awaits(const mr_ps_overview *overview) { return overview->stall[0] != '\0'; }
static bool awaits_nothing(const mr_ps_overview *overview) { return overview->stall[0] == '\0'; }

static void servers_that_never_came_are_named(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = SLOTS, .copies = 1, .consistency = MR_PS_BSP};
    char text[16384], command[PATH_MAX];
    int log = divert(&fixture);
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 1);
    snprintf(command, sizeof command, "miniray ps server --scheduler %s", fixture.address);
    mr_ps *ps = NULL;
    do assert_int_equal(mr_ps_connect(fixture.address, 0, A_WHILE_US, &ps), MR_TIMEOUT);
    while (strstr(mr_last_error(), "1 of 2 servers is connected") == NULL);
    has(mr_last_error(), command);
    mr_ps_overview *overview = overview_when(&fixture, awaits);
    has(overview->stall, "1 of 2 servers is connected; tables begin when all are");
    assert_string_equal(overview->stall_hint, command);
    assert_true(overview->stall_us <= clock_wall_us(clock_real()));
    mr_ps_overview_free(overview);
    status(&fixture, "", text, sizeof text);
    has(text, "There are no slots yet");
    has(text, "1 of 2 servers is connected");
    has(text, command);
    wait_for_log(log, "waiting: 1 of 2 servers is connected");
    assert_true(has_logged(log, command));
    ps_fixture_start_server(&fixture, 0);
    must(mr_ps_connect(fixture.address, 0, PS_FIXTURE_PATIENCE_US, &ps));
    mr_ps_overview_free(overview_when(&fixture, awaits_nothing));
    wait_for_log(log, "the wait is over");
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
    close(log);
}

/* Slots have one replica: no other server has the slots, and the silent server might be alive. */
static void servers_that_do_not_come_back_are_named(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = SLOTS, .copies = 1, .consistency = MR_PS_ASP};
    const mr_ps_table_options rows = MR_OPTIONS(mr_ps_table_options, .dim = 1);
    char text[16384], command[PATH_MAX], origin[64];
    float values[KEYS];
    uint64_t keys[KEYS], step, number;
    mr_ps_table *table;
    int log = divert(&fixture);
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    assert_non_null(ps);
    for (uint32_t i = 0; i < KEYS; i++) keys[i] = i, values[i] = 1;
    must(mr_ps_table_create(ps, "rows", &rows, PS_FIXTURE_PATIENCE_US, &table));
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    must(mr_ps_push(table, keys, KEYS, values, NULL, NULL, NULL));
    must(mr_ps_end(ps));
    must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US, &number));
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    ps_fixture_kill(&fixture, &fixture.server[1]);

    snprintf(command, sizeof command, "miniray ps server --scheduler %s --id 1", fixture.address);
    snprintf(origin, sizeof origin, "all tables go back to checkpoint %llu", (unsigned long long)number);
    mr_ps_ticket ticket;
    must(mr_ps_pull(table, keys, KEYS, values, NULL, NULL, &ticket));
    do assert_int_equal(mr_ps_wait(ps, ticket, A_WHILE_US), MR_TIMEOUT);
    while (strstr(mr_last_error(), "server 1 is gone with the only replicas of slot") == NULL);
    has(mr_last_error(), "is not done: ");
    has(mr_last_error(), origin);
    has(mr_last_error(), command);
    mr_ps_overview *overview = overview_when(&fixture, awaits);
    has(overview->stall, "server 1 is gone with the only replicas of slot");
    has(overview->stall, origin);
    assert_string_equal(overview->stall_hint, command);
    mr_ps_overview_free(overview);
    status(&fixture, "", text, sizeof text);
    has(text, "Stalled for ");
    has(text, command);
    has(text, " of 4 slots lack");
    status(&fixture, "--json", text, sizeof text);
    has(text, "\"stall\":{\"what\":\"server 1 is gone");
    wait_for_log(log, "waiting: server 1 is gone with the only replicas of slot");
    assert_true(has_logged(log, command));

    ps_fixture_start_server(&fixture, 1);
    assert_int_equal(mr_ps_wait(ps, ticket, PS_FIXTURE_PATIENCE_US), MR_STALE);
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    assert_int_equal(step, 1);
    must(mr_ps_pull(table, keys, KEYS, values, NULL, NULL, NULL));
    for (uint32_t i = 0; i < KEYS; i++) assert_true(values[i] == 1);
    mr_ps_overview_free(overview_when(&fixture, awaits_nothing));
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
    close(log);
}

static void spoil_shards(const ps_fixture *fixture) {
    for (uint32_t place = 0; place < 4; place++)
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/shard-%u-%u.safetensors", fixture->folder, place, slot);
            if (access(path, W_OK) == 0) assert_int_equal(truncate(path, 10), 0);
        }
}

/* No generation begins from an empty state, and waiting workers get the cause. */
static void checkpoints_that_are_all_damaged_are_told(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = SLOTS, .copies = 1, .consistency = MR_PS_ASP};
    char text[16384];
    uint64_t number;
    int log = divert(&fixture);
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    assert_non_null(ps);
    for (int i = 0; i < 2; i++) must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US, &number));
    mr_ps_close(ps);
    ps_fixture_kill(&fixture, &fixture.server[0]);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    spoil_shards(&fixture);
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    mr_ps_overview *overview = overview_when(&fixture, awaits);
    has(overview->stall, "tables cannot start from the checkpoints in ");
    has(overview->stall, ".safetensors is damaged, and no other is left");
    assert_int_equal(overview->checkpoint, 0);
    mr_ps_overview_free(overview);
    status(&fixture, "", text, sizeof text);
    has(text, "miniray ps checkpoint list --checkpoint-dir ");
    do assert_int_equal(mr_ps_connect(fixture.address, 0, A_WHILE_US, &ps), MR_TIMEOUT);
    while (strstr(mr_last_error(), "no other is left") == NULL);
    wait_for_log(log, "waiting: tables cannot start from the checkpoints in ");
    assert_true(ps_fixture_fini(&fixture));
    close(log);
}

static void limit_files(pid_t process, rlim_t bytes) {
    const struct rlimit limit = {bytes, RLIM_INFINITY};
    assert_int_equal(prlimit(process, RLIMIT_FSIZE, &limit, NULL), 0);
}

static size_t lines_with(int file, const char *words) {
    static char text[LOG_MAX];
    ssize_t size = pread(file, text, sizeof text - 1, 0);
    size_t count = 0;
    text[size > 0 ? size : 0] = '\0';
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) count++;
    return count;
}

/* Makes the files of slots larger than the log will be. */
static void fill_slots(const ps_fixture *fixture) {
    enum { LARGE = SLOTS * 10000 };
    const mr_ps_array array = {.name = "w", .dims = 1, .shape = {LARGE}};
    const mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = 10000);
    static float values[LARGE];
    uint64_t step;
    mr_ps_table *table;
    mr_ps *ps = ps_fixture_connect(fixture, 0);
    assert_non_null(ps);
    must(mr_ps_table_create(ps, "large", &options, PS_FIXTURE_PATIENCE_US, &table));
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    for (size_t i = 0; i < LARGE; i++) values[i] = (float)i;
    must(mr_ps_push_array(table, 0, values, 0, LARGE, NULL, NULL));
    mr_ps_table_free(table);
    mr_ps_close(ps);
}

/* Like a full disk: files cannot grow to the size that the log needs. */
static void a_disk_that_takes_nothing_is_told(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = SLOTS, .copies = 2, .consistency = MR_PS_ASP};
    char text[16384];
    uint64_t number;
    signal(SIGXFSZ, SIG_IGN); /* inherited by the processes of the fixture */
    int log = divert(&fixture);
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    fill_slots(&fixture);
    limit_files(fixture.scheduler, 8192);
    assert_int_equal(mr_ps_checkpoint(fixture.address, 2 * A_WHILE_US, &number), MR_TIMEOUT);
    has(mr_last_error(), "cannot write 'shard-");
    assert_int_equal(lines_with(log, "cannot write checkpoints in"), 1); /* one line for any number of attempts */
    ps_fixture_kill(&fixture, &fixture.server[1]);
    ps_fixture_start_server(&fixture, 1);
    mr_ps_overview *overview = overview_when(&fixture, awaits);
    has(overview->stall, "decisions cannot be written to ");
    has(overview->stall_hint, "df ");
    mr_ps_overview_free(overview);
    status(&fixture, "", text, sizeof text);
    has(text, "no process can be replaced or added");
    wait_for_log(log, "waiting: no process can be replaced or added");
    limit_files(fixture.scheduler, RLIM_INFINITY);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    mr_ps_overview_free(overview_when(&fixture, awaits_nothing));
    must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US, &number));
    assert_true(ps_fixture_fini(&fixture));
    close(log);
    signal(SIGXFSZ, SIG_DFL);
}

static void a_server_without_a_scheduler_says_so(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = SLOTS, .copies = 1};
    int log = divert(&fixture);
    ps_fixture_start_server(&fixture, 0);
    wait_for_log(log, "waiting for the scheduler at unix:");
    ps_fixture_kill(&fixture, &fixture.server[0]);
    assert_true(ps_fixture_fini(&fixture));
    close(log);
}

static void invalid_queries_are_reported(void **state) {
    mr_ps_overview *overview = NULL;
    assert_int_equal(mr_ps_overview_get("unix:/nowhere/at/all", 10000, &overview), MR_TIMEOUT);
    assert_said("no answer from the scheduler at unix:/nowhere/at/all");
    assert_int_equal(mr_ps_overview_get("nowhere", 10000, &overview), MR_INVALID);
    assert_int_equal(mr_ps_overview_get("unix:/x", 0, &overview), MR_TIMEOUT);
    assert_null(overview);
    mr_ps_overview_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_shown),
        cmocka_unit_test(trouble_with_checkpoints_is_shown),
        cmocka_unit_test(servers_that_never_came_are_named),
        cmocka_unit_test(servers_that_do_not_come_back_are_named),
        cmocka_unit_test(checkpoints_that_are_all_damaged_are_told),
        cmocka_unit_test(a_disk_that_takes_nothing_is_told),
        cmocka_unit_test(a_server_without_a_scheduler_says_so),
        cmocka_unit_test(invalid_queries_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
