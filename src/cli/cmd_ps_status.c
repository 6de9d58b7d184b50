/* cmd_ps_status.c — `miniray ps status`: slots, servers, ranks, metrics, tables, checkpoints, and the cause of a stall.
 * Tested by tests/ps_status_test.c. */
#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd_ps.h"
#include "cli/command_line.h"
#include "cli/json_output.h"
#include "cli/ps_overview.h"
#include "cli/ps_process_list.h"
#include "cli/text_table.h"
#include "miniray/admin.h"

enum { SCHEDULER = 256, SAID_MAX = 16, ANSWER_US = 5000000 };

typedef struct wanted {
    const char *scheduler;
    bool as_json;
} wanted;

static const char *consistency_name(const mr_ps_info *info) {
    static const char *const names[] = {"asp", "ssp", "bsp"};
    return names[info->consistency];
}

/* The counter in the lower 36 bits of an incarnation; the upper bits are the generation. */
static uint64_t start_of(uint64_t incarnation) { return incarnation & ((UINT64_C(1) << 36) - 1); }

static uint32_t heads_of(const mr_ps_cluster_map *map, const mr_ps_server *server, uint32_t *copies) {
    uint32_t heads = 0;
    *copies = 0;
    for (uint32_t i = 0; i < map->slot_count; i++)
        for (uint32_t k = 0; k < map->slots[i].count; k++) {
            const mr_ps_replica *copy = &map->slots[i].replicas[k];
            if (copy->server != server->number || copy->incarnation != server->incarnation) continue;
            *copies += 1;
            heads += k == 0;
        }
    return heads;
}

static bool is_here(const mr_ps_processes *process_table, const mr_ps_replica *copy) {
    const mr_ps_process *process = ps_process_list_find(process_table, MR_PS_SERVERS, copy->server);
    return process != NULL && process->incarnation == copy->incarnation && process->here;
}

/* Number of slots with fewer replicas on live servers than configured. */
static uint32_t lacking(const mr_ps_cluster_map *map, const mr_ps_processes *process_table) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < map->slot_count; i++) {
        uint32_t here = 0;
        for (uint32_t k = 0; k < map->slots[i].count; k++) here += is_here(process_table, &map->slots[i].replicas[k]);
        count += here < map->info.replicas;
    }
    return count;
}

static uint32_t played(const mr_ps_cluster_map *map) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < map->info.ranks; i++) count += map->ranks[i].incarnation != 0;
    return count;
}

/* ---- Text. */

static void print_servers(const mr_ps_cluster_map *map, const mr_ps_processes *process_table) {
    static const mr_ps_process unheard = {.here = 0};
    text_table *table =
        text_table_create((const char *const[]){">SERVER", ">START", ">HEADS", ">REPLICAS", ">PUSH/S", ">PULL/S",
                                                ">IN/S", ">OUT/S", ">MEMORY", "ADDRESS", NULL});
    for (uint32_t i = 0; i < map->info.servers; i++) {
        const mr_ps_server *server = &map->servers[i];
        uint32_t copies, heads = heads_of(map, server, &copies);
        const mr_ps_process *process = ps_process_list_find(process_table, MR_PS_SERVERS, server->number);
        bool known = process != NULL && process->incarnation == server->incarnation && process->here;
        if (!known) process = &unheard;
        text_table_cell(table, "%u", server->number);
        text_table_cell(table, "%" PRIu64, start_of(server->incarnation));
        text_table_cell(table, "%u", heads);
        text_table_cell(table, "%u", copies);
        text_table_cell(table, "%.0f", process->pushes_second);
        text_table_cell(table, "%.0f", process->pulls_second);
        text_table_cell(table, "%s", text_table_bytes((int64_t)process->bytes_in_second));
        text_table_cell(table, "%s", text_table_bytes((int64_t)process->bytes_out_second));
        text_table_cell(table, "%s", known ? text_table_bytes((int64_t)process->memory) : "gone");
        text_table_cell(table, "%s", server->address);
    }
    text_table_print(table);
}

static void print_rounds(const mr_ps_info *info) {
    if (info->backup_workers == 0 && info->deadline_us == 0) return;
    printf("A round waits for %u of %s", info->ranks - info->backup_workers, text_table_count(info->ranks, "rank"));
    if (info->deadline_us != 0) printf(", for at most %g s", (double)info->deadline_us / 1e6);
    putchar('\n');
}

static void print_slots(const mr_ps_cluster_map *map, const mr_ps_processes *process_table) {
    const mr_ps_info *info = &map->info;
    printf("%s, %s of each, %s%s, %s\n", text_table_count(info->slots, "slot"),
           text_table_count(info->replicas, "replica"), consistency_name(info),
           info->mixed_consistency ? " and others" : "", text_table_count(info->ranks, "rank"));
    print_rounds(info);
    printf("%u of %s held by a worker so far; ", played(map), text_table_count(info->ranks, "rank"));
    if (lacking(map, process_table) == 0)
        puts("every slot has all its replicas");
    else
        printf("%u of %s lack%s replicas\n", lacking(map, process_table), text_table_count(map->slot_count, "slot"),
               lacking(map, process_table) == 1 ? "s" : "");
}

/* Prints the effects of load balancing; nothing before the first move. */
static void print_balance(const mr_ps_cluster_map *map) {
    uint32_t moved = 0, hot = 0;
    for (uint32_t i = 0; i < map->slot_count; i++) {
        moved += map->slots[i].pinned_server >= 0;
        hot += map->slots[i].read_replicas != 0;
    }
    if (moved != 0) printf("%s moved to less loaded servers\n", text_table_count(moved, "slot"));
    if (hot != 0) printf("%s with read replicas:", text_table_count(hot, "hot slot"));
    for (uint32_t i = 0, said = 0; i < map->slot_count; i++)
        if (map->slots[i].read_replicas != 0 && said++ < SAID_MAX) printf(" %u", i);
    if (hot != 0) puts(hot > SAID_MAX ? " ..." : "");
}

