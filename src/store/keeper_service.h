/* keeper_service.h — answers the stores of other processes that ask over calls (keeper_client.h).
 *
 * Whoever hosts the keeper hands it the requests of method KEEPER_METHOD, with the process they came from, and calls
 * keeper_service_room when a link has room again. */
#pragma once
#include "net/call.h"
#include "store/keeper.h"

enum { KEEPER_METHOD = 0x4b01 };

typedef struct keeper_service keeper_service;

/* Both borrowed for its life. The keeper is closed before the service. */
keeper_service *keeper_service_create(keeper *keeper, calls *calls);
void keeper_service_destroy(keeper_service *service);

void keeper_service_request(keeper_service *service, uint64_t process, const call_request *request, int64_t now_us);
void keeper_service_room(keeper_service *service); /* sends answers that found their link full */
