/* bench_report.c — see bench_report.h. */
#include "bench/bench_report.h"

#include <string.h>
#include <sys/utsname.h>

#include "base/error.h"

/* ---- The table. */

/* Prints three or four significant digits, whatever the size. */
static const char *number(char *text, size_t size, double value) {
    double digits = value < 0 ? -value : value;
    int decimals = digits >= 100 ? 0 : digits >= 10 ? 1 : digits >= 1 ? 2 : 3;
    snprintf(text, size, "%.*f", decimals, value);
    return text;
}

static const char *bar_sign(bench_bar bar) {
    return bar.kind == BENCH_RATIO_AT_LEAST || bar.kind == BENCH_VALUE_AT_LEAST ? ">=" : "<=";
}

static bool bar_is_ratio(bench_bar bar) { return bar.kind == BENCH_RATIO_AT_LEAST || bar.kind == BENCH_RATIO_AT_MOST; }

/* "ratio >= 0.8", "value <= 12"; "" without a bar. */
static const char *bar_text(char *text, size_t size, bench_bar bar) {
    text[0] = 0;
    if (bar.kind != BENCH_NO_BAR)
        snprintf(text, size, "%s %s %g", bar_is_ratio(bar) ? "ratio" : "value", bar_sign(bar), bar.limit);
    return text;
}

void bench_report_machine(FILE *out) {
    struct utsname system = {0};
    char model[128] = "", line[256];
    uname(&system);
    FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
    while (cpuinfo != NULL && model[0] == 0 && fgets(line, sizeof line, cpuinfo) != NULL)
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL)
            snprintf(model, sizeof model, ", %.*s", (int)strcspn(strchr(line, ':') + 2, "\n"), strchr(line, ':') + 2);
    if (cpuinfo != NULL) fclose(cpuinfo);
    fprintf(out, "%u cpus, %s%s, %s %s, miniray %s\n", bench_cpu_count(), system.machine, model, system.sysname,
            system.release, mr_version());
}

void bench_report_suite(FILE *out, const char *name) {
    fprintf(out, "\n%-40s %10s %-6s %10s  %-26s %6s %7s  %s\n", name, "ours", "", "reference", "", "ratio", "spread",
            "bar");
}

void bench_report_row(FILE *out, const bench_outcome *row) {
    char value[32], reference[32], bar[48];
    if (row->failed) {
        fprintf(out, "  %-38s %10s\n", row->name, "FAILED");
        fflush(out);
        return;
    }
    fprintf(out, "  %-38s %10s %-6s", row->name, number(value, sizeof value, row->value), row->unit);
    if (row->has_reference)
        fprintf(out, " %10s  %-26s %6.2f", number(reference, sizeof reference, row->reference_value), row->reference,
                row->ratio);
    else
        fprintf(out, " %10s  %-26s %6s", "", "", "");
    fprintf(out, " %6.0f%%", row->spread * 100);
    if (row->bar.kind != BENCH_NO_BAR)
        fprintf(out, "  %s %s", bar_text(bar, sizeof bar, row->bar), bench_holds(row) ? "ok" : "SHORT");
    fputc('\n', out);
    fflush(out);
}

void bench_report_summary(FILE *out, const bench *b) {
    size_t judged = 0, reached = 0, failed = 0;
    for (size_t i = 0; i < bench_count(b); i++) {
        const bench_outcome *row = bench_at(b, i);
        failed += row->failed;
        if (row->failed || row->bar.kind == BENCH_NO_BAR) continue;
        judged++;
        reached += bench_holds(row);
    }
    fprintf(out, "\n%zu rows measured, %zu failed; %zu bars: %zu reached, %zu short\n", bench_count(b) - failed, failed,
            judged, reached, judged - reached);
}

void bench_report_names(FILE *out, const bench *b) {
    for (size_t i = 0; i < bench_count(b); i++) fprintf(out, "%s: %s\n", bench_at(b, i)->suite, bench_at(b, i)->name);
}

/* ---- JSON. */

static void json_text(FILE *out, const char *key, const char *text) {
    fprintf(out, "\"%s\": ", key);
    if (text == NULL) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at != 0; at++) {
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (*at < 0x20)
            fprintf(out, "\\u%04x", *at);
        else
            fputc(*at, out);
    }
    fputc('"', out);
}

static void json_number(FILE *out, const char *key, bool known, double value) {
    if (known)
        fprintf(out, "\"%s\": %.9g", key, value);
    else
        fprintf(out, "\"%s\": null", key);
}

static void json_row(FILE *out, const bench_outcome *row) {
    char bar[48];
    bool judged = row->bar.kind != BENCH_NO_BAR;
    fputs("  {", out);
    json_text(out, "suite", row->suite);
    fputs(", ", out);
    json_text(out, "row", row->name);
    fputs(", ", out);
    json_number(out, "value", !row->failed, row->value);
    fputs(", ", out);
    json_text(out, "unit", row->unit);
    fputs(", ", out);
    json_text(out, "reference", row->reference);
    fputs(", ", out);
    json_number(out, "reference_value", row->has_reference && !row->failed, row->reference_value);
    fputs(", ", out);
    json_number(out, "ratio", row->has_reference && !row->failed, row->ratio);
    fprintf(out, ", \"repeats\": %u, ", row->repeats);
    json_number(out, "spread", !row->failed, row->spread);
    fputs(", ", out);
    json_number(out, "reference_spread", row->has_reference && !row->failed, row->reference_spread);
    fputs(", ", out);
    json_text(out, "bar", judged ? bar_text(bar, sizeof bar, row->bar) : NULL);
    fprintf(out, ", \"holds\": %s}", !judged ? "null" : bench_holds(row) ? "true" : "false");
}

mr_status bench_report_json(FILE *out, const bench *b) {
    fputs("[\n", out);
    for (size_t i = 0; i < bench_count(b); i++) {
        if (i > 0) fputs(",\n", out);
        json_row(out, bench_at(b, i));
    }
    fputs("\n]\n", out);
    if (fflush(out) != 0 || ferror(out)) return error_errno("write the rows");
    return MR_OK;
}
