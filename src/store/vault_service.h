/* vault_service.h — answers the stores of other processes that ask over calls (vault_client.h).
 *
 * Whoever hosts the vault hands it the requests of method VAULT_METHOD, with the process they came from, and calls
 * vault_service_room when a link has room again. */
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
