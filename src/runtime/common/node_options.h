/* node_options.h — options of a node: checks, and the defaults of this machine. */
#pragma once
#include "miniray/admin.h"
#include "runtime/common/boot.h"

/* `cpus` is the name of num_cpus in the caller's options. The error text of MR_INVALID names the option and what is
 * allowed. Also applies the configuration of the process (logs). */
MR_MUST mr_status node_options_read(const mr_node_options *options, const char *cpus, boot_node *out);
