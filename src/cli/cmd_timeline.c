/* cmd_timeline.c — `miniray timeline FILE`: trace of the workers' latest calls (mr_inspect_trace), for
 * https://ui.perfetto.dev and chrome://tracing. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/node_query.h"
#include "cli/text_table.h"

enum { RECORDS = 100 * 1000 };

/* ---- Output file. */

static int complain(const node_query *query, const char *what) {
    fprintf(stderr, "%s: cannot write %s: %s\n", query->title, query->word, what);
    return 1;
}

/* Opens the user's file, or a device; not through a link or into another user's file, which may have been put there. */
static FILE *open_output(const char *path, const char **why) {
    struct stat stat;
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    *why = errno == ELOOP ? "is a symbolic link; remove it, or choose the path that it leads to" : strerror(errno);
    if (fd < 0) return NULL;
    bool known = fstat(fd, &stat) == 0;
    bool is_own = known && (S_ISCHR(stat.st_mode) || (stat.st_uid == geteuid() && stat.st_nlink == 1));
    *why = "belongs to another user, or has another name; remove it, or choose another path";
    (void)fcntl(fd, F_SETFL, 0); /* blocks while a pipe is full */
    if (is_own && (!S_ISREG(stat.st_mode) || ftruncate(fd, 0) == 0)) return fdopen(fd, "w");
    if (is_own) *why = strerror(errno);
    close(fd);
    return NULL;
}

static int write_trace(const node_query *query, const mr_trace *trace) {
    const char *why = "";
    FILE *file = strcmp(query->word, "-") == 0 ? stdout : open_output(query->word, &why);
    if (file == NULL) return complain(query, why);
    fwrite(trace->json, 1, trace->size, file);
    bool good = fflush(file) == 0 && !ferror(file);
    if (file != stdout && fclose(file) != 0) good = false;
    return good ? 0 : complain(query, strerror(errno));
}

static void print_summary(const node_query *query, const mr_trace *trace) {
    if (query->as_json) {
        printf("{\"format\":%d,\"calls\":%zu,\"workers\":%zu}\n", JSON_OUTPUT_FORMAT, trace->calls, trace->workers);
    } else if (trace->workers == 0) {
        printf("No worker has recorded a call: %s has no events. (MINIRAY_EVENTS_KEPT=0 turns recording off.)\n",
               query->word);
    } else {
        printf("Wrote %s of %s to %s; open it at https://ui.perfetto.dev\n",
               text_table_count((int64_t)trace->calls, "call"), text_table_count((int64_t)trace->workers, "worker"),
               query->word);
    }
}

int command_timeline(int argc, char **argv) {
    node_query query = {.title = argv[0],
                        .examples = "miniray timeline out.json\nminiray timeline - --limit 1000 > out.json",
                        .what = "timeline",
                        .missing = "no output file is given, such as: miniray timeline out.json",
                        .limit = RECORDS};
    mr_inspect *inspect;
    mr_trace trace;
    node_query_parse(
        &query, argc, argv, "FILE",
        "Writes the latest calls of the workers as a trace for https://ui.perfetto.dev; FILE - is stdout.\v"
        "Each worker records its last calls (MINIRAY_EVENTS_KEPT); at most --limit of them are written. The last "
        "16 workers that died are included. --json prints the numbers of calls and workers.");
    int code = node_query_open(&query, &inspect);
    if (code != COMMAND_OK) return code;
    code = command_outcome(query.title, mr_inspect_trace(inspect, query.limit, &trace));
    if (code == 0) {
        code = write_trace(&query, &trace);
        if (code == 0 && strcmp(query.word, "-") != 0) print_summary(&query, &trace);
        free(trace.json);
    }
    mr_inspect_close(inspect);
    return code;
}
