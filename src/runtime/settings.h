/* settings.h — what the options of base/config.h mean for a process of the runtime.
 *
 * Program, node and workers each read them from their environment, which the node has from whoever started it and the
 * workers from the node. Every option of the table has its effect through here or is read by its one user, and has a
 * test that shows it; an option that nobody reads does not exist. */
#pragma once
#include "base/config.h"
#include "net/shm/hub.h"
#include "net/shm/port.h"

/* Reads the options and applies what belongs to the whole process. MR_INVALID: a value is not allowed. */
MR_MUST mr_status settings_load(config *out);

/* The strings are borrowed. */
hub_options settings_hub(const config *config, const char *path, uint64_t arena_bytes);
port_options settings_port(const config *config, const char *hub, const char *name);
