/* ps_token_test.c — who may use a parameter server at a tcp port of this machine: programs of the same user, unchanged;
 * others only with the token. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/user_dir.h"
#include "net/frame.h"
#include "net/socket/token.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/socket_end.h"
#include "tests/support/test_child.h"

enum { ANOTHER_USER = 65534, PATIENCE_MS = 60000, REFUSED_US = 700000 };

static ps_fixture begin(void) {
    ps_fixture fixture = {.tcp = true, .servers = 1, .workers = 1, .slots = 1, .copies = 1};
    unsetenv(TOKEN_VARIABLE);
    unsetenv("XDG_RUNTIME_DIR");
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    return fixture;
}

static token token_of(const char *folder) {
    char path[TEMP_DIR_FOLDER_MAX + 16];
    token token;
    snprintf(path, sizeof path, "%s/token", folder);
    assert_int_equal(token_read(path, &token), MR_OK);
    return token;
}

typedef struct visitor { /* how a program connects */
    const ps_fixture *fixture;
    const char *temporary; /* its TMPDIR; NULL: the usual one */
    const char *token_file;
    const char *refusal; /* part of the expected error; NULL: the program is served */
    bool another_user, by_dmlc;
} visitor;

static int serve(mr_ps *ps) {
    mr_ps_table *table;
    mr_ps_ticket ticket;
    uint64_t key = 7;
    float value = 1;
    TEST_CHILD_CHECK(mr_ps_table_create(ps, "rows", &MR_OPTIONS(mr_ps_table_options, .dim = 1), PS_FIXTURE_PATIENCE_US,
                                        &table) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_push(table, &key, 1, &value, NULL, NULL, &ticket) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_wait(ps, ticket, PS_FIXTURE_PATIENCE_US) == MR_OK);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    return 0;
}

