/* context_extension.c — see context_extension.h. */
#include "runtime/process/context_extension.h"

#include "runtime/process/context.h"

context_extension *context_extension_find(mr_context *mr, const void *kind) {
    list_for_each (at, &mr->peers) {
        context_extension *extension = container_of(at, struct context_extension, place);
        if (extension->kind == kind) return extension;
    }
    return NULL;
}

void context_extension_invite(mr_context *mr, context_extension *extension) {
    list_push_back(&mr->peers, &extension->place);
}

void context_extensions_close(mr_context *mr) {
    for (list *at; (at = list_pop_front(&mr->peers)) != NULL;) {
        context_extension *extension = container_of(at, struct context_extension, place);
        extension->close(mr, extension);
    }
}
