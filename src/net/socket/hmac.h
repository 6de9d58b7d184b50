/* hmac.h — HMAC-SHA-256 and a comparison in constant time, from OpenSSL.
 *
 * OpenSSL (libcrypto.so.3, else libcrypto.so.1.1) is opened when tcp is first used, so neither a build nor a program
 * without tcp needs it. Miniray has no cryptography of its own. */
#pragma once
#include <stdbool.h>

#include "base/bytes.h"
#include "miniray/status.h"

enum { HMAC_SIZE = 32 };

typedef struct hmac hmac;

MR_MUST mr_status hmac_open(hmac **out); /* MR_NOT_FOUND: this machine has no OpenSSL */
void hmac_close(hmac *hmac);             /* NULL is allowed */

/* MR_IO: OpenSSL refused, as a restricted configuration of it may do. */
MR_MUST mr_status hmac_sign(const hmac *hmac, span key, span message, uint8_t out[HMAC_SIZE]);
bool hmac_is_equal(const hmac *hmac, const uint8_t a[HMAC_SIZE], const uint8_t b[HMAC_SIZE]);
