/* request_cause.c — see request_cause.h. */
#include "kv/client/request_cause.h"

#include <stdio.h>

#include "kv/client/kv_worker_internal.h"
#include "kv/control/stall.h"

typedef struct numbers { /* of processes that have something in common */
    uint32_t count, list[STALL_NAMED];
} numbers;

static void add(numbers *numbers, uint32_t number) {
    if (numbers->count < STALL_NAMED) numbers->list[numbers->count] = number;
    numbers->count++;
}

/* ---- Processes that cannot be reached. */

static numbers servers_gone(const kv_worker *worker) {
    const cluster_map *map = kv_worker_map(worker);
    const messenger *messenger = van_messenger(kv_worker_van(worker));
    numbers gone = {0};
    for (uint32_t i = 0; i < map->server_count; i++)
        if (messenger_is_gone(messenger, map->servers[i].address)) add(&gone, map->servers[i].id);
    return gone;
}

static bool write_scheduler(const kv_worker *worker, const numbers *gone, char out[REQUEST_CAUSE_MAX]) {
    const char *address = kv_process_scheduler(worker->process);
    const messenger *messenger = van_messenger(kv_worker_van(worker));
    char how[REQUEST_CAUSE_MAX / 2] = "was stopped", servers[REQUEST_CAUSE_MAX / 3] = "";
    if (!kv_process_heard(worker->process) || !messenger_is_gone(messenger, address)) return false;
    if (worker->end.scheduler == NULL)
        snprintf(how, sizeof how, "is gone (%.160s)", messenger_trouble(messenger, address));
    if (gone->count != 0) stall_list("server", gone->list, gone->count, servers, sizeof servers);
    snprintf(out, REQUEST_CAUSE_MAX,
             "the scheduler %s%s%s%s; what waits for %s continues when %s started again, with the same options", how,
             gone->count == 0 ? "" : ", and ", servers,
             gone->count == 0   ? ""
             : gone->count == 1 ? " is gone"
                                : " are gone",
             gone->count == 0 ? "it" : "them", gone->count == 0 ? "it is" : "they are");
    return true;
}

request_cause_kind request_cause_write(const kv_worker *worker, char out[REQUEST_CAUSE_MAX]) {
    const char *stall = control_client_stall(kv_worker_control(worker));
    const numbers gone = servers_gone(worker);
    char servers[REQUEST_CAUSE_MAX / 3];
    snprintf(out, REQUEST_CAUSE_MAX, "%s", stall);
    if (stall[0] != '\0' || write_scheduler(worker, &gone, out)) return REQUEST_CAUSE_WHOLE;
    if (gone.count == 0) return REQUEST_CAUSE_UNKNOWN;
    stall_list("server", gone.list, gone.count, servers, sizeof servers);
    snprintf(out, REQUEST_CAUSE_MAX, "%s %s gone", servers, gone.count == 1 ? "is" : "are");
    return REQUEST_CAUSE_PARTIAL;
}

/* ---- Ranks. */

static const mr_ps_process *find_rank(const mr_ps_processes *processes, uint32_t rank) {
    for (size_t i = 0; i < processes->count; i++)
        if (processes->processes[i].role == MR_PS_WORKERS && processes->processes[i].number == rank)
            return &processes->processes[i];
    return NULL;
}

static void write_ranks(const numbers *missing, const numbers *behind, uint64_t slowest, uint64_t step,
                        char out[REQUEST_CAUSE_MAX]) {
    char list[REQUEST_CAUSE_MAX / 3];
    size_t size = 0;
    if (missing->count != 0) {
        stall_list("rank", missing->list, missing->count, list, sizeof list);
        size =
            (size_t)snprintf(out, REQUEST_CAUSE_MAX, "no process holds %s%s", list, behind->count == 0 ? "" : ", and ");
    }
    if (behind->count == 0) return;
    stall_list("rank", behind->list, behind->count, list, sizeof list);
    snprintf(out + size, REQUEST_CAUSE_MAX - size, "%s %s not ended step %llu, while this rank is at step %llu", list,
             behind->count == 1 ? "has" : "have", (unsigned long long)slowest, (unsigned long long)step);
}

request_cause_kind request_cause_ranks(const kv_worker *worker, const mr_ps_processes *processes, bool all,
                                       char out[REQUEST_CAUSE_MAX]) {
    const cluster_map *map = kv_worker_map(worker);
    const bool waits = map->mixed || map->consistency.kind != CONSISTENCY_ASP;
    const uint64_t step = kv_worker_step(worker);
    numbers missing = {0}, behind = {0};
    uint64_t slowest = step;
    out[0] = '\0';
    for (uint32_t i = 0; i < map->rank_count; i++) {
        if (i == kv_worker_rank(worker)) continue;
        const mr_ps_process *process = find_rank(processes, i);
        bool is_behind = waits && (process == NULL || process->step < step);
        if ((process == NULL || !process->here) && (all || is_behind)) {
            add(&missing, i);
        } else if (is_behind) {
            add(&behind, i);
            if (process->step < slowest) slowest = process->step;
        }
    }
    write_ranks(&missing, &behind, slowest, step, out);
    return out[0] == '\0' ? REQUEST_CAUSE_UNKNOWN : REQUEST_CAUSE_PARTIAL;
}
