/* sqlite_import.h — one-time import of release 0.1.0's SQLite database into the metadata storage of this release.
 *
 * Release 0.1.0 kept the metadata store's values in FOLDER/coordinator.db on machines that had SQLite, and in
 * FOLDER/keeper on others. This release has the file `keeper` only.
 *
 *   1. SQLite opens the database for this process alone. It replays the log, or rolls back the journal, that a killed
 *      scheduler left beside the database, and then puts everything into one file.
 *   2. All values are read, and checked as metadata_db.h checks them.
 *   3. They are saved, which is durable and all or nothing (metadata_storage.h).
 *   4. The database is renamed to coordinator.db.imported. It is not read again.
 *
 * Nothing is served before step 4, so a kill loses and forks nothing: before step 3 has ended the next start begins
 * again; after it, the metadata storage has the same content as the database, and only step 4 is left to do.
 *
 * A metadata storage with another content beside a database was written by release 0.1.0 on a machine without SQLite,
 * or the database was written by a release 0.1.0 that was started after this one. Neither tells which was used last
 * (times of files change with copies and backups), so the import fails and names both. An empty or damaged database
 * fails, too: no scheduler starts from nothing beside it.
 *
 * The library is opened at run time, and only where there is a database: nothing else needs SQLite. */
#pragma once
#include "base/rng.h"
#include "cluster/metadata_storage.h"
#include "net/disk.h"

#define SQLITE_IMPORT_FILE   "coordinator.db"
#define SQLITE_IMPORT_DONE   "coordinator.db.imported"
#define SQLITE_IMPORT_FORMAT 1 /* SQLite's user_version of such a database */

/* MR_OK also without a database. `disk` is the folder, which this process has locked (disk_lock). MR_NOT_FOUND:
 * SQLite is not installed. MR_EXISTS: the metadata storage has another content. MR_BUSY: a scheduler of release 0.1.0
 * uses the database. MR_CORRUPT, MR_IO, … */
MR_MUST mr_status sqlite_import(const char *folder, disk disk, metadata_storage to, rng *rng);
