/* notes.h — app message RPC of a program: pending requests, retries, and duplicates that were handled already.
 *
 * A request goes straight to the process that it is for; where that is says the scheduler (WHO, board.h). It is sent
 * again until it is answered, and has a number, from this process to that one; the receiver keeps what it answered
 * until it hears that the sender has it. So while both live a request is handled once, however often it comes:
 *
 *   sender    asked ── WHO is it? ──► sent, again and again ── RESPONSE ──► over
 *                                      └── another process has its number, or it is not here any more: MR_PEER_DIED
 *   receiver  REQUEST ── new ──► handled ── mr_ps_respond ──► answered ── an `oldest` above it ──► forgotten
 *                     ├── answered: the same response again
 *                     └── nobody handles the app: MR_NOT_FOUND
 *
 * When the receiver dies nobody knows whether it was handled; it is never given to another process.
 *
 * Charts      A note bears the newest chart of its sender, and is heard by those only who know that one: so what it
 *             speaks of is there for whoever pulls because of it. Who does not will, when it is sent again.
 * Bounds      NOTES_CALLS_MAX calls that are not asked after; NOTES_WINDOW requests under way to one process, others
 *             wait; so many answers are kept for each sender.
 * Threads     that of its owner. Functions that are to be called (handlers, those that are told) are given out by
 *             notes_tell, and called by the caller. */
#pragma once
#include "base/list.h"
#include "kv/office/note.h"
#include "kv/office/standing.h"

enum { NOTES_CALLS_MAX = 4096, NOTES_WINDOW = 64, NOTES_APPS_MAX = 1024 };
#define NOTES_ASK_US       INT64_C(300000) /* where somebody is, and whether it lives */
#define NOTES_AGAIN_US     INT64_C(50000)  /* twice that after each further time */
#define NOTES_AGAIN_MAX_US INT64_C(1000000)
#define NOTES_EVERY        UINT32_MAX

typedef struct notes notes;

typedef struct notes_options {
    uint8_t role;
    const char *address, *scheduler; /* borrowed for its life */
    standing *standing;              /* likewise: what is said of this process */
    void (*send)(void *context, const char *address, const letter *letter);
    void *context;
} notes_options;

struct mr_ps_message { /* a request that somebody handles */
    list link;
    notes *notes; /* NULL: its process does not talk any more */
    void *owner;  /* as of notes_own */
    uint8_t role;
    uint32_t from;
    uint64_t incarnation, number;
    int32_t app, head;
    size_t size;
    uint8_t body[];
};

notes *notes_create(const notes_options *options);
void notes_destroy(notes *notes); /* nobody is told; messages that are not answered stay, for mr_ps_respond to free */
void notes_own(notes *notes, void *owner);

/* Who this is: nothing is said or heard before. */
void notes_begin(notes *notes, uint32_t number, uint64_t incarnation, int64_t now_us);
void notes_chart(notes *notes, uint64_t number); /* the newest that is known here */

mr_status notes_check_app(int32_t app); /* that a program may have: MR_INVALID */
/* Requests for this app are given to `handler`; NULL: to nobody any more. MR_TOO_LARGE: too many apps. */
MR_MUST mr_status notes_handle(notes *notes, int32_t app, mr_ps_handler_fn *handler, void *context);

typedef struct notes_call { /* what is asked, of whom */
    uint8_t roles;          /* one, or of NOTES_EVERY a sum */
    uint32_t number;
    int32_t app, head;
    span body;
    void (*done)(void *context, mr_status status); /* may be NULL */
    void *context;
    bool kept; /* somebody asks after it */
} notes_call;

/* MR_BUSY: there are too many. */
MR_MUST mr_status notes_send(notes *notes, const notes_call *call, int64_t now_us, uint64_t *ticket);
/* MR_BUSY: it is under way, and the error says what it waits for. MR_OK: it is over. MR_NOT_FOUND: no such call. */
mr_status notes_status(const notes *notes, uint64_t ticket);
/* Of one that is over: moved; it is forgotten here. */
mr_ps_responses *notes_collect(notes *notes, uint64_t ticket);

/* Of a handler: as standing_report_set. */
MR_MUST mr_status notes_report(notes *notes, const char *key, double value);
/* Moved: the message is freed. */
void notes_answer(notes *notes, mr_ps_message *message, mr_status status, int32_t head, span body);

/* False: not for it. */
bool notes_take(notes *notes, const letter *letter, int64_t now_us);
int64_t notes_next_us(const notes *notes);
void notes_tick(notes *notes, int64_t now_us);

/* The next function that is to be called, with these; false: none. A message that is given out is its receiver's. */
bool notes_tell(notes *notes, void (**function)(void *context, mr_status status), void **context, mr_status *status);
bool notes_has_told(const notes *notes); /* there is one */
void notes_call_handlers(notes *notes);  /* all of them */
