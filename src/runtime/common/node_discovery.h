/* node_discovery.h — lookup of standalone nodes by their address. */
#pragma once
#include "miniray/admin.h"
#include "net/pidfd.h"

/* Finds the node that listens at the socket of this address. MR_NOT_FOUND: no process listens. *process is the
 * caller's; NULL: not wanted. */
MR_MUST mr_status node_discovery_find(const char *address, mr_node_info *out, pidfd *process);
