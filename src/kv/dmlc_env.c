/* dmlc_env.c — see dmlc_env.h. */
#include "kv/dmlc_env.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/socket/address.h"

mr_status dmlc_number(const char *name, uint32_t *out) {
    const char *text = getenv(name);
    bool is_worker = strcmp(name, "DMLC_NUM_WORKER") == 0;
    if (text == NULL)
        return error_set(MR_INVALID, "num_%ss (--num-%ss) is not given, and %s is not set: give one of the two",
                         is_worker ? "worker" : "server", is_worker ? "worker" : "server", name);
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < 1 || value > INT32_MAX)
        return error_set(MR_INVALID, "%s is '%s'; expected a whole number above 0", name, text);
    *out = (uint32_t)value;
    return MR_OK;
}

/* Numeric address of the host: the host itself, or the first IPv4 address of its name, else the first address. */
static mr_status look_up(const char *host, char numbers[INET6_ADDRSTRLEN]) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int error = getaddrinfo(host, NULL, &hints, &found);
    if (error != 0)
        return error_set(MR_INVALID, "DMLC_PS_ROOT_URI is '%s', which is not a host: %s", host, gai_strerror(error));
    const struct addrinfo *best = found;
    while (best->ai_family != AF_INET && best->ai_next != NULL) best = best->ai_next;
    if (best->ai_family != AF_INET) best = found;
    error = getnameinfo(best->ai_addr, best->ai_addrlen, numbers, INET6_ADDRSTRLEN, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    if (error != 0) return error_set(MR_INVALID, "DMLC_PS_ROOT_URI is '%s': %s", host, gai_strerror(error));
    return MR_OK;
}

mr_status dmlc_scheduler(char text[DMLC_ADDRESS_MAX]) {
    const char *host = getenv("DMLC_PS_ROOT_URI");
    char numbers[INET6_ADDRSTRLEN];
    uint32_t port = 0;
    address address;
    if (host == NULL)
        return error_set(MR_INVALID, "no address of the scheduler is given, and DMLC_PS_ROOT_URI is not set: pass one, "
                                     "such as tcp:127.0.0.1:9000, or set the variable");
    if (getenv("DMLC_PS_ROOT_PORT") == NULL)
        return error_set(MR_INVALID,
                         "DMLC_PS_ROOT_URI is '%s', but DMLC_PS_ROOT_PORT is not set: set it to the scheduler's "
                         "port",
                         host);
    MR_TRY(dmlc_number("DMLC_PS_ROOT_PORT", &port));
    MR_TRY(look_up(host, numbers));
    bool is_v6 = strchr(numbers, ':') != NULL;
    int size = snprintf(text, DMLC_ADDRESS_MAX, is_v6 ? "tcp:[%s]:%u" : "tcp:%s:%u", numbers, port);
    if (size >= DMLC_ADDRESS_MAX || address_parse(text, &address) != MR_OK)
        return error_set(MR_INVALID, "DMLC_PS_ROOT_URI '%s' and DMLC_PS_ROOT_PORT %u do not make an address", host,
                         port);
    return MR_OK;
}

mr_status dmlc_default(const char **scheduler, char room[DMLC_ADDRESS_MAX]) {
    if (*scheduler != NULL) return MR_OK;
    MR_TRY(dmlc_scheduler(room));
    *scheduler = room;
    return MR_OK;
}
