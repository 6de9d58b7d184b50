/* socket_end.h — one side of a socket transport in a test: it records events and calls functions of the test.
 *
 *     endpoint server, client;
 *   socket_end_open(&server, loop, NULL);
 *   socket_end_listen(&server, "tcp:127.0.0.1:0");
 *   socket_end_open(&client, loop, NULL);
 *   link_id link = socket_end_connect(&client, server.address);
 *     WAIT_FOR(loop, client.opened == 1 && server.opened == 1); */
#pragma once
#include "base/clock.h"
#include "net/event_loop.h"
#include "net/socket/socket_transport.h"

enum { SOCKET_END_PATIENCE_US = 60 * 1000 * 1000 }; /* timeout of WAIT_FOR */

typedef struct socket_end socket_end;

struct socket_end {
    socket_transport *transport;
    transport wire;
    char address[ADDRESS_TEXT_MAX]; /* address on which this side listens */

    /* Recorded events. */
    unsigned opened, closed, messages, rooms, bodies, sent, sent_failed;
    uint64_t bytes; /* bytes of received heads and bodies */
    link_id link;   /* the latest link */
    peer peer;
    cause why; /* cause of the last on_closed */
    mr_status sent_status;

    /* Callbacks of the test. */
    void *user;
    void (*on_open)(socket_end *end, link_id link);
    void (*on_message)(socket_end *end, link_id link, const message *message);
    void *(*on_body)(socket_end *end, link_id link, span head, uint64_t size); /* NULL: endpoint->body */
    void (*on_room)(socket_end *end, link_id link);
    void (*on_closed)(socket_end *end, link_id link, const cause *why);
    uint8_t *body; /* owned: target of bodies without on_body; grown as needed */
    size_t body_size;
};

extern const transport_events socket_end_events; /* the context is the endpoint */
body_sent_fn socket_end_sent;                    /* counts; the argument is the endpoint */
/* An on_message that copies the head into `body`. */
void socket_end_keep_head(socket_end *end, link_id link, const message *message);

/* The token of all sides, unless the options have a find_token of their own. */
extern const token socket_end_token;

/* Both return false on failure; mr_last_error has the cause. */
bool socket_end_open(socket_end *end, event_loop *loop, const socket_transport_options *options);
bool socket_end_listen(socket_end *end, const char *address);
void socket_end_close(socket_end *end);

link_id socket_end_connect(socket_end *end, const char *address); /* v == 0: failed */
mr_status socket_end_send(socket_end *end, link_id link, const void *head, size_t size);
mr_status socket_end_send_body(socket_end *end, link_id link, span head, span body);

/* Runs the loop until the condition holds; false after SOCKET_END_PATIENCE_US. */
#define UNTIL(the_loop, condition)                                                                             \
    (__extension__({                                                                                           \
        int64_t give_up_us_ = clock_now_us(clock_real()) + SOCKET_END_PATIENCE_US;                             \
        while (!(condition) && clock_now_us(clock_real()) < give_up_us_) event_loop_run_once(the_loop, 10000); \
        !!(condition);                                                                                         \
    }))
#define WAIT_FOR(the_loop, condition) assert_true(UNTIL(the_loop, condition))

/* ---- A client made of plain system calls, which sends bytes chosen by the test. It blocks. */

int raw_connect(const char *address);                       /* -1: failed */
bool raw_send(int fd, const void *data, size_t size);       /* sends all bytes */
bool raw_frame(int fd, int kind, span head, uint64_t body); /* a valid frame; the caller sends the body */
bool raw_hello(int fd);                                     /* sends HELLO */
bool raw_hello_answer(int fd);                              /* reads the peer's HELLO */
/* The whole handshake of a tcp link; another thread or process drives the server. */
bool raw_handshake(int fd, const char *address);
/* Reads to the end of the stream; returns the number of bytes, and keeps at most `size` of them. */
size_t raw_read_all(int fd, void *data, size_t size);

size_t open_fd_count(void); /* number of open descriptors of this process */
