/* ps_server.c — a server program: its servers have a custom optimizer and answer questions about it. The optimizer
 * weights the first push to a value once, the second push twice, and so on.
 *
 *     cc ps_server.c $(pkg-config --cflags --libs miniray) -o ps_server && ./ps_server */
#include <dirent.h>
#include <miniray/admin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOW_MANY = 1, PUSHES = 3 };
#define PATIENCE_US INT64_C(30000000)

static char folder[64], address[80];

/* ---- The server. The optimizer is a function of its arguments, so that all replicas have the same bits. */

static void trusting(void *context, const mr_ps_update *update) {
    float *times = update->state[0];
    for (size_t i = 0; i < update->count; i++) {
        times[i] += 1;
        update->to[i] = update->from[i] + update->rate * times[i] * update->scale * update->gradient[i];
    }
    *(int *)context += 1;
}

/* The counter of a handler belongs to this process: other replicas do not have it, and it is lost with the process. */
static void say_how_many(void *context, mr_ps_message *message) {
    int updates = *(int *)context;
    mr_status reported = mr_ps_message_metric_set(message, "updates", updates); /* shown by `miniray ps status` */
    if (mr_ps_respond(message, updates, NULL, 0) != MR_OK || reported != MR_OK)
        fprintf(stderr, "%s\n", mr_last_error());
}

static mr_status serve(void) {
    int updates = 0;
    const mr_ps_optimizer optimizers[] = {{"trusting", 1, trusting, &updates}};
    const mr_ps_app apps[] = {{HOW_MANY, say_how_many, &updates}};
    return mr_ps_run_server(&MR_OPTIONS(mr_ps_server_options, .scheduler = address, .apps = apps, .app_count = 1,
                                        .optimizers = optimizers, .optimizer_count = 1));
}

static mr_status schedule(void) {
    return mr_ps_run_scheduler(&MR_OPTIONS(mr_ps_scheduler_options, .listen = address, .checkpoint_dir = folder,
                                           .num_workers = 1, .num_servers = 1));
}

/* ---- A worker. */

static mr_status work(void) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .optimizer = "own:trusting", .rate = 1);
    const uint64_t key = 7;
    const float one = 1;
    float value;
    uint64_t step;
    mr_ps *ps;
    mr_ps_table *table;
    mr_ps_ticket ticket;
    mr_ps_responses *responses;
    MR_TRY(mr_ps_connect(address, 0, PATIENCE_US, &ps));
    MR_TRY(mr_ps_table_create(ps, "values", &options, PATIENCE_US, &table));
    MR_TRY(mr_ps_begin(ps, PATIENCE_US, &step));
    for (int i = 0; i < PUSHES; i++) MR_TRY(mr_ps_push(table, &key, 1, &one, NULL, NULL, NULL));
    MR_TRY(mr_ps_pull(table, &key, 1, &value, NULL, NULL, NULL));
    printf("after %d pushes of 1: %g\n", PUSHES, (double)value);
    MR_TRY(mr_ps_send(ps, (mr_ps_peer){MR_PS_SERVERS, 0}, HOW_MANY, 0, NULL, 0, NULL, NULL, &ticket));
    MR_TRY(mr_ps_responses_wait(ps, ticket, PATIENCE_US, &responses));
    printf("server %u has applied %d updates\n", responses->list->from.number, responses->list->head);
    mr_ps_responses_free(responses);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    return MR_OK;
}

/* ---- The roles, one process each. */

static pid_t start(mr_status (*role)(void)) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    mr_status status = role();
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
    int code, failed;
    snprintf(folder, sizeof folder, "/tmp/server-XXXXXX");
    if (mkdtemp(folder) == NULL) return perror(folder), 1;
    snprintf(address, sizeof address, "unix:%s/s", folder);
    pid_t scheduler = start(schedule), server = start(serve), worker = start(work);
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches all processes: the others end, and this one cleans up */
    failed = waitpid(worker, &code, 0) < 0 || code != 0;
    kill(server, SIGTERM);
    kill(scheduler, SIGTERM);
    while (wait(NULL) > 0) continue;
    clean_up();
    return failed;
}
