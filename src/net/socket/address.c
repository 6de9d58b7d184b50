/* address.c — see address.h. */
#include "net/socket/address.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static mr_status not_an_address(const char *text, const char *why) {
    return error_set(MR_INVALID, "'%.150s' is not an address: %s", text, why);
}

static mr_status parse_unix(const char *text, const char *path, address *out) {
    size_t length = strlen(path);
    if (path[0] != '/') return not_an_address(text, "the path of a unix socket is absolute, as in unix:/run/miniray");
    if (length >= sizeof out->local.sun_path)
        return not_an_address(text, "the path of a unix socket has at most 107 bytes");
    out->local = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->local.sun_path, path, length);
    out->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return MR_OK;
}

/* Digits only: no sign, no space, nothing after them. */
static bool parse_port(const char *text, in_port_t *out) {
    size_t length = strlen(text);
    if (length == 0 || length > 5 || strspn(text, "0123456789") != length) return false;
    unsigned long port = strtoul(text, NULL, 10);
    *out = htons((uint16_t)port);
    return port <= 65535;
}

/* An IPv4 address in IPv6 notation is that IPv4 address: one listener has one address. */
static void unmap(address *address) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = address->v6.sin6_port};
    if (!IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr)) return;
    memcpy(&v4.sin_addr, address->v6.sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
    address->v4 = v4;
    address->size = sizeof address->v4;
}

static mr_status parse_tcp(const char *text, const char *rest, address *out) {
    char host[INET6_ADDRSTRLEN];
    bool v6 = rest[0] == '[';
    const char *start = v6 ? rest + 1 : rest, *end = strchr(rest, v6 ? ']' : ':');
    const char *colon = end == NULL ? NULL : v6 ? end + 1 : end;
    if (colon == NULL || colon[0] != ':')
        return not_an_address(text, "expected tcp:IP:PORT, as in tcp:127.0.0.1:7000 or tcp:[::1]:7000");
    if ((size_t)(end - start) >= sizeof host) return not_an_address(text, "its host is too long");
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    in_port_t port;
    if (!parse_port(colon + 1, &port)) return not_an_address(text, "its port is not a number from 0 to 65535");
    int numeric;
    if (v6) {
        out->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
        out->size = sizeof out->v6;
        numeric = inet_pton(AF_INET6, host, &out->v6.sin6_addr);
        if (numeric == 1) unmap(out);
    } else {
        out->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        out->size = sizeof out->v4;
        numeric = inet_pton(AF_INET, host, &out->v4.sin_addr);
    }
    return numeric == 1 ? MR_OK
                        : not_an_address(text, "its host is not a number such as 127.0.0.1: names are not resolved");
}

mr_status address_parse(const char *text, address *out) {
    address parsed = {0};
    if (strncmp(text, "unix:", 5) == 0)
        MR_TRY(parse_unix(text, text + 5, &parsed));
    else if (strncmp(text, "tcp:", 4) == 0)
        MR_TRY(parse_tcp(text, text + 4, &parsed));
    else
        return not_an_address(text, "expected tcp:IP:PORT or unix:/PATH");
    *out = parsed;
    return MR_OK;
}

void address_format(const address *address, char text[ADDRESS_TEXT_MAX]) {
    char host[INET6_ADDRSTRLEN] = "?";
    switch (address->any.sa_family) {
    case AF_UNIX: snprintf(text, ADDRESS_TEXT_MAX, "unix:%.107s", address->local.sun_path); return;
    case AF_INET:
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof host);
        snprintf(text, ADDRESS_TEXT_MAX, "tcp:%s:%u", host, ntohs(address->v4.sin_port));
        return;
    case AF_INET6:
        inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof host);
        snprintf(text, ADDRESS_TEXT_MAX, "tcp:[%s]:%u", host, ntohs(address->v6.sin6_port));
        return;
    default: snprintf(text, ADDRESS_TEXT_MAX, "family %u", address->any.sa_family);
    }
}

static bool is_v4_loopback(uint32_t host_order) { return host_order >> 24 == 127; }

bool address_is_local(const address *address) {
    switch (address->any.sa_family) {
    case AF_UNIX: return true;
    case AF_INET: return is_v4_loopback(ntohl(address->v4.sin_addr.s_addr));
    case AF_INET6: return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    default: return false;
    }
}

mr_status address_check_local(const address *address, const char *what) {
    char text[ADDRESS_TEXT_MAX];
    if (address_is_local(address)) return MR_OK;
    address_format(address, text);
    return error_set(MR_DENIED,
                     "cannot %s %s: links to other machines need TLS, which this release does not have; use "
                     "tcp:127.0.0.1:PORT or unix:PATH",
                     what, text);
}
