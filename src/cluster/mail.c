/* mail.c — see mail.h. */
#include "cluster/mail.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/invariants.h"
#include "base/list.h"
#include "base/map.h"

typedef struct kept { /* a letter that waits for its link */
    list of_box;
    body_sent_fn *sent; /* NULL: the bytes are its own, and follow it */
    void *argument;
    size_t count;
    span pieces[];
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
    box *last;    /* that was written to; NULL: none, or it is gone */
    map by_link;  /* link → box, for the links that were opened here */
    map arriving; /* link → bale, owned: a large letter that is coming */
};

mail *mail_create(const env *env, const mail_handlers *handlers, void *context) {
    mail *mail = xcalloc(1, sizeof *mail);
    mail->env = env;
    mail->handlers = handlers;
    mail->context = context;
    list_init(&mail->boxes);
    return mail;
}

/* The oldest, of one or more. */
static kept *take_letter(box *box) {
    MR_ASSERT(box->letter_count > 0);
    kept *kept = container_of(box->letters.next, struct kept, of_box);
    list_remove(&kept->of_box);
    box->letter_count--;
    return kept;
}

static void lose(kept *kept) {
    if (kept->sent != NULL) kept->sent(kept->argument, MR_CLOSED);
    free(kept);
}

static void lose_letter(box *box) { lose(take_letter(box)); }

static void lose_letters(box *box) {
    while (!list_empty(&box->letters)) lose_letter(box);
}

static void destroy_box(mail *mail, box *box) {
    if (mail->last == box) mail->last = NULL;
    lose_letters(box);
    list_remove(&box->of_mail);
    free(box);
}

void mail_destroy(mail *mail) {
    while (!list_empty(&mail->boxes)) destroy_box(mail, container_of(mail->boxes.next, box, of_mail));
    map_fini(&mail->by_link);
    map_for_each (slot, &mail->arriving) bale_unref(slot.value);
    map_fini(&mail->arriving);
    free(mail);
}

static box *find_box(const mail *mail, const char *address) {
    list_for_each (item, &mail->boxes) {
        box *box = container_of(item, struct box, of_mail);
        if (strcmp(box->address, address) == 0) return box;
    }
    return NULL;
}

static box *create_box(mail *mail, const char *address) {
    MR_ASSERT(strlen(address) < MAIL_ADDRESS_MAX && find_box(mail, address) == NULL);
    box *box = xcalloc(1, sizeof *box);
    strcpy(box->address, address);
    list_init(&box->letters);
    list_push_back(&mail->boxes, &box->of_mail);
    return box;
}

static kept *keep(box *box, size_t count, size_t room) {
    MR_ASSERT(!box->open && box->link.v != 0 && box->letter_count <= MAIL_KEPT); /* its link opens */
    if (box->letter_count == MAIL_KEPT) lose_letter(box);
    kept *kept = xcalloc(1, sizeof *kept + count * sizeof *kept->pieces + room);
    kept->count = count;
    list_push_back(&box->letters, &kept->of_box);
    box->letter_count++;
    return kept;
}

static void keep_copy(box *box, span bytes) {
    kept *kept = keep(box, 1, bytes.size);
    kept->pieces[0] = span_of(memcpy(kept->pieces + 1, bytes.data, bytes.size), bytes.size);
}

