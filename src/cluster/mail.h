/* mail.h — letters to addresses, as well as it goes.
 *
 * One link per address, opened when something is to be sent and opened again (not at once) after it broke. A letter is
 * sent, or kept for a moment while the link opens, or lost: whoever needs an answer asks again. So protocols above say
 * what they want to say now and then, and never deal with links. Answers go back over the link on which a letter came.
 *
 * Bounds      MAIL_KEPT letters per address while its link opens; the oldest is lost first.
 * Threads     none; driven by its transport's events. */
#pragma once
#include "net/env.h"

enum { MAIL_KEPT = 4, MAIL_ADDRESS_MAX = 64 };
#define MAIL_RETRY_US INT64_C(100000) /* after a link broke or could not be opened */

typedef struct mail mail;

typedef struct mail_handlers {
    void (*on_letter)(void *context, link_id link, span bytes);
    void (*on_broken)(void *context, const char *address, const cause *why); /* the link to it; may be NULL */
} mail_handlers;

mail *mail_create(const env *env, const mail_handlers *handlers, void *context); /* all borrowed for its life */
void mail_destroy(mail *mail); /* the links stay with the transport, which closes with its process */

extern const transport_events mail_events; /* for the transport; the context is the mail object */

void mail_send(mail *mail, const char *address, span bytes);
void mail_answer(mail *mail, link_id link, span bytes);
void mail_forget(mail *mail, const char *address); /* closes the link to it; no-op if there is none */
