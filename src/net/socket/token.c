/* token.c — see token.h.
 *
 * A file is written under another name and then gets its name, so no process reads a part of it. Copies are made and
 * removed while the user's directory is locked: a copy without a lock is that of a scheduler that was killed. */
#include "net/socket/token.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/rng.h"

#define COPY_PREFIX "token-"

enum { DIGITS = 2 * TOKEN_SIZE, TEXT_SIZE = DIGITS + 1, TRIES = 100 };

/* ---- Reading. */

static mr_status check_file(int fd, const char *path) {
    struct stat stat;
    if (fstat(fd, &stat) != 0) return error_errno("cannot examine the token file %.200s", path);
    if (!S_ISREG(stat.st_mode)) return error_set(MR_DENIED, "the token file %.200s is not a regular file", path);
    if (stat.st_uid != geteuid())
        return error_set(MR_DENIED,
                         "the token file %.200s belongs to user %u, this process to user %u: copy it to a "
                         "file of this user with mode 0600, and set " TOKEN_VARIABLE " to that",
                         path, stat.st_uid, geteuid());
    if ((stat.st_mode & 0077) != 0)
        return error_set(MR_DENIED,
                         "the token file %.200s has mode %04o, so other users may know the token: remove it "
                         "and restart the deployment, or use chmod 600 if no other user has read it",
                         path, stat.st_mode & 07777);
    return MR_OK;
}

static int digit_of(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

static bool parse(const char *text, ssize_t size, token *out) {
    if (size != DIGITS && (size != TEXT_SIZE || text[DIGITS] != '\n')) return false;
    for (int i = 0; i < TOKEN_SIZE; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out->bytes[i] = (uint8_t)(16 * high + low);
    }
    return true;
}

static mr_status read_file(int fd, const char *path, token *out) {
    char text[TEXT_SIZE + 1];
    token token;
    MR_TRY(check_file(fd, path));
    ssize_t size = TEMP_FAILURE_RETRY(read(fd, text, sizeof text));
    if (size < 0) return error_errno("cannot read the token file %.200s", path);
    bool good = parse(text, size, &token);
    if (good) *out = token;
    explicit_bzero(text, sizeof text);
    explicit_bzero(&token, sizeof token);
    return good ? MR_OK
                : error_set(MR_CORRUPT,
                            "the token file %.200s has no token of %d hexadecimal digits: remove it, and "
                            "restart the deployment",
                            path, DIGITS);
}

mr_status token_read(const char *path, token *out) {
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return error_set(MR_NOT_FOUND, "the token file %.200s does not exist", path);
    if (fd < 0 && errno == ELOOP) return error_set(MR_DENIED, "the token file %.200s is a symbolic link", path);
    if (fd < 0) return error_errno("cannot open the token file %.200s", path);
    mr_status status = read_file(fd, path, out);
    close(fd);
    return status;
}

/* ---- Writing. */

static mr_status write_text(int fd, const token *token, const char *path) {
    static const char digits[] = "0123456789abcdef";
    char text[TEXT_SIZE];
    for (int i = 0; i < TOKEN_SIZE; i++) {
        text[2 * i] = digits[token->bytes[i] >> 4];
        text[2 * i + 1] = digits[token->bytes[i] & 15];
    }
    text[DIGITS] = '\n';
    bool written = write(fd, text, sizeof text) == (ssize_t)sizeof text && fsync(fd) == 0;
    explicit_bzero(text, sizeof text);
    return written ? MR_OK : error_errno("cannot write the token file %.200s", path);
}

/* Gives a written file its name. MR_EXISTS: there is one, and it is not to be replaced. */
static mr_status give_name(const char *fresh, const char *path, bool replaces) {
    if (!replaces) {
        if (link(fresh, path) == 0) return MR_OK; /* the caller removes the other name */
        if (errno == EEXIST) return MR_EXISTS;
        if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
            return error_errno("cannot create the token file %.200s", path);
    }
    if (rename(fresh, path) == 0) return MR_OK;
    return error_errno("cannot create the token file %.200s", path);
}

/* Writes a file with mode 0600. `lock_fd`: NULL, or set to a descriptor that holds a lock on the file. */
static mr_status write_file(const char *path, const token *token, bool replaces, int *lock_fd) {
    char fresh[PATH_MAX];
    int size = snprintf(fresh, sizeof fresh, "%s.new-%d", path, (int)getpid());
    if (size < 0 || (size_t)size >= sizeof fresh)
        return error_set(MR_INVALID, "the path of the token file %.80s… has %d bytes; the limit is %d", path, size,
                         PATH_MAX - 1);
    unlink(fresh); /* of an earlier process with this number */
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return error_errno("cannot create the token file %.200s", path);
    mr_status status = write_text(fd, token, path);
    if (status == MR_OK && lock_fd != NULL) (void)!flock(fd, LOCK_EX | LOCK_NB); /* without locks none is removed */
    if (status == MR_OK) status = give_name(fresh, path, replaces);
    unlink(fresh);
    if (status == MR_OK && lock_fd != NULL)
        *lock_fd = fd;
    else
        close(fd);
    return status;
}

/* The file's token; a random one in a new file if there is none. */
static mr_status read_or_create(const char *path, token *out) {
    token fresh;
    mr_status status = token_read(path, out);
    if (status != MR_NOT_FOUND) return status;
    MR_TRY(rng_system_fill(fresh.bytes, sizeof fresh.bytes));
    status = write_file(path, &fresh, false, NULL);
    explicit_bzero(&fresh, sizeof fresh);
    return status != MR_OK && status != MR_EXISTS ? status : token_read(path, out);
}

/* The absolute path of MINIRAY_TOKEN_FILE; "": not set. */
static mr_status read_variable(char out[PATH_MAX]) {
    const char *given = getenv(TOKEN_VARIABLE);
    char here[PATH_MAX] = "";
    out[0] = '\0';
    if (given == NULL || given[0] == '\0') return MR_OK;
    if (given[0] != '/' && getcwd(here, sizeof here) == NULL)
        return error_errno(TOKEN_VARIABLE " is the relative path '%.80s', and there is no working directory", given);
    int size = snprintf(out, PATH_MAX, "%s%s%s", here, given[0] == '/' ? "" : "/", given);
    if (size >= 0 && size < PATH_MAX) return MR_OK;
    return error_set(MR_INVALID, TOKEN_VARIABLE " is '%.80s…', a path of %d bytes; the limit is %d", given, size,
                     PATH_MAX - 1);
}

mr_status token_obtain(const char *folder, token *out) {
    char path[PATH_MAX];
    MR_TRY(read_variable(path));
    if (path[0] != '\0') return read_or_create(path, out);
    int size = snprintf(path, sizeof path, "%s/token", folder);
    if (size < 0 || (size_t)size >= sizeof path)
        return error_set(MR_INVALID, "the path of '%.80s…/token' has %d bytes; the limit is %d", folder, size,
                         PATH_MAX - 1);
    return read_or_create(path, out);
}

/* ---- Copies. */

/* "tcp:127.0.0.1:7000" has the copy DIR/token-127.0.0.1:7000. */
static void name_copy(const char *dir, const char *address, char *out, size_t size) {
    snprintf(out, size, "%s/" COPY_PREFIX "%s", dir, address + strlen("tcp:"));
}

/* Removes a copy without a lock: its scheduler was killed. */
static void remove_if_dead(int dir_fd, const char *name) {
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dir_fd, name, 0);
    close(fd);
}

