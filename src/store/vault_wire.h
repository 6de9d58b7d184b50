/* vault_wire.h — RPC structs between store clients and the store server (net/call.h). Same machine, same release: plain
 * structures. Only vault_client.c and vault_service.c include this. */
#pragma once
#include "store/store.h"

typedef struct store_server_ask { /* a request's payload */
    uint32_t ask;                 /* store_client_ask */
    uint32_t kind;                /* lease_kind */
    uint64_t size;
    extent extent;
    object_ref ref;
} store_server_ask;
_Static_assert(sizeof(store_server_ask) == 64, "no holes");

typedef struct store_server_reply { /* an answer's payload; a text follows unless status is MR_OK */
    uint32_t status, unused;
    int64_t retry_us;
    extent extent;
} store_server_reply;
_Static_assert(sizeof(store_server_reply) == 32, "no holes");
