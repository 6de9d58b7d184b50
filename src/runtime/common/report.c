/* report.c — see report.h. */
#include "runtime/common/report.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/slab.h"

#define PLACE_MAX ((UINT64_C(1) << SLAB_INDEX_BITS) - 1)
enum { CHUNK_BYTES = 16 * 1024, ALIGN = 16 };

typedef struct chunk {
    list place;
    size_t used;
    _Alignas(ALIGN) uint8_t bytes[];
} chunk;

void report_init(report *report) {
    list_init(&report->chunks);
    report->left = 0;
}

void report_fini(report *report) {
    for (list *at; (at = list_pop_front(&report->chunks)) != NULL;) free(container_of(at, chunk, place));
}

void *report_alloc(report *report, size_t size) {
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (size > report->left) {
        size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        chunk *made = xmalloc(sizeof *made + room);
        made->used = 0;
        list_push_front(&report->chunks, &made->place);
        report->left = room;
    }
    chunk *newest = container_of(report->chunks.next, chunk, place);
    void *memory = newest->bytes + newest->used;
    newest->used += size;
    report->left -= size;
    return memory;
}

mr_arg report_copy(report *report, span text) {
    char *copy = report_alloc(report, text.size + 1);
    if (text.size > 0) memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return mr_text(copy, text.size);
}

mr_arg report_text(report *report, const char *format, ...) {
    va_list list;
    va_start(list, format);
    char text[1024];
    int size = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    size_t used = size < 0 ? 0 : (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    return report_copy(report, span_of(text, used));
}

mr_arg report_map(report *report, const report_pair *pairs, size_t count) {
    mr_arg *items = report_alloc(report, 2 * count * sizeof *items);
    for (size_t i = 0; i < count; i++) {
        items[2 * i] = mr_str(pairs[i].key);
        items[2 * i + 1] = pairs[i].value;
    }
    return mr_map(items, count);
}

bool report_wants(report_list *list) {
    list->total++;
    return list->count < list->limit;
}

void report_add(report *report, report_list *list, mr_arg item) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        mr_arg *items = report_alloc(report, capacity * sizeof *items);
        if (list->count > 0) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

mr_arg report_list_arg(const report_list *list) { return mr_list(list->items, list->count); }

/* ---- Ids. */

void report_id_write(const report_id *id, char out[REPORT_ID_MAX]) {
    char letter = id->letter;
    if (letter == 'p') {
        snprintf(out, REPORT_ID_MAX, "p%u", id->process);
        return;
    }
    if (letter == 'a') {
        snprintf(out, REPORT_ID_MAX, "a%u:%llu", id->process, (unsigned long long)id->serial);
        return;
    }
    unsigned place = (unsigned)(id->serial & PLACE_MAX);
    uint64_t uses = id->serial >> SLAB_INDEX_BITS;
    int size = snprintf(out, REPORT_ID_MAX, "%c%u:%u", letter, id->process, place);
    if (uses != 1) snprintf(out + size, REPORT_ID_MAX - (size_t)size, ".%llu", (unsigned long long)uses);
}

mr_arg report_id_arg(report *report, char letter, uint64_t process, uint64_t serial) {
    char text[REPORT_ID_MAX];
    report_id_write(&(report_id){.letter = letter, .process = REPORT_PROCESS(process), .serial = serial}, text);
    return report_text(report, "%s", text);
}

/* Parses digits without sign or space: exactly the printed form. */
static bool number(const char **text, uint64_t most, uint64_t *out) {
    uint64_t value = 0;
    const char *at = *text;
    for (; isdigit((unsigned char)*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (most - digit) / 10) return false;
        value = value * 10 + digit;
    }
    if (at == *text) return false;
    *text = at;
    *out = value;
    return true;
}

/* Parses the part after the colon. */
static bool parse_serial(const char **text, char letter, uint64_t *out) {
    uint64_t place, uses = 1;
    if (letter == 'a') return number(text, UINT64_MAX, out);
    if (!number(text, PLACE_MAX, &place)) return false;
    if (**text == '.') {
        (*text)++;
        if (!number(text, UINT64_MAX >> SLAB_INDEX_BITS, &uses)) return false;
    }
    *out = uses << SLAB_INDEX_BITS | place;
    return true;
}

bool report_id_parse(const char *text, report_id *out) {
    report_id id = {.letter = *text};
    uint64_t process;
    if (*text == '\0' || strchr("ptcoa", *text) == NULL) return false;
    text++;
    if (!number(&text, UINT32_MAX, &process)) return false;
    id.process = (uint32_t)process;
    if (id.letter != 'p' && (*text++ != ':' || !parse_serial(&text, id.letter, &id.serial))) return false;
    if (*text != '\0') return false;
    *out = id;
    return true;
}
