/* runtime_config.h — effect of the options of base/config.h on a process of the runtime.
 *
 * Driver, node and workers each read the options from their environment: the node inherits it from the process that
 * started it, the workers from the node. Every option of the table takes effect here or is read by its one user, and
 * has a test that shows it. */
#pragma once
#include "base/config.h"
#include "net/shm/broker.h"
#include "net/shm/shm_transport.h"

/* Reads the options and applies those of the whole process. MR_INVALID: a value is not allowed. */
MR_MUST mr_status runtime_config_load(config *out);

/* The strings are borrowed. */
broker_options runtime_config_broker(const config *config, const char *path, uint64_t arena_bytes);
shm_transport_options runtime_config_port(const config *config, const char *broker, const char *name);
