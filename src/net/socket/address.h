/* address.h — tcp: and unix: addresses, as text and as a sockaddr.
 *
 *   tcp:127.0.0.1:7000    tcp:[::1]:7000    port 0 selects a free one when listening
 *   unix:/run/user/1000/miniray             an absolute path
 *
 * Host names are not resolved: that blocks, and a caller can do so before. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "miniray/status.h"

enum { ADDRESS_TEXT_MAX = 128 };

typedef struct address {
    socklen_t size;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    };
} address;

_Static_assert(sizeof "unix:" + sizeof(((struct sockaddr_un *)0)->sun_path) <= ADDRESS_TEXT_MAX, "every address fits");

MR_MUST mr_status address_parse(const char *text, address *out); /* MR_INVALID */
void address_format(const address *address, char text[ADDRESS_TEXT_MAX]);
static inline bool address_is_unix(const address *address) { return address->any.sa_family == AF_UNIX; }
bool address_is_local(const address *address); /* a unix socket or a loopback address */
/* MR_DENIED: not local; the error says that this process cannot do `what` ("connect to") there. */
MR_MUST mr_status address_check_local(const address *address, const char *what);
