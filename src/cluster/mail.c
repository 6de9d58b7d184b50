/* mail.c — see mail.h. */
#include "cluster/mail.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/map.h"

typedef struct kept {
    list of_box;
    size_t size;
    uint8_t bytes[];
} kept;

typedef struct box { /* one address */
    list of_mail;
    char address[MAIL_ADDRESS_MAX];
    link_id link; /* none: not even opening */
    bool open;
    int64_t retry_us; /* do not open before this */
    list letters;
    size_t letter_count;
} box;

struct mail {
    const env *env;
    const mail_handlers *handlers;
    void *context;
    list boxes;
    map by_link; /* link → box, for the links that were opened here */
};

mail *mail_create(const env *env, const mail_handlers *handlers, void *context) {
    mail *mail = xcalloc(1, sizeof *mail);
    mail->env = env;
    mail->handlers = handlers;
    mail->context = context;
    list_init(&mail->boxes);
    return mail;
}

static void lose_letters(box *box) {
    for (list *item; (item = list_pop_front(&box->letters)) != NULL;) free(container_of(item, kept, of_box));
    box->letter_count = 0;
}

static void destroy_box(box *box) {
    lose_letters(box);
    list_remove(&box->of_mail);
    free(box);
}

void mail_destroy(mail *mail) {
    while (!list_empty(&mail->boxes)) destroy_box(container_of(mail->boxes.next, box, of_mail));
    map_fini(&mail->by_link);
    free(mail);
}

static box *find_box(mail *mail, const char *address) {
    list_for_each (item, &mail->boxes) {
        box *box = container_of(item, struct box, of_mail);
        if (strcmp(box->address, address) == 0) return box;
    }
    return NULL;
}

static box *create_box(mail *mail, const char *address) {
    MR_ASSERT(strlen(address) < MAIL_ADDRESS_MAX);
    box *box = xcalloc(1, sizeof *box);
    strcpy(box->address, address);
    list_init(&box->letters);
    list_push_back(&mail->boxes, &box->of_mail);
    return box;
}

static void keep(box *box, span bytes) {
    if (box->letter_count == MAIL_KEPT) {
        free(container_of(list_pop_front(&box->letters), kept, of_box));
        box->letter_count--;
    }
    kept *kept = xmalloc(sizeof *kept + bytes.size);
    kept->size = bytes.size;
    memcpy(kept->bytes, bytes.data, bytes.size);
    list_push_back(&box->letters, &kept->of_box);
    box->letter_count++;
}

/* An address that cannot be opened now is one to which letters are lost now. */
static void open_box(mail *mail, box *box) {
    int64_t now_us = clock_now_us(mail->env->clock);
    transport transport = mail->env->transport;
    if (now_us < box->retry_us) return;
    box->retry_us = now_us + MAIL_RETRY_US;
    if (transport.ops->open(transport.self, box->address, &box->link) != MR_OK) {
        box->link.v = 0;
        return;
    }
    map_put(&mail->by_link, box->link.v, box);
}

void mail_send(mail *mail, const char *address, span bytes) {
    box *box = find_box(mail, address);
    if (box == NULL) box = create_box(mail, address);
    if (box->link.v == 0) open_box(mail, box);
    if (box->open)
        mail_answer(mail, box->link, bytes);
    else if (box->link.v != 0)
        keep(box, bytes);
}

/* Lost if the link is full or gone. */
void mail_answer(mail *mail, link_id link, span bytes) { (void)transport_send(mail->env->transport, link, bytes); }

void mail_forget(mail *mail, const char *address) {
    box *box = find_box(mail, address);
    if (box == NULL) return;
    transport transport = mail->env->transport;
    if (box->link.v != 0) {
        map_remove(&mail->by_link, box->link.v);
        transport.ops->close(transport.self, box->link);
    }
    destroy_box(box);
}

/* ---- Events. */

static void on_open(void *context, link_id link, const peer *peer) {
    mail *mail = context;
    box *box = map_get(&mail->by_link, link.v);
    if (box == NULL) return; /* opened by the other side: for its letters, and our answers */
    box->open = true;
    list_for_each (item, &box->letters) {
        const kept *kept = container_of(item, struct kept, of_box);
        mail_answer(mail, link, span_of(kept->bytes, kept->size));
    }
    lose_letters(box);
}

static void on_message(void *context, link_id link, const message *message) {
    mail *mail = context;
    mail->handlers->on_letter(mail->context, link, message->head);
}

static void *on_body(void *context, link_id link, span head, uint64_t size) { return NULL; } /* letters have none */
static void on_room(void *context, link_id link) {}

static void on_closed(void *context, link_id link, const cause *why) {
    mail *mail = context;
    box *box = map_remove(&mail->by_link, link.v);
    if (box == NULL) return;
    box->link.v = 0;
    box->open = false;
    lose_letters(box);
    char address[MAIL_ADDRESS_MAX]; /* a copy: the handler may forget the box */
    memcpy(address, box->address, sizeof address);
    if (mail->handlers->on_broken != NULL) mail->handlers->on_broken(mail->context, address, why);
}

const transport_events mail_events = {on_open, on_message, on_body, on_room, on_closed};
