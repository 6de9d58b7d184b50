/* server_admission.h — whether servers can hold the tables of the deployment.
 *
 * A server without the compression library of a table could not apply the pushes to it. A server that registers is
 * checked against the tables, and not admitted if it lacks a library; a new table is checked against the servers. The
 * scheduler decides both, one after the other, so that no order of the two escapes. Pure. */
#pragma once
#include "kv/control/table_catalog.h"

/* `registration`: the value of the server's REGISTER (control_wire.h). MR_NOT_FOUND: a library is missing; the error
 * names the table and the library. */
MR_MUST mr_status server_admission_check(const table_catalog *tables, span registration);

/* What the server with this REGISTER can decompress (compressor_available). */
uint32_t server_admission_read(span registration);

/* `available`: by the number of a server, what it can decompress; 0: no such server. MR_NOT_FOUND: a server lacks the
 * library of this new table; the error names both. */
MR_MUST mr_status server_admission_check_table(const table_catalog_table *table, const uint32_t *available,
                                               size_t count);
