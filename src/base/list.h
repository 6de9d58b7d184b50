/* list.h — intrusive doubly linked lists: the links are fields of the items, and nothing is allocated.
 *
 * A head must be initialized with list_init before its first use, and so must the link of an item that is not in a
 * list. A removed item points at itself: list_empty(&item->link) is then true, and removing the item again has no
 * effect. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct list { /* a head, or the link inside an item */
    struct list *next, *prev;
} list;

#define container_of(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

static inline void list_init(list *head) { head->next = head->prev = head; }
static inline bool list_empty(const list *head) { return head->next == head; }
static inline void list_insert_before(list *place, list *item) {
    item->prev = place->prev;
    item->next = place;
    place->prev->next = item;
    place->prev = item;
}
static inline void list_push_back(list *head, list *item) { list_insert_before(head, item); }
static inline void list_push_front(list *head, list *item) { list_insert_before(head->next, item); }
static inline void list_remove(list *item) {
    item->prev->next = item->next;
    item->next->prev = item->prev;
    list_init(item);
}
static inline list *list_pop_front(list *head) { /* NULL if empty */
    list *item = head->next;
    if (item == head) return NULL;
    list_remove(item);
    return item;
}
/* The loop body may remove and free the current item, and no other one. */
#define list_for_each(at, head) \
    for (list *at = (head)->next, *next_##at = at->next; at != (head); at = next_##at, next_##at = at->next)

/* The same loop over items of `type` with the link `field`. */
#define list_for_each_item(item, head, type, field)                             \
    for (type *item = LIST_ITEM((head)->next, head, type, field), *next_##item; \
         item != NULL && (next_##item = LIST_ITEM(item->field.next, head, type, field), true); item = next_##item)
#define LIST_ITEM(link, head, type, field) ((link) == (head) ? NULL : container_of(link, type, field))
