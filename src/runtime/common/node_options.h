/* node_options.h — options of a node: checks, and the defaults of this machine. */
#pragma once
#include "miniray/admin.h"
#include "runtime/common/boot.h"

/* `cpus` is the name of num_cpus in the caller's options. MR_INVALID says which option and what is allowed. Also
 * applies the configuration that concerns the process (logs). */
MR_MUST mr_status node_options_read(const mr_node_options *options, const char *cpus, boot_node *out);
