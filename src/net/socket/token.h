/* token.h — token of a deployment: the secret that both ends of a tcp link prove to have (handshake.h).
 *
 *   MINIRAY_TOKEN_FILE          the file, if set; a scheduler creates it if it does not exist
 *   CHECKPOINT_DIR/token        else: the file in the scheduler's directory, created at its first start
 *   USER_DIR/token-ADDRESS      copy for the processes of the same user, while the scheduler at tcp:ADDRESS lives
 *                               (base/user_dir.h); locked by the scheduler, and removed by it or by a later one
 *
 * A token file has mode 0600 and contains 64 hexadecimal digits and a line feed. A file that belongs to another user,
 * that other users can access, or that is a link is not read. Tokens appear in no log, no error and no command line.
 *
 * Threads     none. The environment is read by token_finder_init and token_obtain only. */
#pragma once
#include <limits.h>

#include "base/user_dir.h"
#include "miniray/status.h"
#include "net/socket/address.h"

#define TOKEN_VARIABLE "MINIRAY_TOKEN_FILE"

enum { TOKEN_SIZE = 32 };

typedef struct token {
    uint8_t bytes[TOKEN_SIZE];
} token;

/* MR_NOT_FOUND; MR_DENIED: not a private file of this user; MR_CORRUPT: other content. */
MR_MUST mr_status token_read(const char *path, token *out);
/* Token of a scheduler with this directory, which exists: reads it, or creates it. */
MR_MUST mr_status token_obtain(const char *folder, token *out);

/* ---- The copy for processes of the same user. */

typedef struct token_copy { /* zero-initialized: none */
    int lock_fd;            /* owned; valid if the path is not empty */
    char path[PATH_MAX];
} token_copy;

MR_MUST mr_status token_copy_create(const char *address, const token *token, token_copy *out);
void token_copy_remove(token_copy *copy); /* no-op for none */

/* ---- The token for links of a process to the deployment of a scheduler. */

typedef struct token_finder { /* plain data */
    char given[PATH_MAX];     /* the file of MINIRAY_TOKEN_FILE; "": not set */
    char address[ADDRESS_TEXT_MAX];
    char copies[USER_DIRS][USER_DIR_MAX + ADDRESS_TEXT_MAX];
    unsigned copy_count; /* 0: the scheduler's address is not tcp */
    bool own, found;     /* `last` was set by token_finder_own, or was found */
    token last;
} token_finder;

MR_MUST mr_status token_finder_init(token_finder *finder, const char *scheduler); /* MR_INVALID */
void token_finder_own(token_finder *finder, const token *token);                  /* the process has the token */
/* Whether a token may exist: without one, only unix sockets can be used. */
static inline bool token_finder_may_find(const token_finder *finder) {
    return finder->own || finder->given[0] != '\0' || finder->copy_count != 0;
}
/* Reads the token again, since a new scheduler may have another one; the last one remains valid while none is found.
 * MR_NOT_FOUND: the error names the files that were looked for. The context is the finder. */
MR_MUST mr_status token_finder_find(void *finder, token *out);
