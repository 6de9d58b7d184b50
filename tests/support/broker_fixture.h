/* broker_fixture.h — a broker in a test's own thread, and guests that write down what they are told. */
#pragma once
#include "base/clock.h"
#include "net/shm/broker.h"
#include "net/shm/broker_client.h"
#include "tests/support/temp_dir.h"

enum { BROKER_FIXTURE_PATIENCE_US = 10 * 1000000, VISITOR_LINKS_MAX = 1024 };
#define VISITOR_GONE UINT32_MAX /* the tag of a link whose other side is gone */

typedef struct broker_fixture {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 8];
    event_loop *loop; /* owned, like the broker */
    broker *broker;   /* NULL: none yet */
} broker_fixture;

/* a folder and a loop; 0 if it worked */
int broker_fixture_build(broker_fixture *fixture);
/* the broker; path and, if 0, arena_bytes are filled in */
mr_status broker_fixture_open(broker_fixture *fixture, const broker_options *options);
/* 0 if nothing was left in the folder */
int broker_fixture_raze(broker_fixture *fixture);

typedef struct visitor { /* a guest and everything it was told */
    broker_client *client;
    int event_fd;                                /* owned */
    broker_client_link links[VISITOR_LINKS_MAX]; /* the last ones; number 0: forgotten */
    uint32_t link_count, refused_count, gone_count, resized_count, broker_gone_count;
    uint32_t refused_tag, gone_link, resized_link;
    extent resized;
    cause why;
    char join_text[256]; /* why joining failed */
} visitor;

/* broker_client_join waits for the broker, so it runs in a thread while this one runs the loop. */
mr_status broker_fixture_join(broker_fixture *fixture, visitor *visitor, const char *name);
mr_status visitor_join(visitor *visitor, const char *path, const char *name); /* where the broker is elsewhere */
void visitor_leave(visitor *visitor);
void visitor_poll(visitor *visitor);
void visitor_wait(visitor *visitor, int64_t timeout_us); /* sleeps until the broker says something, then polls */

/* the loop once, then every guest once */
void broker_fixture_pump(broker_fixture *fixture, visitor *visitors, size_t count);
/* nobody there, nothing handed out */
bool broker_fixture_is_empty(broker_fixture *fixture);
size_t broker_fixture_fds(void); /* how many descriptors this process keeps */

/* Runs everybody until it is so; false after BROKER_FIXTURE_PATIENCE_US. The condition is evaluated again and again. */
#define broker_fixture_until(house, visitors, count, condition)          \
    (__extension__({                                                     \
        int64_t until_ = clock_ns() / 1000 + BROKER_FIXTURE_PATIENCE_US; \
        bool held_;                                                      \
        while (!(held_ = (condition)) && clock_ns() / 1000 < until_)     \
            broker_fixture_pump((house), (visitors), (count));           \
        held_;                                                           \
    }))
