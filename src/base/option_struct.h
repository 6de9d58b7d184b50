/* option_struct.h — option structs of callers that were built with another release (miniray/status.h, "Options").
 *
 * The first field of an option struct is its size in the caller's release. A struct of this release's size is used
 * in place. A smaller one, down to the size that the struct had in its first release, is copied: the fields that
 * it lacks become zero, their default. A larger one is copied too, if the fields that this release does not know are
 * zero.
 *
 * A new field goes to the end and begins at or after the old size of the struct, never in its padding.
 *
 * Pure. */
#pragma once
#include <stddef.h>

#include "miniray/status.h"

/* The size of a struct in the release in which `last` was its last field. */
#define OPTION_STRUCT_UNTIL(type, last) ((offsetof(type, last) + sizeof(((type *)0)->last) + 7) / 8 * 8)

/* For functions that return mr_status: makes `options` point to a struct of this release (NULL stays NULL); `copy` is a
 * variable of that type. `last` is the last field in the first release that had the struct. */
#define OPTION_STRUCT_READ(type, last, options, copy)                                                             \
    do {                                                                                                          \
        if ((options) != NULL && (options)->size != sizeof(type)) {                                               \
            MR_TRY(option_struct_copy(#type, OPTION_STRUCT_UNTIL(type, last), sizeof(type), (options), &(copy))); \
            (options) = &(copy);                                                                                  \
        }                                                                                                         \
    } while (0)

/* Copies the number of bytes that the size field of `given` states; the rest of `out`, which has `known` bytes, is
 * zero. MR_INVALID: `given` is smaller than `least`, or a field that this release does not know is not zero. */
MR_MUST mr_status option_struct_copy(const char *type, size_t least, size_t known, const void *given, void *out);
