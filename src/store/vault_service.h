/* vault_service.h — RPC service for the store clients of other processes (vault_client.h).
 *
 * The host of the store server passes it the requests of method VAULT_METHOD, with the process they came from, and
 * calls vault_service_room when a link has room again. */
#pragma once
#include "net/call.h"
#include "store/vault.h"

enum { VAULT_METHOD = 0x4b01 };

typedef struct vault_service vault_service;

/* Both borrowed for its life. The vault is closed before the service. */
vault_service *vault_service_create(vault *vault, calls *calls);
void vault_service_destroy(vault_service *service);

void vault_service_request(vault_service *service, uint64_t process, const call_request *request, int64_t now_us);
void vault_service_room(vault_service *service); /* sends answers that found their link full */
