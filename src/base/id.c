/* id.c — see id.h. */
#include "base/id.h"

#include <string.h>

#include "base/error.h"

enum { DIGITS = ID_TEXT_SIZE - 1 };

static const char digits[] = "0123456789abcdef";

uint64_t id_random(rng *rng) {
    uint64_t id;
    do id = rng_next(rng);
    while (id == 0);
    return id;
}

const char *id_text(uint64_t id, char out[ID_TEXT_SIZE]) {
    for (int i = 0; i < DIGITS; i++) out[i] = digits[id >> (4 * (DIGITS - 1 - i)) & 15];
    out[DIGITS] = '\0';
    return out;
}

mr_status id_parse(const char *text, const char *what, uint64_t *out) {
    uint64_t id = 0;
    bool good = strnlen(text, DIGITS + 1) == DIGITS && strspn(text, digits) == DIGITS;
    for (int i = 0; good && i < DIGITS; i++) id = id << 4 | (uint64_t)(strchr(digits, text[i]) - digits);
    if (id == 0)
        return error_set(MR_INVALID, "'%.40s' is no %s: expected %d hexadecimal digits, a-f in lower case, not all 0",
                         text, what, DIGITS);
    *out = id;
    return MR_OK;
}