static void remove_dead(const char *dir, int dir_fd) {
    DIR *entries = opendir(dir);
    if (entries == NULL) return;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (strncmp(entry->d_name, COPY_PREFIX, strlen(COPY_PREFIX)) == 0) remove_if_dead(dir_fd, entry->d_name);
    closedir(entries);
}

mr_status token_copy_create(const char *address, const token *token, token_copy *out) {
    char dir[USER_DIR_MAX];
    for (int i = 0; i < TRIES; i++) { /* other processes may be removing an empty directory */
        MR_TRY(user_dir_open(dir));
        int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir_fd < 0 && errno == ENOENT) continue;
        if (dir_fd < 0) return error_errno("cannot open the directory %s", dir);
        bool locked = flock(dir_fd, LOCK_EX) == 0;
        name_copy(dir, address, out->path, sizeof out->path);
        mr_status status = write_file(out->path, token, true, &out->lock_fd);
        if (status == MR_OK && locked) remove_dead(dir, dir_fd);
        close(dir_fd);
        if (status == MR_OK) return MR_OK;
        out->path[0] = '\0';
        if (user_dir_is_private(dir)) return status;
    }
    return error_set(MR_EXISTS, "cannot keep a token in %s: gave up after %d attempts", dir, TRIES);
}

void token_copy_remove(token_copy *copy) {
    if (copy->path[0] == '\0') return;
    unlink(copy->path);
    close(copy->lock_fd);
    *strrchr(copy->path, '/') = '\0';
    rmdir(copy->path); /* unless it contains other files */
    copy->path[0] = '\0';
}

/* ---- Finding. */

mr_status token_finder_init(token_finder *finder, const char *scheduler) {
    address address;
    char dirs[USER_DIRS][USER_DIR_MAX];
    *finder = (token_finder){0};
    MR_TRY(address_parse(scheduler, &address));
    address_format(&address, finder->address);
    MR_TRY(read_variable(finder->given));
    if (address_is_unix(&address)) return MR_OK;
    finder->copy_count = user_dir_list(dirs);
    for (unsigned i = 0; i < finder->copy_count; i++)
        name_copy(dirs[i], finder->address, finder->copies[i], sizeof finder->copies[i]);
    return MR_OK;
}

void token_finder_own(token_finder *finder, const token *token) {
    finder->last = *token;
    finder->own = true;
}

/* Only a directory that other users cannot write to has copies. */
static bool is_in_private_dir(const char *copy) {
    char dir[USER_DIR_MAX + ADDRESS_TEXT_MAX];
    snprintf(dir, sizeof dir, "%s", copy);
    *strrchr(dir, '/') = '\0';
    return user_dir_is_private(dir);
}

static mr_status read_copy(const token_finder *finder, token *out) {
    for (unsigned i = 0; i < finder->copy_count; i++) {
        if (!is_in_private_dir(finder->copies[i])) continue;
        mr_status status = token_read(finder->copies[i], out);
        if (status != MR_NOT_FOUND) return status;
    }
    if (finder->copy_count == 0)
        return error_set(MR_NOT_FOUND,
                         "tcp: addresses need a token, and a deployment whose scheduler is at %s has one "
                         "only if " TOKEN_VARIABLE " is set for all its processes",
                         finder->address);
    return error_set(MR_NOT_FOUND,
                     "no token for %s: %s does not exist, and " TOKEN_VARIABLE " is not set; start the scheduler as "
                     "this user (%u), or set the variable to a copy of the file `token` in its checkpoint directory",
                     finder->address, finder->copies[0], geteuid());
}

mr_status token_finder_find(void *context, token *out) {
    token_finder *finder = context;
    mr_status status = MR_OK;
    if (!finder->own) {
        status = finder->given[0] != '\0' ? token_read(finder->given, &finder->last) : read_copy(finder, &finder->last);
        if (status == MR_OK) finder->found = true;
        if (status != MR_OK && !finder->found) return status;
    }
    *out = finder->last;
    return MR_OK;
}
