/* store_rpc_server.h — RPC service for the store clients of other processes (store_rpc_client.h).
 *
 * The host of the store server passes it the requests of method STORE_SERVER_METHOD, with the process they came from,
 * and calls store_rpc_server_room when a link has room again. */
#pragma once
#include "net/rpc/rpc.h"
#include "store/store_server.h"

enum { STORE_SERVER_METHOD = 0x4b01 };

typedef struct store_rpc_server store_rpc_server;

/* Store server and rpc are borrowed until the service is freed. The store server must be closed before the service. */
store_rpc_server *store_rpc_server_create(store_server *server, rpc *rpc);
void store_rpc_server_destroy(store_rpc_server *server);

void store_rpc_server_request(store_rpc_server *server, uint64_t process, const rpc_call_request *request,
                              int64_t now_us);
void store_rpc_server_room(store_rpc_server *server); /* sends answers that wait for room in their link */