static void print_people(const mr_ps_cluster_map *map, const mr_ps_processes *process_table,
                         const mr_ps_overview *overview) {
    if (map->number == 0)
        puts("There are no slots yet");
    else
        print_slots(map, process_table);
    print_balance(map);
    ps_overview_print_stall(overview);
    ps_overview_print_checkpoints(overview);
    ps_process_list_print_steps(process_table);
    ps_process_list_print_disputes(process_table);
    if (map->number != 0) {
        putchar('\n');
        print_servers(map, process_table);
    }
    ps_process_list_print_others(process_table);
    ps_overview_print_tables(overview);
    ps_overview_print_data(overview);
    ps_process_list_print_ranks(process_table);
    ps_process_list_print_readers(process_table);
}

/* ---- JSON. */

static mr_arg replica_of(const void *item, json_output *json) { return mr_int(((const mr_ps_replica *)item)->server); }

static mr_arg slot_of(const void *item, json_output *json) {
    const mr_ps_slot *slot = item;
    const json_field fields[] = {
        {"epoch", mr_int((int64_t)slot->epoch)},
        {"chain", json_output_rows(json, slot->replicas, slot->count, sizeof *slot->replicas, replica_of)},
        {"read_replicas", mr_int(slot->read_replicas)},
        {"pinned_server", slot->pinned_server < 0 ? mr_nil() : mr_int(slot->pinned_server)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

static mr_arg server_of(const void *item, json_output *json) {
    const mr_ps_server *server = item;
    const json_field fields[] = {
        {"number", mr_int(server->number)},
        {"incarnation", mr_int((int64_t)server->incarnation)},
        {"address", mr_str(server->address)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

static mr_arg rank_of(const void *item, json_output *json) {
    const mr_ps_rank *rank = item;
    const json_field fields[] = {
        {"worker", mr_int(rank->worker)},
        {"incarnation", mr_int((int64_t)rank->incarnation)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

static mr_status print_json(const mr_ps_cluster_map *map, const mr_ps_processes *process_table,
                            const mr_ps_overview *overview) {
    json_output json = {0};
    char generation[20];
    snprintf(generation, sizeof generation, "%016" PRIx64, map->generation);
    const json_field fields[] = {
        {"map", mr_int((int64_t)map->number)},
        {"generation", mr_str(generation)},
        {"restored_from", mr_int((int64_t)map->restored_from)},
        {"checkpoint", mr_int((int64_t)map->checkpoint)},
        {"consistency", mr_str(consistency_name(&map->info))},
        {"staleness", mr_int(map->info.staleness)},
        {"mixed_consistency", mr_bool(map->info.mixed_consistency != 0)},
        {"backup_workers", mr_int(map->info.backup_workers)},
        {"deadline_us", mr_int(map->info.deadline_us)},
        {"replicas", mr_int(map->info.replicas)},
        {"lacking", mr_int(lacking(map, process_table))},
        {"slots", json_output_rows(&json, map->slots, map->slot_count, sizeof *map->slots, slot_of)},
        {"servers", json_output_rows(&json, map->servers, map->info.servers, sizeof *map->servers, server_of)},
        {"ranks", json_output_rows(&json, map->ranks, map->info.ranks, sizeof *map->ranks, rank_of)},
        {"processes", ps_process_list_json(process_table, &json)},
        {"tables", ps_overview_tables_json(overview, &json)},
        {"data", ps_overview_data_json(overview, &json)},
        {"checkpoints", ps_overview_checkpoints_json(overview, &json)},
        {"stall", ps_overview_stall_json(overview, &json)},
    };
    return json_output_finish(&json, fields, sizeof fields / sizeof *fields);
}

static error_t parse(int key, char *text, struct argp_state *state) {
    wanted *wanted = state->input;
    switch (key) {
    case SCHEDULER: wanted->scheduler = text; return 0;
    case 'j': wanted->as_json = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int ps_status(int argc, char **argv) {
    const struct argp_option options[] = {{"scheduler", SCHEDULER, "ADDRESS", 0,
                                           "Address of the scheduler (default: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT)",
                                           0},
                                          {"json", 'j', NULL, 0, "Print one JSON object", 0},
                                          {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc =
            "Shows the status of a parameter server: slots, tables, dataset, checkpoints and their errors, load of "
            "servers, steps and metrics of ranks; and, when it is stalled, the cause. Rates are averages of the last "
            "second.",
    };
    wanted wanted = {0};
    mr_ps_cluster_map *map = NULL;
    mr_ps_processes *process_table = NULL;
    mr_ps_overview *overview = NULL;
    command_line_parse(&argp, argc, argv, 0, &wanted, "miniray ps status --scheduler tcp:127.0.0.1:9000");
    mr_status status = mr_ps_cluster_map_get(wanted.scheduler, ANSWER_US, &map);
    if (status == MR_OK) status = mr_ps_processes_get(wanted.scheduler, ANSWER_US, &process_table);
    if (status == MR_OK) status = mr_ps_overview_get(wanted.scheduler, ANSWER_US, &overview);
    if (status == MR_OK && wanted.as_json)
        status = print_json(map, process_table, overview);
    else if (status == MR_OK)
        print_people(map, process_table, overview);
    int code = command_outcome(argv[0], status);
    mr_ps_cluster_map_free(map);
    mr_ps_processes_free(process_table);
    mr_ps_overview_free(overview);
    return code;
}
