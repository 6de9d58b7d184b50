/* user_dir.c — see user_dir.h. */
#include "base/user_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

enum { PATH_BYTES = 74, REMOVED_MAX = 10 }; /* the path of a socket in a session directory has at most 107 characters */

bool user_dir_is_private(const char *path) {
    struct stat stat;
    return lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode) && stat.st_uid == geteuid() && (stat.st_mode & 0077) == 0;
}

/* ---- Places. */

typedef enum place { PLACE_XDG, PLACE_TMPDIR, PLACE_TMP, PLACE_RUN_USER, PLACE_SHM, PLACE_VAR_TMP } place;
_Static_assert(PLACE_VAR_TMP + 1 == USER_DIRS, "one path for each place");

/* The path at this place. False: this process has no such place, or its path is too long. */
static bool name(place place, char out[USER_DIR_MAX]) {
    const unsigned user = (unsigned)geteuid();
    char own[32];
    const char *folder = NULL;
    snprintf(own, sizeof own, "/run/user/%u", user);
    switch (place) {
    case PLACE_XDG: folder = getenv("XDG_RUNTIME_DIR"); break;
    case PLACE_TMPDIR: folder = getenv("TMPDIR"); break;
    case PLACE_TMP: folder = "/tmp"; break;
    case PLACE_RUN_USER: folder = own; break;
    case PLACE_SHM: folder = "/dev/shm"; break;
    case PLACE_VAR_TMP: folder = "/var/tmp"; break;
    }
    bool is_own = place == PLACE_XDG || place == PLACE_RUN_USER;
    if (folder == NULL || folder[0] != '/' || strlen(folder) + (is_own ? 8 : 19) >= PATH_BYTES) return false;
    if (is_own && !user_dir_is_private(folder)) return false;
    if (is_own)
        snprintf(out, USER_DIR_MAX, "%s/miniray", folder);
    else
        snprintf(out, USER_DIR_MAX, "%s/miniray-%u", folder, user);
    return true;
}

unsigned user_dir_list(char out[USER_DIRS][USER_DIR_MAX]) {
    unsigned count = 0;
    for (place place = 0; place <= PLACE_VAR_TMP; place++) count += name(place, out[count]);
    return count;
}

/* errno if this process cannot create files in the directory; 0: it can. */
static int write_error(const char *folder) { return access(folder, W_OK | X_OK) == 0 ? 0 : errno; }

/* Why the directory cannot be at this path, as errno, with EEXIST if something else is there. 0: it is there, or could
 * be created; with `creates` it is there. */
static int refusal(const char *path, bool creates) {
    char parent[USER_DIR_MAX];
    struct stat stat;
    for (int i = 0; i < REMOVED_MAX; i++) { /* another process may be removing the empty directory */
        if (creates && mkdir(path, 0700) != 0 && errno != EEXIST) return errno;
        if (lstat(path, &stat) == 0) return user_dir_is_private(path) ? write_error(path) : EEXIST;
        if (errno != ENOENT || !creates) break;
    }
    if (errno != ENOENT || creates) return errno;
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    return write_error(parent);
}

static mr_status refuse(const char *path, int why) {
    if (why == EEXIST)
        return error_set(MR_DENIED,
                         "%s is not a directory of this user with mode 0700; remove it, or set TMPDIR to a directory "
                         "of this user",
                         path);
    errno = why;
    return error_errno("cannot create the directory %s; set TMPDIR to a writable directory", path);
}

/* ---- Choice. */

typedef struct choice {
    char path[USER_DIR_MAX];
    char refused[USER_DIR_MAX]; /* the first place that was passed over */
    int why;                    /* its refusal; 0: none was passed over */
} choice;

static mr_status choose(bool creates, choice *out) {
    out->why = 0;
    for (place place = 0; place <= PLACE_VAR_TMP; place++) {
        if (!name(place, out->path)) continue;
        int why = refusal(out->path, creates);
        if (why == 0) return MR_OK;
        if (out->why != 0) continue;
        memcpy(out->refused, out->path, sizeof out->path);
        out->why = why;
    }
    return refuse(out->refused, out->why);
}

mr_status user_dir_find(char out[USER_DIR_MAX]) {
    choice choice;
    MR_TRY(choose(false, &choice));
    memcpy(out, choice.path, sizeof choice.path);
    return MR_OK;
}

mr_status user_dir_open(char out[USER_DIR_MAX]) {
    choice choice;
    MR_TRY(choose(true, &choice));
    if (choice.why != 0 && refuse(choice.refused, choice.why) != MR_OK) {
        log_warn("sockets and logs are in %s: %s", choice.path, mr_last_error());
        error_clear();
    }
    memcpy(out, choice.path, sizeof choice.path);
    return MR_OK;
}
