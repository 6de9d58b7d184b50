/* cmd_doctor.c — `miniray doctor`: report of the checks of this machine (doctor_checks.h), with effects and fixes. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/command_line.h"
#include "cli/doctor_checks.h"
#include "cli/json_output.h"
#include "cli/text_table.h"

static void print_table(const doctor_check_finding *findings, size_t count) {
    static const char *const headings[] = {"STATE", "CHECK", "FOUND", NULL};
    text_table *table = text_table_create(headings);
    bool all_well = true;
    for (size_t i = 0; i < count; i++) {
        text_table_cell(table, "%s", doctor_check_state_name(findings[i].state));
        text_table_cell(table, "%s", findings[i].name);
        text_table_cell(table, "%s", findings[i].found);
        all_well = all_well && findings[i].state == DOCTOR_CHECK_OK;
    }
    text_table_print(table);
    for (size_t i = 0; i < count; i++) {
        if (findings[i].state == DOCTOR_CHECK_OK) continue;
        printf("\n%s: %s\n  %s\n  Fix: %s\n", doctor_check_state_name(findings[i].state), findings[i].name,
               findings[i].meaning, findings[i].mend);
    }
    if (all_well) puts("\nThis machine has everything Miniray needs.");
}

static mr_status print_json(const doctor_check_finding *findings, size_t count, bool failed) {
    json_output json = {0};
    mr_arg *rows = json_output_list(&json, count);
    for (size_t i = 0; i < count; i++) {
        const doctor_check_finding *finding = &findings[i];
        const json_field fields[] = {
            {"name", mr_str(finding->name)},       {"state", mr_str(doctor_check_state_name(finding->state))},
            {"found", mr_str(finding->found)},     {"fix", mr_str(finding->mend)},
            {"meaning", mr_str(finding->meaning)},
        };
        rows[i] = json_output_map(&json, fields, sizeof fields / sizeof *fields);
    }
    const json_field all[] = {{"good", mr_bool(!failed)}, {"checks", mr_list(rows, count)}};
    return json_output_finish(&json, all, 2);
}

int command_doctor(int argc, char **argv) {
    const struct argp_option options[] = {{"json", 'j', NULL, 0, "Print one JSON object", 0}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = json_output_parse,
        .doc =
            "Checks this machine for everything Miniray needs. A check is ok, warn (Miniray works, but worse) or fail "
            "(Miniray does not work); the report says what each problem means and how to fix it.\v"
            "The exit status is 1 if a check fails.",
    };
    bool as_json = false, failed = false;
    doctor_check_finding findings[DOCTOR_CHECK_MAX];
    command_line_parse(&argp, argc, argv, 0, &as_json, "miniray doctor");
    size_t count = doctor_check(findings);
    for (size_t i = 0; i < count; i++) failed = failed || findings[i].state == DOCTOR_CHECK_FAIL;
    if (!as_json) print_table(findings, count);
    if (as_json && command_outcome(argv[0], print_json(findings, count, failed)) != 0) return 1;
    return failed;
}
