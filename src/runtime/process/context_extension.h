/* context_extension.h — data of a higher layer attached to a context, embedded in a record of its own. With the
 * context's lock held. */
#pragma once
#include "base/list.h"
#include "miniray/runtime.h"

typedef struct context_extension {
    list place;
    const void *kind;                                                   /* its owner: a unique address */
    void (*close)(mr_context *mr, struct context_extension *extension); /* frees the record at the end */
} context_extension;

context_extension *context_extension_find(mr_context *mr, const void *kind); /* NULL: none */
void context_extension_invite(mr_context *mr, context_extension *extension); /* moved */
void context_extensions_close(mr_context *mr);
