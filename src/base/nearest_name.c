/* nearest_name.c — see nearest_name.h. */
#include "base/nearest_name.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "miniray/status.h"

/* A missing letter is likelier than a wrong one: "adm" is "adam" rather than "add". */
enum { MISSING = 2, WRONG = 3 };
enum { PART_MIN = 3 }; /* a shorter begin or end says too little */

static uint8_t folded(uint8_t letter) {
    if (letter >= 'A' && letter <= 'Z') return (uint8_t)(letter - 'A' + 'a');
    return letter == '-' ? '_' : letter;
}

static bool same(span a, size_t i, span b, size_t j) { return folded(a.data[i]) == folded(b.data[j]); }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The cost of the changes between two names of at most NEAREST_NAME_MAX letters: a table of their begins, of which
 * three rows are kept. */
static size_t cost_between(span a, span b) {
    size_t rows[3][NEAREST_NAME_MAX + 1];
    for (size_t j = 0; j <= b.size; j++) rows[0][j] = j * MISSING;
    for (size_t i = 1; i <= a.size; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *over = rows[(i + 1) % 3];
        row[0] = i * MISSING;
        for (size_t j = 1; j <= b.size; j++) {
            row[j] = least(above[j], row[j - 1]) + MISSING;
            row[j] = least(row[j], above[j - 1] + (same(a, i - 1, b, j - 1) ? 0 : WRONG));
            if (i > 1 && j > 1 && same(a, i - 1, b, j - 2) && same(a, i - 2, b, j - 1))
                row[j] = least(row[j], over[j - 2] + MISSING);
        }
    }
    return rows[a.size % 3][b.size];
}

/* Whether the shorter name is the begin or the end of the longer one. */
static bool is_part(span shorter, span longer) {
    bool begins = true, ends = true;
    for (size_t i = 0; i < shorter.size; i++) {
        begins = begins && same(shorter, i, longer, i);
        ends = ends && same(shorter, i, longer, longer.size - shorter.size + i);
    }
    return shorter.size >= PART_MIN && (begins || ends);
}

nearest_name nearest_name_of(span given) { return (nearest_name){.given = given, .cost = SIZE_MAX}; }

void nearest_name_offer(nearest_name *nearest, span known) {
    span given = nearest->given;
    if (given.size == 0 || known.size == 0 || given.size > NEAREST_NAME_MAX || known.size > NEAREST_NAME_MAX) return;
    span shorter = given.size < known.size ? given : known, longer = given.size < known.size ? known : given;
    size_t most = shorter.size == 1 ? MISSING : (shorter.size + 2) / 3 * WRONG, cost = cost_between(given, known);
    if (cost > most && is_part(shorter, longer)) cost = most; /* after names with fewer changes */
    if (cost > most || cost >= nearest->cost) return;
    nearest->best = known;
    nearest->cost = cost;
}

void nearest_name_offer_text(nearest_name *nearest, const char *known) {
    nearest_name_offer(nearest, span_of(known, strlen(known)));
}

const char *nearest_name_hint(const nearest_name *nearest, char out[NEAREST_NAME_HINT_MAX]) {
    out[0] = '\0';
    if (nearest->best.data != NULL)
        snprintf(out, NEAREST_NAME_HINT_MAX, "; did you mean %.*s?", (int)nearest->best.size,
                 (const char *)nearest->best.data);
    return out;
}

const char *nearest_name_among(const char *given, const char *names, char out[NEAREST_NAME_HINT_MAX]) {
    nearest_name nearest = nearest_name_of(span_of(given, strcspn(given, ":+ ")));
    for (size_t length; *(names += strspn(names, ", ")) != '\0'; names += length) {
        length = strcspn(names, ",");
        nearest_name_offer(&nearest, span_of(names, length));
    }
    return nearest_name_hint(&nearest, out);
}

bool nearest_name_is_one(const char *given, const char *names) {
    size_t size = strcspn(given, ":+ ");
    for (size_t length; *(names += strspn(names, ", ")) != '\0'; names += length) {
        length = strcspn(names, ",");
        if (length == size && memcmp(given, names, size) == 0) return true;
    }
    return false;
}

const char *mr_nearest_name(const char *name, const char *const *known, size_t count) {
    nearest_name nearest = nearest_name_of(span_of(name, name == NULL ? 0 : strlen(name)));
    for (size_t i = 0; i < count; i++) nearest_name_offer_text(&nearest, known[i]);
    return (const char *)nearest.best.data;
}
