/* listener.c — see listener.h. */
#include "net/stream/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "net/stream/conn.h"
#include "net/stream/socket.h"
#include "net/unix_listener.h"

enum {
    ACCEPTS_MAX = 64,        /* in a row, before links get their turn */
    NO_FD_PAUSE_US = 100000, /* when there is no descriptor left */
};

typedef struct listener {
    loop_watch *watch;
    stream *stream;
    int fd;
    address address;
    unix_listener local; /* owner of the descriptor of a unix socket */
    list item;
} listener;

static void watch_all(stream *stream, bool reads) {
    list_for_each (at, &stream->listeners) loop_watch_set(container_of(at, listener, item)->watch, reads, false);
}

static void pause_all(stream *stream, int64_t until_us) {
    heap_add(&stream->timers, &stream->accept_again, until_us);
    watch_all(stream, false);
}

void listener_resume(stream *stream) {
    heap_remove(&stream->timers, &stream->accept_again);
    watch_all(stream, true);
}

/* Room for one more stranger. When there is none, the oldest has to go, but not before its time of grace: a burst of
 * good clients must not push each other out. */
static bool make_room(stream *stream) {
    if (stream->stats.strangers < stream->options.strangers_max) return true;
    conn *oldest = container_of(stream->strangers.next, struct conn, stranger);
    int64_t safe_until_us = oldest->since_us + CORE_STRANGER_GRACE_US;
    if (loop_now_us(stream->loop) < safe_until_us) {
        pause_all(stream, safe_until_us);
        return false;
    }
    conn_end(oldest, MR_DENIED, "no HELLO, and %u connections wait", stream->options.strangers_max);
    return true;
}

static void on_readable(void *context) {
    listener *listener = context;
    stream *stream = listener->stream;
    for (int i = 0; i < ACCEPTS_MAX && make_room(stream); i++) {
        int fd = socket_accept(listener->fd, &listener->address);
        if (fd >= 0) {
            FAILPOINT("stream.accept");
            conn_accept(stream, fd, &listener->address);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            char text[ADDRESS_TEXT_MAX];
            address_format(&listener->address, text);
            log_warn("%s does not accept connections for %d ms: %s", text, NO_FD_PAUSE_US / 1000, strerror(errno));
            pause_all(stream, loop_now_us(stream->loop) + NO_FD_PAUSE_US);
            return;
        }
        if (errno == EAGAIN) return;
        /* Anything else is the trouble of one that gave up before it was accepted. */
    }
}

static mr_status open_socket(listener *listener, const address *address) {
    if (!address_is_unix(address)) return socket_listen(address, &listener->fd, &listener->address);
    MR_TRY(unix_listener_open(address->local.sun_path, SOCK_STREAM, SOMAXCONN, true, &listener->local));
    listener->fd = listener->local.fd;
    listener->address = *address;
    return MR_OK;
}

static void close_socket(listener *listener) {
    if (address_is_unix(&listener->address))
        unix_listener_close(&listener->local);
    else
        close(listener->fd);
}

mr_status listener_add(stream *stream, const address *address, char actual[ADDRESS_TEXT_MAX]) {
    listener *listener = xcalloc(1, sizeof *listener);
    listener->stream = stream;
    mr_status status = open_socket(listener, address);
    if (status != MR_OK) goto free_listener;
    status = loop_watch_add(stream->loop, listener->fd, on_readable, listener, &listener->watch);
    if (status != MR_OK) goto close_socket;
    if (heap_holds(&stream->accept_again)) loop_watch_set(listener->watch, false, false);
    list_push_back(&stream->listeners, &listener->item);
    if (actual != NULL) address_format(&listener->address, actual);
    return MR_OK;

close_socket:
    close_socket(listener);
free_listener:
    free(listener);
    return status;
}

void listener_remove_all(stream *stream) {
    list *item;
    while ((item = list_pop_front(&stream->listeners)) != NULL) {
        listener *listener = container_of(item, struct listener, item);
        loop_watch_remove(listener->watch);
        close_socket(listener);
        free(listener);
    }
}
