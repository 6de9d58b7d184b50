/* launch_spec.c — see launch_spec.h. Encoding: a u8 (copied) and two lists, each a u32 count and texts (u32 length,
 * bytes). */
#include "runtime/common/launch_spec.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/shm/sealed_memfd.h"

extern char **environ;

static size_t count_of(const char *const *list) {
    size_t count = 0;
    while (list[count] != NULL) count++;
    return count;
}

static size_t size_of(const char *const *list) {
    size_t size = 4;
    for (; *list != NULL; list++) size += 4 + strlen(*list);
    return size;
}

static void write_list(writer *writer, const char *const *list) {
    writer_u32(writer, (uint32_t)count_of(list));
    for (; *list != NULL; list++) writer_span32(writer, span_of(*list, strlen(*list)));
}

static mr_status encode(const char *const *arguments, bool copied, span *out) {
    const char *const own[] = {program_invocation_name, NULL}, *const *variables = (const char *const *)environ;
    if (arguments == NULL) arguments = own;
    if (arguments[0] == NULL)
        return error_set(MR_INVALID, "the command line of workers (mr_options.worker) is empty: its first word is the "
                                     "program's name");
    size_t size = 1 + size_of(arguments) + size_of(variables);
    if (size > LAUNCH_SPEC_BYTES_MAX)
        return error_set(MR_TOO_LARGE,
                         "this program's arguments and environment take %zu bytes; a node accepts at most %d", size,
                         LAUNCH_SPEC_BYTES_MAX);
    void *bytes;
    MR_TRY(alloc_try(size, &bytes));
    writer writer = writer_of(bytes, size);
    writer_u8(&writer, copied);
    write_list(&writer, arguments);
    write_list(&writer, variables);
    *out = span_of(bytes, size);
    return MR_OK;
}

mr_status launch_spec_write(const char *const *arguments, bool copied, int *fd) {
    span bytes = {0};
    MR_TRY(encode(arguments, copied, &bytes));
    mr_status status = MR_OK;
    int made = sealed_memfd_create("miniray-recipe", bytes.size);
    if (made < 0) {
        status =
            error_errno("cannot pass the command line of workers (%zu bytes) to the node: memfd_create", bytes.size);
    } else if (pwrite(made, bytes.data, bytes.size, 0) != (ssize_t)bytes.size) {
        status = error_errno("cannot pass the command line of workers (%zu bytes) to the node", bytes.size);
        close(made);
    }
    free((void *)(uintptr_t)bytes.data);
    if (status == MR_OK) *fd = made;
    return status;
}

launch_spec *launch_spec_own(void) {
    launch_spec *spec = xcalloc(1, sizeof *spec);
    spec->executable_fd = spec->folder_fd = -1;
    spec->arguments = xcalloc(2, sizeof *spec->arguments);
    spec->arguments[0] = program_invocation_name;
    size_t count = count_of((const char *const *)environ);
    spec->environment = xcalloc(count + 1, sizeof *spec->environment);
    memcpy(spec->environment, environ, count * sizeof *environ);
    return spec;
}

/* Copies the texts to *to, each followed by a zero, for which the encoded length leaves room. */
static char **read_list(reader *reader, char **to) {
    uint32_t count = reader_u32(reader);
    if (count > LAUNCH_SPEC_BYTES_MAX / 4) reader->failed = true;
    char **list = reader->failed ? NULL : xcalloc((size_t)count + 1, sizeof *list);
    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        span text = reader_span32(reader);
        if (text.size > 0 && memchr(text.data, '\0', text.size) != NULL) reader->failed = true;
        if (reader->failed) break;
        memcpy(*to, text.data, text.size);
        (*to)[text.size] = '\0';
        list[i] = *to;
        *to += text.size + 1;
    }
    return list;
}

static int open_of(int pid, const char *what, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
    return open(path, O_PATH | O_CLOEXEC | flags);
}

bool launch_spec_is_foreign(const char *path) {
#if defined(__x86_64__)
    const uint16_t machine = EM_X86_64;
#elif defined(__aarch64__)
    const uint16_t machine = EM_AARCH64;
#else
    const uint16_t machine = EM_NONE;
#endif
    Elf64_Ehdr header;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool read_all = fd >= 0 && read(fd, &header, sizeof header) == (ssize_t)sizeof header;
    if (fd >= 0) close(fd);
    return read_all && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && machine != EM_NONE &&
           header.e_machine != machine;
}

static mr_status malformed(int pid, uint64_t size) {
    return error_set(MR_CORRUPT, "malformed command line of workers from process %d: %llu bytes, at most %d", pid,
                     (unsigned long long)size, LAUNCH_SPEC_BYTES_MAX);
}

mr_status launch_spec_read(int fd, int pid, launch_spec **out) {
    uint64_t size;
    void *bytes;
    if (!sealed_memfd_read_size(fd, &size))
        return error_set(MR_CORRUPT, "the command line of workers from process %d is not in a sealed memfd (fd %d)",
                         pid, fd);
    if (size > LAUNCH_SPEC_BYTES_MAX) return malformed(pid, size);
    MR_TRY(alloc_try((size_t)size + 1, &bytes));
    mr_status status = pread(fd, bytes, (size_t)size, 0) == (ssize_t)size
                           ? launch_spec_decode(span_of(bytes, (size_t)size), pid, out)
                           : error_errno("cannot read the command line of workers from process %d", pid);
    free(bytes);
    return status;
}

mr_status launch_spec_read_of(uint32_t number, int pid, launch_spec **out) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%u", pid, number);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_errno("cannot read the command line of workers: %s", path);
    mr_status status = launch_spec_read(fd, pid, out);
    close(fd);
    return status;
}

mr_status launch_spec_decode(span bytes, int pid, launch_spec **out) {
    size_t size = bytes.size;
    if (size > LAUNCH_SPEC_BYTES_MAX) return malformed(pid, size);
    reader fields = reader_of(bytes.data, size), *reader = &fields;
    launch_spec *spec = XNEW(struct launch_spec, .bytes = xcalloc(1, size + 1));
    char *to = spec->bytes, executable[64];
    snprintf(executable, sizeof executable, "/proc/%d/exe", pid);
    spec->emulated = launch_spec_is_foreign(executable);
    spec->executable_fd = open_of(pid, "exe", 0);
    spec->folder_fd = open_of(pid, "cwd", O_DIRECTORY);
    mr_status status = spec->executable_fd < 0 || spec->folder_fd < 0
                           ? error_errno("cannot open /proc/%d/exe or cwd, for workers of that program (gVisor forbids "
                                         "it without CAP_SYS_PTRACE)",
                                         pid)
                           : MR_OK;
    /* A directory that this user may not enter stays the workers' only if they inherit it, from a private node. */
    if (status == MR_OK && faccessat(spec->folder_fd, ".", X_OK, 0) != 0) {
        close(spec->folder_fd);
        spec->folder_fd = -1;
    }
    spec->copied = reader_u8(reader) != 0;
    spec->arguments = read_list(reader, &to);
    spec->environment = read_list(reader, &to);
    if (status == MR_OK && (reader->failed || spec->arguments[0] == NULL)) status = malformed(pid, size);
    if (status != MR_OK) {
        launch_spec_destroy(spec);
        return status;
    }
    *out = spec;
    return MR_OK;
}

void launch_spec_destroy(launch_spec *spec) {
    if (spec == NULL) return;
    if (spec->executable_fd >= 0) close(spec->executable_fd);
    if (spec->folder_fd >= 0) close(spec->folder_fd);
    free(spec->bytes);
    free(spec->arguments);
    free(spec->environment);
    free(spec);
}
