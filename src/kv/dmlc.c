/* dmlc.c — see dmlc.h. */
#include "kv/dmlc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/stream/address.h"

mr_status dmlc_number(const char *name, uint32_t *out) {
    const char *text = getenv(name);
    if (text == NULL) return error_set(MR_INVALID, "%s is not set", name);
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < 1 || value > INT32_MAX)
        return error_set(MR_INVALID, "%s is '%s': it has to be a number above 0", name, text);
    *out = (uint32_t)value;
    return MR_OK;
}

mr_status dmlc_scheduler(char text[DMLC_ADDRESS_MAX]) {
    const char *host = getenv("DMLC_PS_ROOT_URI");
    uint32_t port;
    address address;
    if (host == NULL) return error_set(MR_INVALID, "no scheduler is named, and DMLC_PS_ROOT_URI is not set");
    MR_TRY(dmlc_number("DMLC_PS_ROOT_PORT", &port));
    bool is_v6 = strchr(host, ':') != NULL;
    int size = snprintf(text, DMLC_ADDRESS_MAX, is_v6 ? "tcp:[%s]:%u" : "tcp:%s:%u", host, port);
    if (size >= DMLC_ADDRESS_MAX || address_parse(text, &address) != MR_OK)
        return error_set(MR_INVALID,
                         "DMLC_PS_ROOT_URI is '%s' and DMLC_PS_ROOT_PORT %u: that is no address (names are "
                         "not looked up)",
                         host, port);
    return MR_OK;
}

mr_status dmlc_default(const char **scheduler, char room[DMLC_ADDRESS_MAX]) {
    if (*scheduler != NULL) return MR_OK;
    MR_TRY(dmlc_scheduler(room));
    *scheduler = room;
    return MR_OK;
}
