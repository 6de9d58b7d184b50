/* text_table.h — text tables for terminals: aligned columns, sizes and times with units.
 *
 * Rows are collected and printed at the end, so that a column is as wide as its widest cell. If a line would be longer
 * than the terminal (80 columns if its width is unknown), the last column is cut with an ellipsis, then the widest
 * columns of texts; a table that is not written to a terminal is never cut. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct text_table text_table;

/* `headings` is NULL-terminated and borrowed. A heading that begins with '>' is that of a right-aligned column of
 * numbers. */
text_table *text_table_create(const char *const *headings);
/* Adds the next cell. */
void text_table_cell(text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_table_print(text_table *table); /* prints to stdout and frees the table */

void *text_table_must(void *memory); /* returns the argument; if it is NULL, ends the program with status 1 */

/* Static texts of one thread, valid for the next three calls. */
const char *text_table_bytes(int64_t bytes);                   /* "1.5 MB" */
const char *text_table_time(int64_t us);                       /* "1.25 s", "3 min" */
const char *text_table_count(int64_t count, const char *noun); /* "1 object", "2 objects" */
