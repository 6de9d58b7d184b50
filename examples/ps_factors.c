/* ps_factors.c — matrix factorization: a matrix of ratings becomes the product of two thin matrices. Every user and
 * every item has a row of four numbers on the servers; two workers pull the rows that they need and push gradients.
 * Halfway one of the two servers is killed: the other one has a replica of every row, and the result has the same
 * numbers.
 *
 *     cc ps_factors.c $(pkg-config --cflags --libs miniray) -lm -o ps_factors && ./ps_factors */
#include <dirent.h>
#include <math.h>
#include <miniray/admin.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USERS = 60, ITEMS = 40, FACTORS = 4, WORKERS = 2, SERVERS = 2, STEPS = 120 };
enum { MINE = USERS / WORKERS, ROWS = MINE + ITEMS };
#define FIRST_ITEM  (UINT64_C(1) << 32) /* users and items share a table, with separate ranges of keys */
#define PATIENCE_US INT64_C(30000000)

static char folder[64], address[80];
static pid_t server[SERVERS];

/* ---- Ratings: synthetic, from four tastes of each user and item. Every fourth rating is kept for the test. */

static float taste(int who, int k) { return sinf((float)(who * 7 + k * 13 + 1)); }

static float rating(int user, int item) {
    float sum = 0;
    for (int k = 0; k < FACTORS; k++) sum += taste(user, k) * taste(1000 + item, k);
    return sum;
}

static bool is_test(int user, int item) { return (user * 7 + item * 3) % 4 == 0; }

/* ---- A worker: its users, and all items. */

typedef float row[FACTORS];

static float miss(const row *rows, int rank, int user, int item) {
    float sum = 0;
    for (int k = 0; k < FACTORS; k++) sum += rows[user][k] * rows[MINE + item][k];
    return sum - rating(rank * MINE + user, item);
}

static void learn(const row *rows, int rank, row *gradient) {
    memset(gradient, 0, ROWS * sizeof *gradient);
    for (int user = 0; user < MINE; user++)
        for (int item = 0; item < ITEMS; item++) {
            if (is_test(rank * MINE + user, item)) continue;
            float error = miss(rows, rank, user, item);
            for (int k = 0; k < FACTORS; k++) {
                gradient[user][k] += error * rows[MINE + item][k];
                gradient[MINE + item][k] += error * rows[user][k];
            }
        }
}

static void report(const row *rows, int rank, uint64_t step) {
    float sum = 0;
    int count = 0;
    for (int user = 0; user < MINE; user++)
        for (int item = 0; item < ITEMS; item++) {
            if (!is_test(rank * MINE + user, item)) continue;
            float error = miss(rows, rank, user, item);
            sum += error * error;
            count++;
        }
    printf("step %3llu: ratings that nobody gave are off by %.4f\n", (unsigned long long)step,
           (double)sqrtf(sum / (float)count));
}

/* Executes one step. MR_STALE: the step is void, and mr_ps_begin returns the step to continue with. */
static mr_status play(mr_ps *ps, mr_ps_table *table, const uint64_t *keys, int rank, uint64_t step) {
    row rows[ROWS], gradient[ROWS];
    mr_ps_ticket ticket;
    MR_TRY(mr_ps_pull(table, keys, ROWS, rows, NULL, NULL, NULL));
    if (rank == 0 && step % 20 == 0) report((const row *)rows, rank, step);
    if (rank == 0 && step == STEPS / 2) kill(server[1], SIGKILL);
    learn((const row *)rows, rank, gradient);
    MR_TRY(mr_ps_push(table, keys, ROWS, gradient, NULL, NULL, &ticket));
    MR_TRY(mr_ps_end(ps));
    return mr_ps_wait(ps, ticket, PATIENCE_US);
}

static mr_status work(int rank) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = FACTORS, .optimizer = "adagrad",
                                                   .rate = 0.3f, .initializer = "normal:0:0.5", .seed = 1);
    mr_ps *ps;
    mr_ps_table *table;
    uint64_t keys[ROWS], step;
    for (int i = 0; i < ROWS; i++) keys[i] = i < MINE ? (uint64_t)(rank * MINE + i) : FIRST_ITEM + (uint64_t)(i - MINE);
    MR_TRY(mr_ps_connect(address, rank, PATIENCE_US, &ps));
    MR_TRY(mr_ps_table_create(ps, "factors", &options, PATIENCE_US, &table));
    mr_status status = mr_ps_begin(ps, PATIENCE_US, &step);
    while (status == MR_OK && step <= STEPS) {
        status = play(ps, table, keys, rank, step);
        if (status == MR_OK || status == MR_STALE) status = mr_ps_begin(ps, PATIENCE_US, &step);
    }
    mr_ps_table_free(table);
    mr_ps_close(ps);
    return status;
}

/* ---- The roles, one process each. */

static mr_status schedule(int number) {
    return mr_ps_run_scheduler(&MR_OPTIONS(mr_ps_scheduler_options, .listen = address, .checkpoint_dir = folder,
                                           .num_workers = WORKERS, .num_servers = SERVERS, .slots = 8, .replicas = 2,
                                           .consistency = MR_PS_BSP));
}

static mr_status serve(int number) {
    return mr_ps_run_server(&MR_OPTIONS(mr_ps_server_options, .scheduler = address, .number = 1 + (uint32_t)number));
}

static pid_t start(mr_status (*role)(int number), int number) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    mr_status status = role(number);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    fflush(stdout);
    _exit(status == MR_OK ? 0 : 1);
}

static void clean_up(void) {
    DIR *files = opendir(folder);
    for (struct dirent *file; files != NULL && (file = readdir(files)) != NULL;)
        unlinkat(dirfd(files), file->d_name, 0);
    if (files != NULL) closedir(files);
    rmdir(folder);
}

int main(void) {
    int code, failed = 0;
    pid_t worker[WORKERS];
    snprintf(folder, sizeof folder, "/tmp/factors-XXXXXX");
    if (mkdtemp(folder) == NULL) return perror(folder), 1;
    snprintf(address, sizeof address, "unix:%s/s", folder);
    pid_t scheduler = start(schedule, 0);
    for (int i = 0; i < SERVERS; i++) server[i] = start(serve, i);
    for (int i = 0; i < WORKERS; i++) worker[i] = start(work, i);
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches all processes: the others end, and this one cleans up */
    for (int i = 0; i < WORKERS; i++) failed |= waitpid(worker[i], &code, 0) < 0 || code != 0;
    kill(server[0], SIGTERM);
    kill(scheduler, SIGTERM);
    while (wait(NULL) > 0) continue;
    clean_up();
    return failed;
}
