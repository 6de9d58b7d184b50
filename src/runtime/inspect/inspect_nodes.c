/* inspect_nodes.c — see inspect.h. The nodes of this user on this machine, and the sessions that left logs. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "runtime/common/node_discovery.h"
#include "runtime/common/session_dir.h"
#include "runtime/common/std_stream.h"
#include "runtime/inspect/inspect.h"

enum { RUNS_MAX = 256, LOGS_MAX = 4096, PATH_SIZE = 1024 };

typedef struct found {
    report report;
    report_list nodes, runs;
} found;

static bool add_node(found *found, const char *address, const char *kind) {
    mr_node_info info;
    if (node_discovery_find(address, &info, NULL) != MR_OK) {
        error_clear();
        return false;
    }
    report *report = &found->report;
    report_add(report, &found->nodes,
               REPORT_MAP(report, {"address", report_text(report, "%s", info.address)}, {"pid", mr_int(info.pid)},
                          {"kind", mr_str(kind)}));
    return true;
}

static int only_logs(const struct dirent *entry) {
    size_t size = strlen(entry->d_name);
    return size > 4 && strcmp(entry->d_name + size - 4, ".log") == 0;
}

/* Stream of the worker's output file; nil: the node's own file. */
static mr_arg stream_of(const char *name) {
    static const char *const streams[] = {[STD_STREAM_OUT] = "stdout", [STD_STREAM_ERR] = "stderr"};
    size_t size = strlen(name);
    for (std_stream i = 0; i < STD_STREAMS; i++) {
        size_t end = strlen(std_stream_end(i));
        if (size > end && strcmp(name + size - end, std_stream_end(i)) == 0) return mr_str(streams[i]);
    }
    return mr_nil();
}

static mr_arg log_rows(found *found, const char *run) {
    struct dirent **names = NULL;
    report *report = &found->report;
    report_list rows = {.limit = LOGS_MAX};
    int count = scandir(run, &names, only_logs, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        char path[PATH_SIZE];
        struct stat status;
        snprintf(path, sizeof path, "%s/%s", run, name);
        if (stat(path, &status) == 0 && report_wants(&rows))
            report_add(report, &rows,
                       REPORT_MAP(report, {"name", report_copy(report, span_of(name, strlen(name) - 4))},
                                  {"stream", stream_of(name)}, {"path", report_text(report, "%s", path)},
                                  {"bytes", mr_int(status.st_size)}));
        free(names[i]);
    }
    free(names);
    return report_list_arg(&rows);
}

static void add_runs(found *found, const char *base) {
    struct dirent **names = NULL;
    int count = scandir(base, &names, session_dir_filter, alphasort);
    for (int i = count - 1; i >= 0; i--) { /* newest first */
        char run[SESSION_DIR_MAX + 96], broker[SESSION_DIR_MAX + 104];
        struct stat status;
        snprintf(run, sizeof run, "%s/%.80s", base, names[i]->d_name);
        snprintf(broker, sizeof broker, "%s/hub", run);
        if (stat(run, &status) == 0 && found->runs.count < RUNS_MAX) {
            bool has_socket = access(broker, F_OK) == 0, running = has_socket && add_node(found, broker, "private");
            report_add(&found->report, &found->runs,
                       REPORT_MAP(&found->report, {"folder", report_text(&found->report, "%s", run)},
                                  {"address", running ? report_text(&found->report, "%s", broker) : mr_nil()},
                                  {"stale", mr_bool(has_socket && !running)},
                                  {"age_us", mr_int((int64_t)(time(NULL) - status.st_mtime) * 1000000)},
                                  {"logs", log_rows(found, run)}));
        }
        free(names[i]);
    }
    free(names);
}

mr_status mr_inspect_nodes(mr_value *out) {
    char socket[SESSION_DIR_MAX], base[SESSION_DIR_MAX];
    MR_TRY(session_dir_socket("auto", socket));
    snprintf(base, sizeof base, "%s", socket);
    char *slash = strrchr(base, '/');
    if (slash != NULL) *slash = '\0';
    found found = {0};
    report_init(&found.report);
    add_node(&found, socket, "standalone");
    add_runs(&found, base);
    mr_arg map =
        REPORT_MAP(&found.report, {"nodes", report_list_arg(&found.nodes)}, {"runs", report_list_arg(&found.runs)});
    mr_status status = inspect_value(&map, out);
    report_fini(&found.report);
    return status;
}
