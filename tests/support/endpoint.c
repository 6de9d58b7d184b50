/* endpoint.c — see endpoint.h. */
#include "tests/support/endpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/frame.h"
#include "net/stream/greeting.h"

static void on_open(void *context, link_id link, const peer *peer) {
    endpoint *endpoint = context;
    endpoint->opened++;
    endpoint->link = link;
    endpoint->peer = *peer;
    if (endpoint->on_open != NULL) endpoint->on_open(endpoint, link);
}

static void on_message(void *context, link_id link, const message *message) {
    endpoint *endpoint = context;
    endpoint->messages++;
    endpoint->bytes += message->head.size + message->body.size;
    if (endpoint->on_message != NULL) endpoint->on_message(endpoint, link, message);
}

static void *on_body(void *context, link_id link, span head, uint64_t size) {
    endpoint *endpoint = context;
    endpoint->bodies++;
    if (endpoint->on_body != NULL) return endpoint->on_body(endpoint, link, head, size);
    if (endpoint->body_size < size) {
        free(endpoint->body);
        endpoint->body_size = size;
        endpoint->body = malloc(size);
    }
    return endpoint->body;
}

static void on_room(void *context, link_id link) {
    endpoint *endpoint = context;
    endpoint->rooms++;
    if (endpoint->on_room != NULL) endpoint->on_room(endpoint, link);
}

static void on_closed(void *context, link_id link, const cause *why) {
    endpoint *endpoint = context;
    endpoint->closed++;
    endpoint->why = *why;
    if (endpoint->on_closed != NULL) endpoint->on_closed(endpoint, link, why);
}

const transport_events endpoint_events = {
    .on_open = on_open,
    .on_message = on_message,
    .on_body = on_body,
    .on_room = on_room,
    .on_closed = on_closed,
};

void endpoint_sent(void *argument, mr_status status) {
    endpoint *endpoint = argument;
    endpoint->sent++;
    endpoint->sent_status = status;
    if (status != MR_OK) endpoint->sent_failed++;
}

bool endpoint_open(endpoint *endpoint, loop *loop, const stream_options *options) {
    memset(endpoint, 0, sizeof *endpoint);
    if (stream_open(loop, options, &endpoint_events, endpoint, &endpoint->stream) != MR_OK) return false;
    endpoint->wire = stream_transport(endpoint->stream);
    return true;
}

bool endpoint_listen(endpoint *endpoint, const char *address) {
    return stream_listen(endpoint->stream, address, endpoint->address) == MR_OK;
}

void endpoint_keep_head(endpoint *endpoint, link_id link, const message *message) {
    endpoint->body = xrealloc(endpoint->body, message->head.size + 1);
    endpoint->body_size = message->head.size;
    memcpy(endpoint->body, message->head.data, message->head.size);
}

void endpoint_close(endpoint *endpoint) {
    stream_close(endpoint->stream);
    free(endpoint->body);
    endpoint->stream = NULL;
    endpoint->body = NULL;
}

link_id endpoint_connect(endpoint *endpoint, const char *address) {
    link_id link = {0};
    if (endpoint->wire.ops->open(endpoint->wire.self, address, &link) != MR_OK) link.v = 0;
    return link;
}

mr_status endpoint_send(endpoint *endpoint, link_id link, const void *head, size_t size) {
    return transport_send(endpoint->wire, link, span_of(head, size));
}

mr_status endpoint_send_body(endpoint *endpoint, link_id link, span head, span body) {
    uint8_t *place;
    mr_status status = endpoint->wire.ops->reserve(endpoint->wire.self, link, head.size, &place);
    if (status != MR_OK) return status;
    memcpy(place, head.data, head.size);
    endpoint->wire.ops->commit_body(endpoint->wire.self, link, head.size, body, endpoint_sent, endpoint);
    return MR_OK;
}

int raw_connect(const char *text) {
    address address;
    if (address_parse(text, &address) != MR_OK) return -1;
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
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

bool raw_hello(int fd) {
    peer self = {.process = 77, .pid = (int)getpid(), .name = "raw"};
    uint8_t head[GREETING_HELLO_MAX];
    return raw_frame(fd, FRAME_HELLO, span_of(head, greeting_hello_encode(head, &self)), 0);
}

static bool raw_recv(int fd, void *data, size_t size) { return recv(fd, data, size, MSG_WAITALL) == (ssize_t)size; }

bool raw_hello_answer(int fd) {
    frame_header header;
    uint8_t head[GREETING_HELLO_MAX];
    return raw_recv(fd, &header, sizeof header) && header.kind == FRAME_HELLO && header.head_size <= sizeof head &&
           raw_recv(fd, head, header.head_size);
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
