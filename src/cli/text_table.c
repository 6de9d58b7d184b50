/* text_table.c — see text_table.h. Tested by src/cli/miniray_test.c. */
#include "cli/text_table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_MAX = 12, CELL_MAX = 600, WIDTH = 80, GAP = 2, LAST_MIN = 10, TEXT_MIN = 8 };

struct text_table {
    const char *headings[COLUMNS_MAX];
    int columns, widths[COLUMNS_MAX];
    char **cells; /* owned, row by row */
    size_t count, capacity;
};

/* The number of characters: all bytes of UTF-8 except continuation bytes. */
static int width_of(const char *text) {
    int width = 0;
    for (; *text != '\0'; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static bool is_number(const char *heading) { return heading[0] == '>'; }
static const char *title_of(const char *heading) { return heading + is_number(heading); }

void *text_table_must(void *memory) {
    if (memory == NULL) {
        fputs("miniray: out of memory\n", stderr);
        _exit(1);
    }
    return memory;
}

text_table *text_table_create(const char *const *headings) {
    text_table *table = text_table_must(calloc(1, sizeof *table));
    for (; headings[table->columns] != NULL && table->columns < COLUMNS_MAX; table->columns++) {
        table->headings[table->columns] = headings[table->columns];
        table->widths[table->columns] = width_of(title_of(headings[table->columns]));
    }
    return table;
}

/* Replaces control characters, which texts of other processes may contain, so that columns stay aligned. */
static void make_harmless(char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) *text = ' ';
}

void text_table_cell(text_table *table, const char *format, ...) {
    char text[CELL_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    make_harmless(text);
    if (table->count == table->capacity) {
        table->capacity = table->capacity == 0 ? 64 : 2 * table->capacity;
        table->cells = text_table_must(realloc(table->cells, table->capacity * sizeof *table->cells));
    }
    int column = (int)(table->count % (size_t)table->columns), width = width_of(text);
    if (width > table->widths[column]) table->widths[column] = width;
    table->cells[table->count++] = text_table_must(strdup(text));
}

static int terminal_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO)) return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : WIDTH;
}

/* Prints at most `width` characters of the text, with an ellipsis if it is longer; width 0: all. */
static void print_cut(const char *text, int width) {
    if (width <= 0 || width_of(text) <= width) {
        fputs(text, stdout);
        return;
    }
    for (int shown = 0; *text != '\0'; text++) {
        bool begins = ((unsigned char)*text & 0xc0) != 0x80;
        if (begins && shown++ == width - 1) break;
        putchar(*text);
    }
    fputs("…", stdout);
}

static void print_row(const text_table *table, const char *const *cells, bool are_headings) {
    for (int i = 0; i < table->columns; i++) {
        const char *text = are_headings ? title_of(cells[i]) : cells[i];
        bool last = i == table->columns - 1, number = is_number(table->headings[i]);
        int padding = table->widths[i] - width_of(text);
        if (padding < 0) padding = 0;
        if (number) printf("%*s", padding, "");
        print_cut(text, table->widths[i]);
        if (!last) printf("%*s", (number ? 0 : padding) + GAP, "");
    }
    putchar('\n');
}

/* The widest column of texts except the last column; -1: none can be narrower. */
static int widest(const text_table *table) {
    int found = -1, most = TEXT_MIN;
    for (int i = 0; i < table->columns - 1; i++) {
        if (is_number(table->headings[i]) || table->widths[i] <= most) continue;
        found = i;
        most = table->widths[i];
    }
    return found;
}

/* Reduces the widths of columns to fit the terminal. Numbers are never cut, so a line may still be too long. */
static void fit(text_table *table, int terminal) {
    int *last = &table->widths[table->columns - 1], all = GAP * (table->columns - 1);
    for (int i = 0; i < table->columns; i++) all += table->widths[i];
    for (; all > terminal && *last > LAST_MIN; all--) *last -= 1;
    for (int i; all > terminal && (i = widest(table)) >= 0; all--) table->widths[i]--;
}

void text_table_print(text_table *table) {
    int terminal = terminal_width();
    if (terminal != 0) fit(table, terminal);
    print_row(table, table->headings, true);
    for (size_t at = 0; at + (size_t)table->columns <= table->count; at += (size_t)table->columns)
        print_row(table, (const char *const *)table->cells + at, false);
    for (size_t i = 0; i < table->count; i++) free(table->cells[i]);
    free(table->cells);
    free(table);
}

/* ---- Units. */

static char *next_text(void) {
    static _Thread_local char texts[3][32];
    static _Thread_local unsigned next;
    return texts[next++ % 3];
}

const char *text_table_bytes(int64_t bytes) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++) value /= 1024;
    char *text = next_text();
    snprintf(text, 32, value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

const char *text_table_count(int64_t count, const char *noun) {
    char *text = next_text();
    snprintf(text, 32, "%" PRId64 " %.10s%s", count, noun, count == 1 ? "" : "s");
    return text;
}

const char *text_table_time(int64_t us) {
    char *text = next_text();
    double value = (double)us;
    if (value < 1e3)
        snprintf(text, 32, "%.0f us", value);
    else if (value < 1e6)
        snprintf(text, 32, "%.3g ms", value / 1e3);
    else if (value < 120e6)
        snprintf(text, 32, "%.3g s", value / 1e6);
    else if (value < 7200e6)
        snprintf(text, 32, "%.0f min", value / 60e6);
    else
        snprintf(text, 32, "%.1f h", value / 3600e6);
    return text;
}
