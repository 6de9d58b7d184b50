/* option_struct.c — see option_struct.h. */
#include "base/option_struct.h"

#include <string.h>

#include "base/error.h"

enum { SIZE_MOST = 64 * 1024 }; /* larger than any option struct: a larger size means that the field was not set */

mr_status option_struct_copy(const char *type, size_t least, size_t known, const void *given, void *out) {
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size < least || size > SIZE_MOST)
        return error_set(MR_INVALID, "%s.size is %zu; it is at least %zu: initialize the struct with MR_INIT(%s)", type,
                         size, least, type);
    const unsigned char *bytes = given;
    for (size_t i = known; i < size; i++)
        if (bytes[i] != 0)
            return error_set(
                MR_INVALID,
                "%s.size is %zu, and a field at byte %zu is set: this release (%s) knows %zu bytes; use the "
                "library of the release that the program was built with, or a newer one",
                type, size, i, mr_version(), known);
    memset(out, 0, known);
    memcpy(out, given, size < known ? size : known);
    memcpy(out, &known, sizeof known);
    return MR_OK;
}
