/* postoffice.h — common part of server and worker processes: a van (van.h), a process number, an incarnation.
 *
 *        (SEAT, but for a rank that it knows)   enrol at the coordinator
 *   opened ────────────────────────────► seated ────────────────────────► here: the host begins
 *
 * The scheduler is asked again and again; while it is away nothing happens, and nothing else is wrong. Batches of parts
 * go to the host, whatever it plays.
 *
 * Threads     that of its van's loop. */
#pragma once
#include "cluster/coordinator.h"
#include "kv/office/desk.h"
#include "kv/office/office.h"
#include "kv/van.h"

#define POSTOFFICE_ASK_US INT64_C(200000)
#define POSTOFFICE_ANY    UINT32_MAX /* a number is to be given to it */
/* When a server's log says that there is no scheduler, or no number for it, and how often. A worker is told so when it
 * has waited long enough. */
#define POSTOFFICE_ALONE_US INT64_C(3000000)
#define POSTOFFICE_AGAIN_US INT64_C(30000000)

typedef struct postoffice postoffice;

typedef struct postoffice_options {
    const char *scheduler; /* its address */
    const char *listen;    /* NULL: a free port of the loopback interface, or a socket beside the scheduler's */
    uint8_t role;          /* DESK_SERVER, DESK_WORKER */
    uint32_t number;       /* POSTOFFICE_ANY */
    bool beyond_this_machine;
    uint64_t shown; /* as of van_options */
    const env *env; /* likewise */
} postoffice_options;

typedef struct postoffice_host {
    void (*on_here)(void *context, uint64_t incarnation); /* postoffice_number is known; again after enrol_again */
    void (*on_full)(void *context);                       /* no number is free yet: it asks again; may be NULL */
    void (*take)(void *context, span batch, bale *bale);  /* as of van_host */
    void (*flush)(void *context);                         /* as of van_host; may be NULL */
    int64_t (*next_us)(void *context);
    void (*tick)(void *context, int64_t now_us);
    void (*describe)(void *context, standing *standing);      /* as of office_host */
    uint64_t (*count)(void *context, stock *stock);           /* as of office_host; may be NULL */
    void (*alone)(void *context);                             /* the link to the scheduler broke; may be NULL */
    void (*take_letter)(void *context, const letter *letter); /* that is nobody else's; may be NULL */
} postoffice_host;

/* The host and its context are borrowed for its life. The statuses are those of van_open. */
MR_MUST mr_status postoffice_open(const postoffice_options *options, const postoffice_host *host, void *context,
                                  postoffice **out);
void postoffice_close(postoffice *postoffice);

/* An earlier process of this number had `known` (ps/player.h, on_replaced): it takes another incarnation. */
void postoffice_enrol_again(postoffice *postoffice, uint64_t known);

office *postoffice_office(const postoffice *postoffice);
van *postoffice_van(const postoffice *postoffice);
uint32_t postoffice_number(const postoffice *postoffice); /* POSTOFFICE_ANY: not known yet */
uint64_t postoffice_breaks(const postoffice *postoffice); /* counts links that broke */
bool postoffice_heard(const postoffice *postoffice);      /* the scheduler has answered anything at all */
coordinator postoffice_coordinator(const postoffice *postoffice);
const char *postoffice_scheduler(const postoffice *postoffice);
const char *postoffice_depot(const postoffice *postoffice); /* its address */
