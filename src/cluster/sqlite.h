/* sqlite.h — an archive that is a table of SQLite, in one file of this machine.
 *
 * Write-ahead log, synchronous = FULL: a save has reached the device before it answers. The file belongs to one process
 * at a time (exclusive locking): a second keeper on the same file is refused with MR_BUSY. The library is opened when
 * an archive is: whoever does not keep anything does not pay for loading it.
 *
 * The format number is SQLite's user_version, written with the tables.
 *
 *   meta    id = 1, generation
 *   value   key, version, lease, value */
#pragma once
#include "cluster/archive.h"

#define SQLITE_ARCHIVE_FORMAT 1 /* of the tables, and of those values in them that have no number of their own */

typedef struct sqlite sqlite;

/* Makes the file where it is missing. MR_NOT_FOUND: this machine has no SQLite. MR_CORRUPT: damaged, or of another
 * format. MR_BUSY, MR_IO. */
MR_MUST mr_status sqlite_open(const char *path, sqlite **out);
void sqlite_close(sqlite *sqlite);

archive sqlite_archive(sqlite *sqlite); /* borrowed for the archive's life */