static void keep_pieces(box *box, const span *pieces, size_t count, body_sent_fn *sent, void *argument) {
    kept *kept = keep(box, count, 0);
    memcpy(kept->pieces, pieces, count * sizeof *pieces);
    kept->sent = sent;
    kept->argument = argument;
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

/* The box of an address, with a link that is open or opens; NULL: there is none now. Most letters go where the one
 * before them went. */
static box *box_for(mail *mail, const char *address) {
    box *box = mail->last;
    if (box == NULL || strcmp(box->address, address) != 0) box = find_box(mail, address);
    if (box == NULL) box = create_box(mail, address);
    mail->last = box;
    if (box->link.v == 0) open_box(mail, box);
    return box->link.v == 0 ? NULL : box;
}

/* Lost if the link is full or gone. */
static void send_pieces(mail *mail, link_id link, const span *pieces, size_t count, body_sent_fn *sent,
                        void *argument) {
    transport transport = mail->env->transport;
    size_t size = 0;
    uint8_t *place;
    for (size_t i = 0; i < count; i++) size += pieces[i].size;
    MR_ASSERT(size <= MAIL_LETTER_MAX);
    bool large = size > MAIL_SMALL;
    mr_status status = transport.ops->reserve(transport.self, link, large ? 0 : size, &place);
    if (status == MR_OK && large) {
        transport.ops->commit_pieces(transport.self, link, 0, pieces, count, sent, argument);
        return;
    }
    if (status == MR_OK) {
        for (size_t i = 0; i < count; place += pieces[i++].size) memcpy(place, pieces[i].data, pieces[i].size);
        transport.ops->commit(transport.self, link, size);
    }
    sent(argument, status);
}

void mail_send(mail *mail, const char *address, span bytes) {
    box *box = box_for(mail, address);
    if (box != NULL && box->open)
        mail_answer(mail, box->link, bytes);
    else if (box != NULL)
        keep_copy(box, bytes);
}

void mail_send_pieces(mail *mail, const char *address, const span *pieces, size_t count, body_sent_fn *sent,
                      void *argument) {
    box *box = box_for(mail, address);
    if (box == NULL)
        sent(argument, MR_CLOSED);
    else if (box->open)
        send_pieces(mail, box->link, pieces, count, sent, argument);
    else
        keep_pieces(box, pieces, count, sent, argument);
}

static bool move_pieces(kept *kept, span from, span to) {
    bool found = false;
    for (size_t i = 0; i < kept->count; i++) {
        const uint8_t *data = kept->pieces[i].data;
        if (kept->pieces[i].size == 0 || data < from.data || data >= from.data + from.size) continue;
        if (to.size != 0) kept->pieces[i].data = to.data + (data - from.data);
        found = true;
    }
    return found;
}

static void move_in_box(box *box, const void *argument, span from, span to) {
    list_for_each (item, &box->letters) {
        kept *kept = container_of(item, struct kept, of_box);
        if (kept->sent == NULL || kept->argument != argument || !move_pieces(kept, from, to) || to.size != 0) continue;
        list_remove(&kept->of_box);
        box->letter_count--;
        lose(kept);
    }
}

void mail_move_pieces(mail *mail, const void *argument, span from, span to) {
    list_for_each (item, &mail->boxes) move_in_box(container_of(item, box, of_mail), argument, from, to);
}

/* Lost if the link is full or gone. It goes now: whoever writes letters puts into one what is to go together. */
void mail_answer(mail *mail, link_id link, span bytes) { (void)transport_send_now(mail->env->transport, link, bytes); }

link_id mail_link(const mail *mail, const char *address) {
    const box *box = find_box(mail, address);
    return box == NULL || !box->open ? (link_id){0} : box->link;
}

void mail_forget(mail *mail, const char *address) {
    box *box = find_box(mail, address);
    if (box == NULL) return;
    transport transport = mail->env->transport;
    if (box->link.v != 0) {
        map_remove(&mail->by_link, box->link.v);
        transport.ops->close(transport.self, box->link);
    }
    destroy_box(mail, box);
}

/* ---- Events. */

static void on_open(void *context, link_id link, const peer *peer) {
    mail *mail = context;
    box *box = map_get(&mail->by_link, link.v);
    if (box == NULL) return; /* opened by the other side: for its letters, and our answers */
    box->open = true;
    while (!list_empty(&box->letters)) {
        kept *kept = take_letter(box);
        if (kept->sent != NULL)
            send_pieces(mail, link, kept->pieces, kept->count, kept->sent, kept->argument);
        else
            mail_answer(mail, link, kept->pieces[0]);
        free(kept);
    }
    CHECK_INVARIANTS(mail->by_link.count, mail_check(mail));
}

static void on_message(void *context, link_id link, const message *message) {
    mail *mail = context;
    bale *bale = mail->arriving.count == 0 ? NULL : map_remove(&mail->arriving, link.v);
    if (bale != NULL)
        mail->handlers->on_bale(mail->context, link, bale);
    else if (message->body.size == 0)
        mail->handlers->on_letter(mail->context, link, message->head);
    bale_unref(bale);
}

static void *on_body(void *context, link_id link, span head, uint64_t size) {
    mail *mail = context;
    if (mail->handlers->on_bale == NULL || size > MAIL_LETTER_MAX) return NULL;
    bale *bale = NULL;
    if (bale_resize(&bale, (size_t)size) != MR_OK) return BODY_DISCARD;
    map_put(&mail->arriving, link.v, bale);
    return bale_room(bale);
}

void mail_check(const mail *mail) {
    size_t linked = 0, lasts = 0;
    list_for_each (item, &mail->boxes) {
        const box *box = container_of(item, struct box, of_mail);
        size_t letters = 0;
        list_for_each (letter, &box->letters) letters++;
        MR_ASSERT(letters == box->letter_count && letters <= MAIL_KEPT);                        /* 1 */
        MR_ASSERT(letters == 0 || (box->link.v != 0 && !box->open));                            /* 1 */
        MR_ASSERT(box->link.v == 0 ? !box->open : map_get(&mail->by_link, box->link.v) == box); /* 2 */
        linked += box->link.v != 0;
        lasts += box == mail->last;
    }
    MR_ASSERT(linked == mail->by_link.count && lasts == (mail->last != NULL)); /* 2 */
}

static void on_room(void *context, link_id link) {}

static void on_closed(void *context, link_id link, const cause *why) {
    mail *mail = context;
    bale_unref(map_remove(&mail->arriving, link.v));
    box *box = map_remove(&mail->by_link, link.v);
    if (box == NULL) return;
    box->link.v = 0;
    box->open = false;
    lose_letters(box);
    CHECK_INVARIANTS(mail->by_link.count, mail_check(mail));
    char address[MAIL_ADDRESS_MAX]; /* a copy: the handler may forget the box */
    memcpy(address, box->address, sizeof address);
    if (mail->handlers->on_broken != NULL) mail->handlers->on_broken(mail->context, address, why);
}

const transport_events mail_events = {on_open, on_message, on_body, on_room, on_closed};
