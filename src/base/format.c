/* format.c — see format.h. */
#include "base/format.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"

uint32_t format_of_text(const char *text, const char *name) {
    size_t size = strlen(name);
    if (text == NULL || strncmp(text, name, size) != 0 || text[size] < '0' || text[size] > '9') return 0;
    char *end;
    unsigned long number = strtoul(text + size, &end, 10);
    return *end == '\0' && number <= UINT32_MAX ? (uint32_t)number : 0;
}

mr_status format_reject(const char *object, uint64_t found, uint64_t known, const char *action) {
    return error_set(MR_CORRUPT, "%s has format %llu; this version reads format %llu: %s", object,
                     (unsigned long long)found, (unsigned long long)known, action);
}

uint64_t format_sum(span bytes) { return XXH3_64bits(bytes.data, bytes.size); }

bool format_is_sealed(span file) {
    uint64_t sum;
    if (file.size < sizeof sum) return false;
    memcpy(&sum, file.data + file.size - sizeof sum, sizeof sum);
    return format_sum(span_of(file.data, file.size - sizeof sum)) == sum;
}
