/* ps_process_list.c — see ps_process_list.h. Tested by tests/ps_status_test.c. */
#include "cli/ps_process_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text_table.h"

const mr_ps_process *ps_process_list_find(const mr_ps_processes *process_table, int role, uint32_t number) {
    for (uint32_t i = 0; i < process_table->count; i++)
        if (process_table->processes[i].role == role && process_table->processes[i].number == number)
            return &process_table->processes[i];
    return NULL;
}

/* ---- Text. */

void ps_process_list_print_steps(const mr_ps_processes *process_table) {
    const mr_ps_process *slowest = NULL, *fastest = NULL;
    for (uint32_t i = 0; i < process_table->count; i++) {
        const mr_ps_process *process = &process_table->processes[i];
        if (process->role != MR_PS_WORKERS || !process->here) continue;
        if (slowest == NULL || process->step < slowest->step) slowest = process;
        if (fastest == NULL || process->step > fastest->step) fastest = process;
    }
    if (slowest == NULL) return;
    if (slowest->step == fastest->step)
        printf("All connected ranks are at step %" PRIu64 "\n", slowest->step);
    else
        printf("The slowest rank is %u, at step %" PRIu64 "; the fastest is %u, at step %" PRIu64 ", %" PRIu64
               " ahead\n",
               slowest->number, slowest->step, fastest->number, fastest->step, fastest->step - slowest->step);
}

void ps_process_list_print_disputes(const mr_ps_processes *process_table) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < process_table->count; i++) count += process_table->processes[i].conflicts;
    if (count != 0)
        printf("Contributions repeated with other bytes: %" PRIu64 "; a rank must repeat a step with the same pushes\n",
               count);
}

static void print_reports(const mr_ps_process *process, char *text, size_t room) {
    size_t size = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < process->metric_count && size < room; i++) {
        const mr_ps_metric *report = &process->metrics[i];
        int more = snprintf(text + size, room - size, "%s%s %.5g", i == 0 ? "" : ", ", report->key, report->value);
        size += more < 0 ? 0 : (size_t)more;
        if (report->rate == 0 || size >= room) continue;
        more = snprintf(text + size, room - size, " (%+.3g/s)", report->rate);
        size += more < 0 ? 0 : (size_t)more;
    }
}

static bool is_other(const mr_ps_process *process) {
    return (process->role == MR_PS_SCHEDULER || process->role == MR_PS_SERVERS) && process->here &&
           process->metric_count != 0;
}

void ps_process_list_print_others(const mr_ps_processes *process_table) {
    bool any = false;
    for (uint32_t i = 0; i < process_table->count; i++) any = any || is_other(&process_table->processes[i]);
    if (!any) return;
    putchar('\n');
    text_table *table = text_table_create((const char *const[]){"PROCESS", "METRICS", NULL});
    for (uint32_t i = 0; i < process_table->count; i++) {
        const mr_ps_process *process = &process_table->processes[i];
        char text[1024];
        if (!is_other(process)) continue;
        print_reports(process, text, sizeof text);
        if (process->role == MR_PS_SERVERS)
            text_table_cell(table, "server %u", process->number);
        else
            text_table_cell(table, "scheduler");
        text_table_cell(table, "%s", text);
    }
    text_table_print(table);
}

void ps_process_list_print_ranks(const mr_ps_processes *process_table) {
    bool any = false;
    for (uint32_t i = 0; i < process_table->count; i++) any = any || process_table->processes[i].role == MR_PS_WORKERS;
    if (!any) return;
    putchar('\n');
    text_table *table =
        text_table_create((const char *const[]){">RANK", ">STEP", ">STEPS/S", "LAST HEARD", "METRICS", NULL});
    for (uint32_t i = 0; i < process_table->count; i++) {
        const mr_ps_process *process = &process_table->processes[i];
        char text[1024];
        if (process->role != MR_PS_WORKERS) continue;
        print_reports(process, text, sizeof text);
        text_table_cell(table, "%u", process->number);
        text_table_cell(table, "%" PRIu64, process->step);
        text_table_cell(table, "%.3g", process->steps_second);
        text_table_cell(table, "%s%s", process->here ? "" : "gone ", text_table_time(process->silent_us));
        text_table_cell(table, "%s", text);
    }
    text_table_print(table);
}

/* Readers that are gone are not shown: nobody waits for one to return. */
void ps_process_list_print_readers(const mr_ps_processes *process_table) {
    bool any = false;
    for (uint32_t i = 0; i < process_table->count; i++)
        any = any || (process_table->processes[i].role == MR_PS_READERS && process_table->processes[i].here);
    if (!any) return;
    putchar('\n');
    text_table *table = text_table_create((const char *const[]){">READER", "LAST HEARD", "METRICS", NULL});
    for (uint32_t i = 0; i < process_table->count; i++) {
        const mr_ps_process *process = &process_table->processes[i];
        char text[1024];
        if (process->role != MR_PS_READERS || !process->here) continue;
        print_reports(process, text, sizeof text);
        text_table_cell(table, "%u", process->number);
        text_table_cell(table, "%s", text_table_time(process->silent_us));
        text_table_cell(table, "%s", text);
    }
    text_table_print(table);
}

/* ---- JSON. */

static mr_arg metric_of(const void *item, json_output *json) {
    const mr_ps_metric *metric = item;
    const json_field fields[] = {
        {"key", mr_str(metric->key)},
        {"value", mr_float(metric->value)},
        {"rate", mr_float(metric->rate)},
        {"count", mr_int((int64_t)metric->count)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

static const char *role_name(int role) {
    return role == MR_PS_SCHEDULER ? "scheduler"
           : role == MR_PS_SERVERS ? "server"
           : role == MR_PS_READERS ? "reader"
                                   : "worker";
}

static mr_arg process_of(const void *item, json_output *json) {
    const mr_ps_process *process = item;
    const json_field fields[] = {
        {"role", mr_str(role_name(process->role))},
        {"number", mr_int(process->number)},
        {"incarnation", mr_int((int64_t)process->incarnation)},
        {"address", mr_str(process->address)},
        {"here", mr_bool(process->here != 0)},
        {"silent_s", mr_float((double)process->silent_us / 1e6)},
        {"step", mr_int((int64_t)process->step)},
        {"steps_s", mr_float(process->steps_second)},
        {"pushes", mr_int((int64_t)process->pushes)},
        {"pushes_s", mr_float(process->pushes_second)},
        {"pulls", mr_int((int64_t)process->pulls)},
        {"pulls_s", mr_float(process->pulls_second)},
        {"bytes_in_s", mr_float(process->bytes_in_second)},
        {"bytes_out_s", mr_float(process->bytes_out_second)},
        {"memory_bytes", mr_int((int64_t)process->memory)},
        {"memory_max", mr_int((int64_t)process->memory_max)},
        {"conflicts", mr_int((int64_t)process->conflicts)},
        {"metrics",
         json_output_rows(json, process->metrics, process->metric_count, sizeof *process->metrics, metric_of)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

mr_arg ps_process_list_json(const mr_ps_processes *process_table, json_output *json) {
    return json_output_rows(json, process_table->processes, process_table->count, sizeof *process_table->processes,
                            process_of);
}
