/* house.h — a hub in a test's own thread, and guests that write down what they are told. */
#pragma once
#include "base/clock.h"
#include "net/shm/guest.h"
#include "net/shm/hub.h"
#include "tests/support/temp.h"

enum { HOUSE_PATIENCE_US = 10 * 1000000, VISITOR_LINKS_MAX = 1024 };
#define VISITOR_GONE UINT32_MAX /* the tag of a link whose other side is gone */

typedef struct house {
    char folder[TEMP_FOLDER_MAX], path[TEMP_FOLDER_MAX + 8];
    loop *loop; /* owned, like the hub */
    hub *hub;   /* NULL: none yet */
} house;

int house_build(house *house);                                  /* a folder and a loop; 0 if it worked */
mr_status house_open(house *house, const hub_options *options); /* the hub; path and, if 0, arena_bytes are filled in */
int house_raze(house *house);                                   /* 0 if nothing was left in the folder */

typedef struct visitor { /* a guest and everything it was told */
    guest *guest;
    int event_fd;                        /* owned */
    guest_link links[VISITOR_LINKS_MAX]; /* the last ones; number 0: forgotten */
    uint32_t link_count, refused_count, gone_count, resized_count, hub_gone_count;
    uint32_t refused_tag, gone_link, resized_link;
    extent resized;
    cause why;
    char join_text[256]; /* why joining failed */
} visitor;

/* guest_join waits for the hub, so it runs in a thread while this one runs the loop. */
mr_status house_join(house *house, visitor *visitor, const char *name);
mr_status visitor_join(visitor *visitor, const char *path, const char *name); /* where the hub is elsewhere */
void visitor_leave(visitor *visitor);
void visitor_poll(visitor *visitor);
void visitor_wait(visitor *visitor, int64_t timeout_us); /* sleeps until the hub says something, then polls */

void house_pump(house *house, visitor *visitors, size_t count); /* the loop once, then every guest once */
bool house_is_empty(house *house);                              /* nobody there, nothing handed out */
size_t house_fds(void);                                         /* how many descriptors this process keeps */

/* Runs everybody until it is so; false after HOUSE_PATIENCE_US. The condition is evaluated again and again. */
#define house_until(house, visitors, count, condition)                                                         \
    (__extension__({                                                                                           \
        int64_t until_ = clock_ns() / 1000 + HOUSE_PATIENCE_US;                                                \
        bool held_;                                                                                            \
        while (!(held_ = (condition)) && clock_ns() / 1000 < until_) house_pump((house), (visitors), (count)); \
        held_;                                                                                                 \
    }))
