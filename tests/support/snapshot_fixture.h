/* snapshot_fixture.h — snapshot of a slot for tests, with tables of all kinds and the tables' names. */
#pragma once
#include "base/shared_bytes.h"
#include "kv/control/table_catalog.h"

enum { SNAPSHOT_FIXTURE_RANKS = 3 };

/* A snapshot in the format of replica_snapshot.c with these values: version 41, and seqs from 100 on for the ranks. */
shared_bytes *snapshot_fixture_shard(span values);

/* Tables: 1 "users", rows of two; 2 "words", vectors; 3 "net", blocks of four with momentum; 4, rows of one of which
 * one key is only counted. `keeps`: with the previous version. */
shared_bytes *snapshot_fixture_shard_of_tables(bool keeps);
/* Adds a table, with the next id. */
void snapshot_fixture_add(table_catalog *catalog, const table_catalog_table *table);
table_catalog snapshot_fixture_names(void);                    /* catalog of all tables but the last */
table_catalog snapshot_fixture_names_with(const char *second); /* the second table has this name */
