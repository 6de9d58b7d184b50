/* listener.c — see listener.h. */
#include "net/socket/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "net/socket/socket.h"
#include "net/socket/socket_link.h"
#include "net/unix_listener.h"

enum {
    ACCEPTS_MAX = 64,        /* accepts in a row before links are served */
    NO_FD_PAUSE_US = 100000, /* pause of accepting without a free descriptor */
};

typedef struct listener {
    event_loop_watch *watch;
    socket_transport *transport;
    int fd;
    address address;
    unix_listener local; /* owns the descriptor of a unix socket */
    list item;
} listener;

static void watch_all(socket_transport *transport, bool reads) {
    list_for_each (at, &transport->listeners)
        event_loop_watch_set(container_of(at, listener, item)->watch, reads, false);
}

static void pause_all(socket_transport *transport, int64_t until_us) {
    timer_heap_add(&transport->timers, &transport->accept_again, until_us);
    watch_all(transport, false);
}

void listener_resume(socket_transport *transport) {
    timer_heap_remove(&transport->timers, &transport->accept_again);
    watch_all(transport, true);
}

/* Makes room for one more stranger. Without room the oldest one is closed, but only after its grace period: in a burst,
 * valid clients must not close each other. */
static bool make_room(socket_transport *transport) {
    if (transport->stats.strangers < transport->options.strangers_max) return true;
    socket_link *oldest = container_of(transport->strangers.next, struct socket_link, stranger);
    int64_t safe_until_us = oldest->since_us + SOCKET_STRANGER_GRACE_US;
    if (event_loop_now_us(transport->loop) < safe_until_us) {
        pause_all(transport, safe_until_us);
        return false;
    }
    socket_link_end(oldest, MR_DENIED, "no HELLO or PROOF, and %u connections wait", transport->options.strangers_max);
    return true;
}

static void on_readable(void *context) {
    listener *listener = context;
    socket_transport *transport = listener->transport;
    for (int i = 0; i < ACCEPTS_MAX && make_room(transport); i++) {
        int fd = socket_accept(listener->fd, &listener->address);
        if (fd >= 0) {
            FAILPOINT("stream.accept");
            socket_link_accept(transport, fd, &listener->address);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            char text[ADDRESS_TEXT_MAX];
            address_format(&listener->address, text);
            log_warn("%s does not accept connections for %d ms: %s", text, NO_FD_PAUSE_US / 1000, strerror(errno));
            pause_all(transport, event_loop_now_us(transport->loop) + NO_FD_PAUSE_US);
            return;
        }
        if (errno == EAGAIN) return;
        /* Any other error concerns a connection that ended before it was accepted. */
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

mr_status listener_add(socket_transport *transport, const address *address, char actual[ADDRESS_TEXT_MAX]) {
    listener *listener = XNEW(struct listener, .transport = transport);
    mr_status status = open_socket(listener, address);
    if (status != MR_OK) goto free_listener;
    status = event_loop_watch_add(transport->loop, listener->fd, on_readable, listener, &listener->watch);
    if (status != MR_OK) goto close_socket;
    if (timer_heap_holds(&transport->accept_again)) event_loop_watch_set(listener->watch, false, false);
    list_push_back(&transport->listeners, &listener->item);
    if (actual != NULL) address_format(&listener->address, actual);
    return MR_OK;

close_socket:
    close_socket(listener);
free_listener:
    free(listener);
    return status;
}

void listener_remove_all(socket_transport *transport) {
    list *item;
    while ((item = list_pop_front(&transport->listeners)) != NULL) {
        listener *listener = container_of(item, struct listener, item);
        event_loop_watch_remove(listener->watch);
        close_socket(listener);
        free(listener);
    }
}
