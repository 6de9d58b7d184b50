/* mail.h — best-effort sender of control messages, one connection per address; a message is lost when its connection
 * fails.
 *
 * One link per address, opened when something is to be sent and opened again (not at once) after it broke. A letter is
 * sent, or kept for a moment while the link opens, or lost: callers that need an answer retry. So protocols above say
 * what they want to say now and then, and never deal with links. Answers go back over the link on which a letter came.
 *
 * A small letter is the head of a message. A large one is its body: it is sent from the pieces in which it lies, which
 * are borrowed until they have left, and received straight into a bale (base/bale.h).
 *
 *   mail_send ─────── at most MAIL_SMALL bytes ──► head ──► on_letter
 *   mail_send_pieces ── more ──► body ── its size is checked ──► a bale ──► on_bale
 *
 * Invariants (mail_check)
 *   1  Letters wait only while their link opens, MAIL_KEPT of an address at most.
 *   2  A link that was opened here leads to its address and back; one that is open was opened.
 *
 * Bounds      MAIL_KEPT letters per address while its link opens; the oldest is lost first. MAIL_LETTER_MAX bytes of a
 *             letter: the sender of a larger one loses its link. Where there is no memory for one it is lost.
 * Threads     none; driven by its transport's events. */
#pragma once
#include "base/bale.h"
#include "net/env.h"

enum { MAIL_KEPT = 4, MAIL_ADDRESS_MAX = 64, MAIL_SMALL = 4096, MAIL_LETTER_MAX = (64 << 20) + (64 << 10) };
#define MAIL_RETRY_US INT64_C(100000) /* after a link broke or could not be opened */

typedef struct mail mail;

typedef struct mail_handlers {
    void (*on_letter)(void *context, link_id link, span bytes);
    void (*on_broken)(void *context, const char *address, const cause *why); /* the link to it; may be NULL */
    void (*on_bale)(void *context, link_id link, bale *bale); /* a large letter; NULL: those are refused */
} mail_handlers;

mail *mail_create(const env *env, const mail_handlers *handlers, void *context); /* all borrowed for its life */
void mail_destroy(mail *mail); /* the links stay with the transport, which closes with its process */

extern const transport_events mail_events; /* for the transport; the context is the mail object */

void mail_send(mail *mail, const char *address, span bytes); /* at most MESSAGE_HEAD_MAX bytes */
/* A letter of any size up to MAIL_LETTER_MAX. The bytes are borrowed until `sent` is called, exactly once: they have
 * left, or are lost. The list is borrowed for the call. */
void mail_send_pieces(mail *mail, const char *address, const span *pieces, size_t count, body_sent_fn *sent,
                      void *argument);
/* Of a letter that was sent with `argument` and waits for its link: what lies within `from` lies at `to` from now on,
 * the same bytes. Nowhere: then it is lost. What waits in a link is the transport's. */
void mail_move_pieces(mail *mail, const void *argument, span from, span to);
void mail_answer(mail *mail, link_id link, span bytes);
link_id mail_link(const mail *mail, const char *address); /* that is open to it; none: v == 0 */
void mail_forget(mail *mail, const char *address);        /* closes the link to it; no-op if there is none */

void mail_check(const mail *mail); /* asserts the invariants above (base/invariants.h) */