static int visit(void *argument) {
    const visitor *visitor = argument;
    const char *address = visitor->fixture->address;
    char host[MR_PS_ADDRESS_MAX];
    mr_ps *ps;
    mr_ps_overview *overview;
    if (visitor->temporary != NULL) setenv("TMPDIR", visitor->temporary, 1);
    if (visitor->token_file != NULL) setenv(TOKEN_VARIABLE, visitor->token_file, 1);
    if (visitor->by_dmlc) {
        snprintf(host, sizeof host, "%s", address + strlen("tcp:"));
        setenv("DMLC_PS_ROOT_PORT", strrchr(host, ':') + 1, 1);
        *strrchr(host, ':') = '\0';
        setenv("DMLC_PS_ROOT_URI", host, 1);
        address = NULL;
    }
    if (visitor->another_user) TEST_CHILD_CHECK(setgid(ANOTHER_USER) == 0 && setuid(ANOTHER_USER) == 0);
    mr_status status = mr_ps_connect(address, 0, visitor->refusal == NULL ? PS_FIXTURE_PATIENCE_US : REFUSED_US, &ps);
    if (visitor->refusal == NULL && status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    if (visitor->refusal == NULL) return status == MR_OK ? serve(ps) : 1;
    TEST_CHILD_CHECK(status == MR_TIMEOUT);
    if (strstr(mr_last_error(), visitor->refusal) == NULL) fprintf(stderr, "%s\n", mr_last_error());
    TEST_CHILD_CHECK(strstr(mr_last_error(), visitor->refusal) != NULL);
    status = mr_ps_overview_get(address, REFUSED_US, &overview);
    TEST_CHILD_CHECK(status == MR_TIMEOUT && strstr(mr_last_error(), visitor->refusal) != NULL);
    return 0;
}

static void expect(visitor visitor) { assert_int_equal(test_child_run(visit, &visitor, PATIENCE_MS), 0); }

static void programs_of_the_same_user_need_nothing(void **state) {
    ps_fixture fixture = begin();
    expect((visitor){.fixture = &fixture});
    expect((visitor){.fixture = &fixture, .by_dmlc = true});
    assert_true(ps_fixture_fini(&fixture));
}

static void others_need_the_token(void **state) {
    ps_fixture fixture = begin();
    char elsewhere[TEMP_DIR_FOLDER_MAX], file[TEMP_DIR_FOLDER_MAX + 16], other[TEMP_DIR_FOLDER_MAX + 16];
    token token;
    assert_true(temp_dir_folder(elsewhere));
    expect((visitor){.fixture = &fixture, .temporary = elsewhere, .refusal = "no token for tcp:127.0.0.1:"});
    if (geteuid() == 0)
        expect((visitor){.fixture = &fixture, .another_user = true, .refusal = "no token for tcp:127.0.0.1:"});
    snprintf(file, sizeof file, "%s/token", fixture.folder);
    expect((visitor){.fixture = &fixture, .temporary = elsewhere, .token_file = file});
    if (geteuid() == 0) /* the token file of the scheduler's user */
        expect((visitor){.fixture = &fixture, .another_user = true, .token_file = file, .refusal = "token file"});
    snprintf(other, sizeof other, "%s/token", elsewhere);
    assert_int_equal(token_obtain(elsewhere, &token), MR_OK); /* of another deployment */
    expect((visitor){.fixture = &fixture, .token_file = other, .refusal = "does not have this process's token"});
    assert_int_equal(unlink(other), 0);
    assert_int_equal(rmdir(elsewhere), 0);
    assert_true(ps_fixture_fini(&fixture));
}

/* Valid frames of a process that proves nothing: the link ends, and the server goes on. */
static void frames_without_a_proof_are_not_read(void **state) {
    ps_fixture fixture = begin();
    static const uint8_t packet[64] = {'P', 'S', 'T', '1'};
    for (int hello = 0; hello < 2; hello++) {
        int fd = raw_connect(fixture.address);
        assert_true(fd >= 0);
        if (hello == 1) assert_true(raw_hello(fd) && raw_hello_answer(fd));
        assert_true(raw_frame(fd, FRAME_MESSAGE, span_of(packet, sizeof packet), 0));
        uint8_t bytes[1024];
        assert_true(raw_read_all(fd, bytes, sizeof bytes) > FRAME_HEADER_SIZE); /* BYE, and the end */
        close(fd);
    }
    expect((visitor){.fixture = &fixture});
    assert_true(ps_fixture_fini(&fixture));
}

static void a_folder_keeps_its_token(void **state) {
    ps_fixture fixture = begin();
    token first = token_of(fixture.folder);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    assert_true(ps_fixture_start_scheduler(&fixture));
    token second = token_of(fixture.folder);
    assert_memory_equal(&first, &second, sizeof first);
    expect((visitor){.fixture = &fixture});
    char dir[USER_DIR_MAX], copy[USER_DIR_MAX + ADDRESS_TEXT_MAX];
    assert_int_equal(user_dir_find(dir), MR_OK);
    snprintf(copy, sizeof copy, "%s/token-%s", dir, fixture.address + strlen("tcp:"));
    assert_int_equal(access(copy, F_OK), 0);
    assert_true(ps_fixture_fini(&fixture));
    assert_int_equal(access(copy, F_OK), -1); /* a scheduler that ends removes its copy */
}

static void other_machines_are_rejected(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    assert_true(temp_dir_folder(folder));
    const mr_ps_scheduler_options remote =
        MR_OPTIONS(mr_ps_scheduler_options, .listen = "tcp:0.0.0.0:0", .checkpoint_dir = folder, .num_workers = 1,
                   .num_servers = 1, .allow_remote = 1);
    assert_int_equal(mr_ps_run_scheduler(&remote), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "need TLS"));
    mr_ps_scheduler_options local = remote;
    local.allow_remote = 0;
    assert_int_equal(mr_ps_run_scheduler(&local), MR_DENIED);
    assert_non_null(strstr(mr_last_error(), "cannot listen on tcp:0.0.0.0:0: links to other machines need TLS"));
    assert_int_equal(mr_ps_run_server(&MR_OPTIONS(mr_ps_server_options, .scheduler = "unix:/x", .allow_remote = 1)),
                     MR_INVALID);
    assert_int_equal(mr_ps_run_server(&MR_OPTIONS(mr_ps_server_options, .scheduler = "tcp:192.0.2.1:7")), MR_DENIED);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_of_the_same_user_need_nothing),
        cmocka_unit_test(others_need_the_token),
        cmocka_unit_test(frames_without_a_proof_are_not_read),
        cmocka_unit_test(a_folder_keeps_its_token),
        cmocka_unit_test(other_machines_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
