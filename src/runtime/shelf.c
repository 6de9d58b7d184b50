/* shelf.c — see shelf.h. */
#include "runtime/shelf.h"

#include "base/error.h"
#include "base/log.h"

void shelf_init(shelf *shelf, const arena *arena, uint64_t process, clock_source clock) {
    *shelf = (struct shelf){.arena = arena, .process = process, .clock = clock};
}

void shelf_join(shelf *shelf, calls *calls, link_id node) {
    if (shelf->arena == NULL || shelf->asked) return;
    mr_status status = vault_client_join(&shelf->vault, calls, node);
    shelf->asked = status != MR_BUSY; /* then asked again when there is room */
    shelf->vault.failed = status;
}

bool shelf_is_open(shelf *shelf) {
    if (shelf->store != NULL || !shelf->vault.joined || shelf->vault.failed != MR_OK) return shelf->store != NULL;
    shelf->vault.failed = vault_client_open(&shelf->vault, shelf->arena, shelf->process, shelf->clock, &shelf->store);
    if (shelf->store == NULL) log_warn("large values are copied, the store cannot be used: %s", mr_last_error());
    return shelf->store != NULL;
}

void shelf_poll(shelf *shelf) {
    if (shelf_is_open(shelf)) store_poll(shelf->store);
}

void shelf_close(shelf *shelf) {
    if (shelf->store != NULL) vault_client_close(&shelf->vault);
    shelf->store = NULL;
    shelf->vault.failed = MR_CLOSED;
}
