/* broker_fixture.h — a broker in a test's own thread, and broker clients that record their events. */
#pragma once
#include "base/clock.h"
#include "net/shm/broker.h"
#include "net/shm/broker_client.h"
#include "tests/support/temp_dir.h"

enum { BROKER_FIXTURE_PATIENCE_US = 10 * 1000000, VISITOR_LINKS_MAX = 1024 };
#define VISITOR_GONE UINT32_MAX /* tag of a link whose peer has ended */

typedef struct broker_fixture {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 8];
    event_loop *loop; /* owned, like the broker */
    broker *broker;   /* NULL: not opened yet */
} broker_fixture;

/* creates a folder and an event loop; 0 on success */
int broker_fixture_build(broker_fixture *fixture);
/* opens the broker; fills in `path` and, if 0, `arena_bytes` */
mr_status broker_fixture_open(broker_fixture *fixture, const broker_options *options);
/* 0 if the folder was empty */
int broker_fixture_raze(broker_fixture *fixture);

typedef struct visitor { /* a broker client and the events it received */
    broker_client *client;
    int event_fd;                                /* owned */
    broker_client_link links[VISITOR_LINKS_MAX]; /* the latest links; number 0: removed */
    uint32_t link_count, refused_count, gone_count, resized_count, broker_gone_count;
    uint32_t refused_tag, gone_link, resized_link;
    extent resized;
    cause why;
    char join_text[256]; /* error text of a failed join */
} visitor;

/* Joins in a thread, since broker_client_join waits for the broker, while this thread runs the loop. */
mr_status broker_fixture_join(broker_fixture *fixture, visitor *visitor, const char *name);
mr_status visitor_join(visitor *visitor, const char *path, const char *name); /* for a broker in another process */
void visitor_leave(visitor *visitor);
void visitor_poll(visitor *visitor);
void visitor_wait(visitor *visitor, int64_t timeout_us); /* sleeps until the broker sends a message, then polls */

/* one turn of the loop, then one poll of every client */
void broker_fixture_pump(broker_fixture *fixture, visitor *visitors, size_t count);
/* the broker has no clients and no allocated memory */
bool broker_fixture_is_empty(broker_fixture *fixture);
size_t broker_fixture_fds(void); /* number of open descriptors of this process */

/* Runs the loop and the clients until the condition, which is evaluated repeatedly, holds; false after
 * BROKER_FIXTURE_PATIENCE_US. */
#define broker_fixture_until(fixture, visitors, count, condition)        \
    (__extension__({                                                     \
        int64_t until_ = clock_ns() / 1000 + BROKER_FIXTURE_PATIENCE_US; \
        bool held_;                                                      \
        while (!(held_ = (condition)) && clock_ns() / 1000 < until_)     \
            broker_fixture_pump((fixture), (visitors), (count));         \
        held_;                                                           \
    }))
