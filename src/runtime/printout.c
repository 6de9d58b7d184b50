/* printout.c — see printout.h. */
#include "runtime/printout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/notice.h"

typedef struct printout {
    notice notice;
    mr_context *mr;
    call_token token;
    outlet outlet;
    size_t size;
    char text[];
} printout;

/* By way of the program's own stream, behind what it has printed itself, and whole. */
static void write_out(outlet outlet, const char *text, size_t size) {
    FILE *file = outlet == OUTLET_OUT ? stdout : stderr;
    while (size > 0) {
        errno = 0;
        size_t wrote = fwrite(text, 1, size, file);
        if (wrote < size && errno != EINTR) break;
        if (wrote < size) clearerr(file);
        text += wrote;
        size -= wrote;
    }
    fflush(file);
}

static void tell(notice *notice) {
    printout *printout = container_of(notice, struct printout, notice);
    mr_context *mr = printout->mr;
    if (mr->print != NULL)
        mr->print(mr->print_user, outlet_fd(printout->outlet), printout->text, printout->size);
    else
        write_out(printout->outlet, printout->text, printout->size);
    context_lock(mr);
    mr_status status = wire_answer(mr->client.calls, printout->token, (span){0});
    context_unlock(mr);
    free(printout);
    (void)status; /* the node is gone: nobody waits for it */
}

void printout_post(void *context, outlet outlet, span text, call_token token) {
    printout *made = xmalloc(sizeof *made + text.size);
    *made = (printout){.notice.tell = tell, .mr = context, .token = token, .outlet = outlet, .size = text.size};
    if (text.size > 0) memcpy(made->text, text.data, text.size);
    notice_post(context, &made->notice);
}
