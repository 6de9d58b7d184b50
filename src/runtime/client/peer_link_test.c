/* peer_link_test.c — links to other processes: one for each, shared by its users, each of which is notified once. */
#include "runtime/client/peer_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

typedef struct fixture {
    peer_links links;
    env env;
    uint32_t opened;  /* number of links opened */
    char address[64]; /* address of the last link */
    bool refuses;
} fixture;

static mr_status open_link(void *self, const char *address, link_id *out) {
    fixture *fixture = self;
    if (fixture->refuses) return error_set(MR_BUSY, "no more links");
    snprintf(fixture->address, sizeof fixture->address, "%s", address);
    *out = (link_id){++fixture->opened};
    return MR_OK;
}

static void address_of(void *context, uint64_t process, char *out, size_t size) {
    snprintf(out, size, "to:%llu", (unsigned long long)process);
}

static void set_up(fixture *fixture) {
    static const transport_ops ops = {.name = "none", .open = open_link};
    memset(fixture, 0, sizeof *fixture);
    fixture->env.transport = (transport){&ops, fixture};
    peer_links_init(&fixture->links, &fixture->env, address_of, fixture);
}

typedef struct watcher {
    peer_link_user user;
    int opened, closed;
    bool unreachable;
    peer_link *link;
    struct watcher *leaves; /* user that leaves when this one is notified */
} watcher;

static void was_opened(peer_link_user *user) {
    watcher *watcher = container_of(user, struct watcher, user);
    watcher->opened++;
    if (watcher->leaves != NULL) peer_link_leave(&watcher->leaves->user);
}

static void was_closed(peer_link_user *user, const cause *why) {
    watcher *watcher = container_of(user, struct watcher, user);
    watcher->closed++;
    watcher->unreachable = peer_link_unreachable(watcher->link, why);
    if (watcher->leaves != NULL) peer_link_leave(&watcher->leaves->user);
}

static void use(fixture *fixture, watcher *watcher, uint64_t process) {
    *watcher = (struct watcher){.user = {.opened = was_opened, .closed = was_closed}};
    list_init(&watcher->user.place);
    assert_int_equal(peer_links_use(&fixture->links, process, &watcher->user, &watcher->link), MR_OK);
}

static void one_link_for_all_users_of_a_process(void **state) {
    fixture fixture;
    watcher a, b, other;
    set_up(&fixture);
    use(&fixture, &a, 7);
    use(&fixture, &b, 7);
    use(&fixture, &other, 8);
    assert_int_equal(fixture.opened, 2);
    assert_string_equal(fixture.address, "to:8");
    assert_ptr_equal(a.link, b.link);
    assert_false(a.link->open);
    peer_links_opened(&fixture.links, a.link->link);
    assert_true(a.opened == 1 && b.opened == 1 && other.opened == 0 && a.link->open);
    peer_links_opened(&fixture.links, (link_id){99}); /* a link that another process opened */
    cause why = {.status = MR_PEER_DIED};
    peer_links_closed(&fixture.links, a.link->link, &why);
    assert_true(a.closed == 1 && b.closed == 1 && other.closed == 0);
    use(&fixture, &a, 7); /* the link is closed: the next user opens another */
    assert_int_equal(fixture.opened, 3);
    peer_links_fini(&fixture.links);
}

static void a_process_that_left_is_not_notified(void **state) {
    fixture fixture;
    watcher a, b, c;
    set_up(&fixture);
    use(&fixture, &a, 7);
    use(&fixture, &b, 7);
    use(&fixture, &c, 7);
    a.leaves = &b; /* in the callback */
    peer_links_opened(&fixture.links, a.link->link);
    assert_true(a.opened == 1 && b.opened == 0 && c.opened == 1);
    a.leaves = &c;
    cause why = {.status = MR_CLOSED};
    peer_links_closed(&fixture.links, a.link->link, &why);
    assert_true(a.closed == 1 && b.closed == 0 && c.closed == 0);
    peer_links_fini(&fixture.links);
}

static void a_process_that_lives_may_be_out_of_reach(void **state) {
    fixture fixture;
    watcher a;
    set_up(&fixture);
    const struct {
        mr_status status;
        bool opens, unreachable;
    } cases[] = {
        {MR_BUSY, false, true}, {MR_DENIED, false, true}, {MR_BUSY, true, false}, {MR_PEER_DIED, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        use(&fixture, &a, 7);
        link_id link = a.link->link;
        if (cases[i].opens) peer_links_opened(&fixture.links, link);
        cause why = {.status = cases[i].status};
        peer_links_closed(&fixture.links, link, &why);
        assert_int_equal(a.unreachable, cases[i].unreachable);
    }
    fixture.refuses = true;
    peer_link *none = NULL;
    assert_int_equal(peer_links_use(&fixture.links, 7, &a.user, &none), MR_BUSY);
    assert_null(none);
    peer_links_fini(&fixture.links);
}

static void names_are_learnt_one_by_one(void **state) {
    fixture fixture;
    watcher a;
    set_up(&fixture);
    use(&fixture, &a, 7);
    peer_link_learn(a.link, 0); /* 0 is not a number of a name */
    peer_link_learn(a.link, 1);
    peer_link_learn(a.link, 64);
    peer_link_learn(a.link, NAME_TABLE_MAX);
    for (uint32_t i = 0; i <= NAME_TABLE_MAX; i++)
        assert_int_equal(peer_link_knows(a.link, i), i == 1 || i == 64 || i == NAME_TABLE_MAX);
    peer_links_fini(&fixture.links);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_link_for_all_users_of_a_process),
        cmocka_unit_test(a_process_that_left_is_not_notified),
        cmocka_unit_test(a_process_that_lives_may_be_out_of_reach),
        cmocka_unit_test(names_are_learnt_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
