/* catalog_log.h — the table catalog on disk: a file to which changes are appended, and a metadata value that commits
 * them.
 *
 *   change ── appended to the file, synced ──► metadata value swapped: decided ──► in memory
 *                └── crash: bytes behind the committed size are ignored, and overwritten by the next change
 *
 * So a change costs its own bytes, and a table is there completely or not at all. The metadata value has the size and
 * the checksum of the file: a file that is shorter, or has other bytes, is damaged. A metadata store that has lost its
 * decisions (metadata_db.h) has lost the tables, too.
 *
 * When tables that were dropped take more room than the others, and after a failed append, a change writes a new file,
 * with the next number, and the swap selects it.
 *
 *   bytes      metadata value CATALOG_LOG_KEY
 *   ---------  ----------------------------------------------------------------------
 *   4 4      CATALOG_LOG_MAGIC, the next id
 *   8 8 8    number of the file, its committed size, the checksum of these bytes
 *
 *   bytes      file "tables-NUMBER"
 *   ---------  ----------------------------------------------------------------------
 *   4 8      CATALOG_LOG_FILE_MAGIC, number
 *   …        records: 1 CATALOG_LOG_TABLE, 4 + n a table (table_catalog.h); or 1 CATALOG_LOG_DROP, 4 id
 *
 * The checksum is that of a chain with a link for the head and one for each record: a link is the XXH3 of the checksum
 * before it (0 before the head) and of the XXH3 of its bytes.
 *
 * Format 2 (release 0.2.0) of the metadata value has the tables themselves; catalog_log_open writes them to a file.
 *
 * Ownership   the metadata store is borrowed for the log's life. The operations block, for as long as the device
 *             takes. Threads: none. */
#pragma once
#include "cluster/metadata_db.h"
#include "kv/control/table_catalog.h"
#include "net/disk.h"

#define CATALOG_LOG_KEY        "tables"
#define CATALOG_LOG_MAGIC      UINT32_C(0x33544b4d) /* "MKT3" */
#define CATALOG_LOG_FILE_MAGIC UINT32_C(0x314c544d) /* "MTL1" */
enum { CATALOG_LOG_FORMAT = 3, CATALOG_LOG_TABLE = 1, CATALOG_LOG_DROP = 2 };
/* Bytes of dropped tables that a file may have in addition to as many bytes as the tables. */
#define CATALOG_LOG_SLACK ((size_t)1 << 20)

typedef struct catalog_log catalog_log;

/* Reads the tables. MR_CORRUPT: damaged, or of another format. Other statuses as of the disk and the metadata store. */
MR_MUST mr_status catalog_log_open(disk disk, metadata_db *db, catalog_log **out);
void catalog_log_close(catalog_log *log);

/* All tables; borrowed until the next change. */
const table_catalog *catalog_log_tables(catalog_log *log);

/* Adds a table with the next id; no table has its name. MR_TOO_LARGE: there is no room for it. Other statuses: nothing
 * is decided, as for metadata_db_swap. */
MR_MUST mr_status catalog_log_add(catalog_log *log, const table_catalog_table *table);
MR_MUST mr_status catalog_log_drop(catalog_log *log, uint32_t id); /* also MR_OK if there is no such table */

typedef struct catalog_log_position { /* what the metadata value commits */
    uint64_t number;                  /* of the file; 0: none */
    uint64_t size, sum;               /* of its committed bytes */
    uint32_t next;                    /* next id */
} catalog_log_position;

/* Reads the tables of a file. MR_CORRUPT: it is not the committed one, or damaged, or of another format. */
MR_MUST mr_status catalog_log_decode(span file, const catalog_log_position *position, table_catalog *out);

/* The log calls it with each change: a new table as bytes; a dropped table without bytes; id 0: all tables are gone. */
typedef void catalog_log_follow_fn(void *context, uint32_t id, span bytes);
void catalog_log_follow(catalog_log *log, catalog_log_follow_fn *follow, void *context); /* begins with all tables */
