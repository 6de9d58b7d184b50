/* server_admission.h — decides whether a server that registers can hold the tables of the deployment.
 *
 * A server without the compression library of a table could not apply the pushes to it: the server is not admitted, and
 * ends with the reason. Tables are checked against the servers of the moment when they are created
 * (kv/client/server_query.h). Pure. */
#pragma once
#include "kv/control/table_catalog.h"

/* `registration`: the value of the server's REGISTER (control_wire.h). MR_NOT_FOUND: a library is missing; the error
 * names the table and the library. */
MR_MUST mr_status server_admission_check(const table_catalog *tables, span registration);
