/* bench_report.h — prints rows as a table for people and as JSON for programs. */
#pragma once
#include <stdio.h>

#include "bench/bench.h"
#include "miniray/status.h"

void bench_report_machine(FILE *out);                           /* one line: the machine and the build */
void bench_report_row(FILE *out, const bench_outcome *row);     /* one line of the table */
void bench_report_suite(FILE *out, const char *name);           /* heading of a suite */
void bench_report_summary(FILE *out, const bench *b);           /* one line: number of rows, and of missed bars */
void bench_report_names(FILE *out, const bench *b);             /* suite and row, one per line */
MR_MUST mr_status bench_report_json(FILE *out, const bench *b); /* a list of rows; MR_IO if not all could be written */
