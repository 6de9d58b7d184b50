/* progress.c — training progress as one line (miniray/train.h).
 *
 *   epoch 12/50 ━━━━━━━━━━╸───────  loss 0.1234  8.2 k samples/s  0:42 left  sync 3 %  slowest 2 (1.3x)  1 died
 *
 * The fields are written from left to right as far as the width allows; a bar fills the rest, if it is wide enough. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "miniray/train.h"

enum { PARTS_MAX = 8, PART_MAX = 64, BAR_MIN = 6, BAR_MAX = 24 };

typedef struct parts {
    char text[PARTS_MAX][PART_MAX];
    size_t count;
} parts;

__attribute__((format(printf, 2, 3))) static void add(parts *parts, const char *format, ...) {
    va_list arguments;
    MR_ASSERT(parts->count < PARTS_MAX);
    va_start(arguments, format);
    vsnprintf(parts->text[parts->count++], PART_MAX, format, arguments);
    va_end(arguments);
}

static void add_scaled(parts *parts, double number, const char *unit) {
    static const char *const steps[] = {"", "k ", "M ", "G "};
    size_t step = 0;
    for (; number >= 1000 && step < 3; step++) number /= 1000;
    add(parts, number < 10 ? "%.1f %s%s" : "%.0f %s%s", number, steps[step], unit);
}

static void add_lasting(parts *parts, double seconds, const char *what) {
    long long whole = seconds > 1e12 ? 0 : (long long)(seconds + 0.5);
    if (whole >= 3600)
        add(parts, "%lld:%02lld:%02lld %s", whole / 3600, whole / 60 % 60, whole % 60, what);
    else
        add(parts, "%lld:%02lld %s", whole / 60, whole % 60, what);
}

/* The share of all epochs that is done, from 0 to 1. */
static double share_done(const mr_progress *progress) {
    double epochs = progress->epochs > 0 ? (double)progress->epochs : 1;
    double part = progress->workers > 0 ? (double)progress->done / (double)progress->workers : 0;
    double share = ((double)progress->epoch + part) / epochs;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static void add_times(parts *parts, const mr_progress *progress) {
    const mr_trainer_report *report = &progress->report;
    double share = share_done(progress), all = report->train_s + report->sync_s;
    if (share >= 1)
        add_lasting(parts, progress->elapsed_s, "in all");
    else if (share > 0)
        add_lasting(parts, progress->elapsed_s * (1 - share) / share, "left");
    if (report->syncs > 0 && all > 0) add(parts, "sync %.0f %%", 100 * report->sync_s / all);
    if (report->epochs > 0 && progress->workers > 1 && report->fastest_s > 0)
        add(parts, "slowest %zu (%.1fx)", report->slowest, report->slowest_s / report->fastest_s);
}

static void make_parts(parts *parts, const mr_progress *progress) {
    long long shown = progress->epoch < progress->epochs ? (long long)progress->epoch + 1 : (long long)progress->epochs;
    add(parts, "epoch %lld/%lld", shown, (long long)progress->epochs);
    if (progress->name != NULL) add(parts, "%.24s %.4g", progress->name, progress->value);
    if (progress->report.failures > 0) add(parts, "%zu died", progress->report.failures);
    if (progress->samples_s > 0) add_scaled(parts, progress->samples_s, "samples/s");
    add_times(parts, progress);
}

/* ---- The line. */

typedef struct pen {
    char *out;
    size_t size;
} pen;

static void draw(pen *pen, const char *text) {
    size_t size = strlen(text);
    if (pen->size + size >= MR_PROGRESS_MAX) return;
    memcpy(pen->out + pen->size, text, size + 1);
    pen->size += size;
}

static void draw_bar(pen *pen, double share, size_t columns, bool colour) {
    size_t full = (size_t)(share * (double)columns + 0.5);
    draw(pen, " ");
    if (colour) draw(pen, "\x1b[32m");
    for (size_t i = 0; i < full; i++) draw(pen, "━");
    if (colour) draw(pen, "\x1b[2m");
    for (size_t i = full; i < columns; i++) draw(pen, "─");
    if (colour) draw(pen, "\x1b[0m");
}

size_t mr_progress_line(const mr_progress *progress, size_t width, bool colour, char out[MR_PROGRESS_MAX]) {
    parts parts = {.count = 0};
    pen pen = {.out = out};
    make_parts(&parts, progress);
    size_t used = strlen(parts.text[0]), count = 1; /* texts are ASCII: bytes and columns are the same */
    out[0] = '\0';
    if (used > width) return 0;
    for (; count < parts.count && used + 2 + strlen(parts.text[count]) <= width; count++)
        used += 2 + strlen(parts.text[count]);
    size_t left = width > used + 1 ? width - used - 1 : 0, bar = left > BAR_MAX ? BAR_MAX : left;
    draw(&pen, parts.text[0]);
    if (bar >= BAR_MIN) draw_bar(&pen, share_done(progress), bar, colour);
    for (size_t i = 1; i < count; i++) {
        draw(&pen, "  ");
        draw(&pen, parts.text[i]);
    }
    return pen.size;
}
