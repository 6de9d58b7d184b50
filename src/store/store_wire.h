/* store_wire.h — RPC structs between store clients and the store server (net/rpc/rpc.h). Same machine, same release:
 * plain structures; the payload of a request is a store_client_request. Only store_rpc_client.c and store_rpc_server.c
 * include this. */
#pragma once
#include "store/store_client.h"

_Static_assert(sizeof(store_client_request) == 64, "no holes");

typedef struct store_server_reply { /* payload of an answer; unless status is MR_OK, the error text follows */
    uint32_t status, unused;
    int64_t retry_us;
    extent extent;
} store_server_reply;
_Static_assert(sizeof(store_server_reply) == 32, "no holes");
