/* node_end.h — end of the node: facts for the error of the driver, besides its signal or exit status: whether memory
 * ran out, and the log of the node. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/transport.h"

typedef struct node_end {
    bool counts_oom; /* `oom_count` is the number of OOM kills when the driver joined */
    uint64_t oom_count;
} node_end;

void node_end_init(node_end *end);
/* Writes a text to append to that of the cause: ", out of memory; its log is …"; may be "". `folder` is the session
 * directory of a standalone node; "": a private node, which writes to the driver's stderr. */
void node_end_text(const node_end *end, const cause *why, const char *folder, char *out, size_t size);
