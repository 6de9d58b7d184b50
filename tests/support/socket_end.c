/* socket_end.c — see socket_end.h. */
#include "tests/support/socket_end.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/frame.h"
#include "net/socket/handshake.h"

static void on_open(void *context, link_id link, const peer *peer) {
    socket_end *end = context;
    end->opened++;
    end->link = link;
    end->peer = *peer;
    if (end->on_open != NULL) end->on_open(end, link);
}

static void on_message(void *context, link_id link, const message *message) {
    socket_end *end = context;
    end->messages++;
    end->bytes += message->head.size + message->body.size;
    if (end->on_message != NULL) end->on_message(end, link, message);
}

static void *on_body(void *context, link_id link, span head, uint64_t size) {
    socket_end *end = context;
    end->bodies++;
    if (end->on_body != NULL) return end->on_body(end, link, head, size);
    if (end->body_size < size) {
        free(end->body);
        end->body_size = size;
        end->body = malloc(size);
    }
    return end->body;
}

static void on_room(void *context, link_id link) {
    socket_end *end = context;
    end->rooms++;
    if (end->on_room != NULL) end->on_room(end, link);
}

static void on_closed(void *context, link_id link, const cause *why) {
    socket_end *end = context;
    end->closed++;
    end->why = *why;
    if (end->on_closed != NULL) end->on_closed(end, link, why);
}

const transport_events socket_end_events = {
    .on_open = on_open,
    .on_message = on_message,
    .on_body = on_body,
    .on_room = on_room,
    .on_closed = on_closed,
};

void socket_end_sent(void *argument, mr_status status) {
    socket_end *end = argument;
    end->sent++;
    end->sent_status = status;
    if (status != MR_OK) end->sent_failed++;
}

const token socket_end_token = {{0x5e, 0xc2, 0xe7}};

static mr_status find_token(void *context, token *out) {
    *out = socket_end_token;
    return MR_OK;
}

bool socket_end_open(socket_end *end, event_loop *loop, const socket_transport_options *options) {
    socket_transport_options own = options == NULL ? (socket_transport_options){0} : *options;
    memset(end, 0, sizeof *end);
    if (own.find_token == NULL) own.find_token = find_token;
    if (socket_transport_open(loop, &own, &socket_end_events, end, &end->transport) != MR_OK) return false;
    end->wire = socket_transport_transport(end->transport);
    return true;
}

bool socket_end_listen(socket_end *end, const char *address) {
    return socket_transport_listen(end->transport, address, end->address) == MR_OK;
}

void socket_end_keep_head(socket_end *end, link_id link, const message *message) {
    end->body = xrealloc(end->body, message->head.size + 1);
    end->body_size = message->head.size;
    memcpy(end->body, message->head.data, message->head.size);
}

void socket_end_close(socket_end *end) {
    socket_transport_close(end->transport);
    free(end->body);
    end->transport = NULL;
    end->body = NULL;
}

link_id socket_end_connect(socket_end *end, const char *address) {
    link_id link = {0};
    if (end->wire.ops->open(end->wire.self, address, &link) != MR_OK) link.v = 0;
    return link;
}

mr_status socket_end_send(socket_end *end, link_id link, const void *head, size_t size) {
    return transport_send(end->wire, link, span_of(head, size));
}

mr_status socket_end_send_body(socket_end *end, link_id link, span head, span body) {
    uint8_t *place;
    mr_status status = end->wire.ops->reserve(end->wire.self, link, head.size, &place);
    if (status != MR_OK) return status;
    memcpy(place, head.data, head.size);
    end->wire.ops->commit_body(end->wire.self, link, head.size, body, socket_end_sent, end);
    return MR_OK;
}

int raw_connect(const char *text) {
    address address;
    if (address_parse(text, &address) != MR_OK) return -1;
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    /* without it the small writes of a handshake wait for delayed acknowledgements, 40 ms each */
    if (!address_is_unix(&address)) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fd >= 0 && connect(fd, &address.any, address.size) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

bool raw_send(int fd, const void *data, size_t size) {
    const uint8_t *at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

bool raw_frame(int fd, int kind, span head, uint64_t body) {
    uint8_t header[FRAME_HEADER_SIZE];
    frame_encode_header(header, &(frame){.kind = (frame_kind)kind, .head = head, .body_size = body});
    return raw_send(fd, header, sizeof header) && raw_send(fd, head.data, head.size);
}

static handshake_hello raw_self(void) {
    return (handshake_hello){.peer = {.process = 77, .pid = (int)getpid(), .name = "raw"}};
}

bool raw_hello(int fd) {
    handshake_hello self = raw_self();
    uint8_t head[HANDSHAKE_HELLO_MAX];
    return raw_frame(fd, FRAME_HELLO, span_of(head, handshake_hello_encode(head, &self)), 0);
}

static bool raw_recv(int fd, void *data, size_t size) { return recv(fd, data, size, MSG_WAITALL) == (ssize_t)size; }

bool raw_hello_answer(int fd) {
    frame_header header;
    uint8_t head[HANDSHAKE_HELLO_MAX];
    return raw_recv(fd, &header, sizeof header) && header.kind == FRAME_HELLO && header.head_size <= sizeof head &&
           raw_recv(fd, head, header.head_size);
}

static bool raw_handshake_with(int fd, handshake *handshake) {
    frame_header header;
    uint8_t head[HANDSHAKE_HELLO_MAX];
    handshake_answer answer;
    if (!raw_frame(fd, FRAME_HELLO, handshake_own_hello(handshake), 0)) return false;
    while (handshake->state != HANDSHAKE_OPEN) {
        if (!raw_recv(fd, &header, sizeof header) || header.head_size > sizeof head) return false;
        if (!raw_recv(fd, head, header.head_size)) return false;
        if (handshake_take(handshake, (frame_kind)header.kind, span_of(head, header.head_size), &answer) != MR_OK)
            return false;
        if (answer.proof && !raw_frame(fd, FRAME_PROOF, span_of(answer.bytes, sizeof answer.bytes), 0)) return false;
    }
    return true;
}

bool raw_handshake(int fd, const char *text) {
    handshake_hello self = raw_self();
    handshake handshake;
    address address;
    hmac *hmac;
    if (address_parse(text, &address) != MR_OK || hmac_open(&hmac) != MR_OK) return false;
    handshake_init(&handshake, HANDSHAKE_INITIATOR, &self, hmac, &socket_end_token, &address);
    bool open = raw_handshake_with(fd, &handshake);
    hmac_close(hmac);
    return open;
}

size_t raw_read_all(int fd, void *data, size_t size) {
    uint8_t sink[4096], *kept = data;
    size_t total = 0;
    ssize_t got;
    while ((got = recv(fd, sink, sizeof sink, 0)) > 0) {
        for (ssize_t i = 0; i < got; i++, total++)
            if (total < size) kept[total] = sink[i];
    }
    return total;
}

size_t open_fd_count(void) {
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;
    if (folder == NULL) return 0;
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}
