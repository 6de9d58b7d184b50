/* resources.c — see resources.h. */
#include "runtime/common/resources.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"

#define MILLI_MAX INT64_C(1000000000000)

enum { IN_A_GROUP = 0x80 }; /* flag in the byte of the count */
_Static_assert((int)RESOURCES_MAX < (int)IN_A_GROUP, "both have room");

static bool good_name(const char *name, size_t size) {
    if (size == 0 || size > RESOURCE_NAME_MAX) return false;
    for (size_t i = 0; i < size; i++) {
        char c = name[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_-.:", c);
        if (!fine || c == '\0') return false;
    }
    return true;
}

static uint32_t place_of(const resources *resources, const char *name) {
    uint32_t i = 0;
    while (i < resources->count && strcmp(resources->items[i].name, name) < 0) i++;
    return i;
}

static bool at(const resources *resources, uint32_t i, const char *name) {
    return i < resources->count && strcmp(resources->items[i].name, name) == 0;
}

/* Sets the amount; zero removes the item. */
static mr_status put(resources *resources, const char *name, int64_t milli) {
    uint32_t i = place_of(resources, name);
    bool there = at(resources, i, name);
    resource *items = resources->items;
    if (there && milli != 0) {
        items[i].milli = milli;
    } else if (there) {
        memmove(&items[i], &items[i + 1], (resources->count - i - 1) * sizeof *items);
        resources->count--;
    } else if (milli != 0) {
        if (resources->count == RESOURCES_MAX)
            return error_set(MR_INVALID, "resource '%s' is one too many: at most %d kinds", name, RESOURCES_MAX);
        memmove(&items[i + 1], &items[i], (resources->count - i) * sizeof *items);
        memset(&items[i], 0, sizeof *items);
        strcpy(items[i].name, name);
        items[i].milli = milli;
        resources->count++;
    }
    return MR_OK;
}

mr_status resources_set(resources *resources, const char *name, double amount) {
    if (!good_name(name, strlen(name)))
        return error_set(MR_INVALID, "'%.40s' is not the name of a resource: use 1 to %d of a-z A-Z 0-9 _ - . :", name,
                         RESOURCE_NAME_MAX);
    double milli = amount * 1000, nearest = nearbyint(milli);
    bool exact = fabs(milli - nearest) <= 1e-6 && (nearest > 0 || amount == 0);
    if (!(milli >= 0) || milli > (double)MILLI_MAX || !exact)
        return error_set(MR_INVALID, "%s=%g: an amount must be 0 to %lld, in steps of 0.001", name, amount,
                         (long long)(MILLI_MAX / 1000));
    return put(resources, name, (int64_t)nearest);
}

/* Reads digits with an optional decimal point: not strtod, whose decimal point depends on the program's locale. NULL:
 * malformed, too large or too fine; else the end of the number. */
static const char *read_amount(const char *text, int64_t *out) {
    int64_t milli = 0, unit = 1000;
    bool any = false, point = false;
    for (;; text++) {
        int64_t digit = *text - '0';
        if (*text == '.' && !point) {
            point = true;
            continue;
        }
        if (digit < 0 || digit > 9) break;
        any = true;
        if (point) unit /= 10;
        if (unit == 0 && digit != 0) return NULL;
        milli = point ? milli + digit * unit : milli * 10 + digit * unit;
        if (milli > MILLI_MAX) return NULL;
    }
    *out = milli;
    return any ? text : NULL;
}

mr_status resources_parse(resources *resources, const char *text) {
    while (*text != '\0') {
        char name[RESOURCE_NAME_MAX + 1];
        const char *equals = strchr(text, '=');
        size_t size = equals == NULL ? 0 : (size_t)(equals - text);
        if (!good_name(text, size))
            return error_set(MR_INVALID, "expected name=amount, such as cpu=1,licence=2, at '%.60s'", text);
        memcpy(name, text, size);
        name[size] = '\0';
        if (strcmp(name, "CPU") == 0 || strcmp(name, "GPU") == 0)
            return error_set(MR_INVALID, "%s is not a custom resource: use num_%cpus (--num-%cpus)", name,
                             name[0] - 'A' + 'a', name[0] - 'A' + 'a');
        int64_t milli;
        const char *end = read_amount(equals + 1, &milli);
        if (end == NULL || (*end != '\0' && *end != ','))
            return error_set(MR_INVALID, "the amount of %s must be 0 or more, in steps of 0.001, at '%.60s'", name,
                             text);
        MR_TRY(put(resources, name, milli));
        text = *end == ',' ? end + 1 : end;
    }
    return MR_OK;
}

int64_t resources_milli(const resources *resources, const char *name) {
    uint32_t i = place_of(resources, name);
    return at(resources, i, name) ? resources->items[i].milli : 0;
}

bool resources_fit(const resources *need, const resources *have) {
    for (uint32_t i = 0; i < need->count; i++)
        if (resources_milli(have, need->items[i].name) < need->items[i].milli) return false;
    return true;
}

static void change(resources *have, const resources *by, int64_t sign) {
    for (uint32_t i = 0; i < by->count; i++) {
        uint32_t place = place_of(have, by->items[i].name);
        MR_ASSERT(at(have, place, by->items[i].name));
        have->items[place].milli += sign * by->items[i].milli;
    }
}

void resources_take(resources *have, const resources *need) { change(have, need, -1); }
void resources_give(resources *have, const resources *back) { change(have, back, 1); }

mr_status resources_add(resources *sum, const resources *more) {
    for (uint32_t i = 0; i < more->count; i++) {
        const resource *item = &more->items[i];
        int64_t milli = resources_milli(sum, item->name) + item->milli;
        if (milli > MILLI_MAX)
            return error_set(MR_INVALID, "%s=%g is too much: at most %lld", item->name, (double)milli / 1000,
                             (long long)(MILLI_MAX / 1000));
        MR_TRY(put(sum, item->name, milli));
    }
    return MR_OK;
}

bool resources_equal(const resources *a, const resources *b) {
    if (a->count != b->count || a->group != b->group || a->bundle != b->bundle) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (strcmp(a->items[i].name, b->items[i].name) != 0 || a->items[i].milli != b->items[i].milli) return false;
    return true;
}

uint64_t resources_hash(const resources *resources) {
    uint64_t hash = hash_on(HASH_BEGIN, &resources->group, sizeof resources->group);
    hash = hash_on(hash, &resources->bundle, sizeof resources->bundle);
    for (uint32_t i = 0; i < resources->count; i++) {
        const resource *item = &resources->items[i];
        hash = hash_on(hash, item->name, strlen(item->name) + 1);
        hash = hash_on(hash, &item->milli, sizeof item->milli);
    }
    return hash;
}

/* Writes an amount such as "2" or "0.5" exactly, so that resources_parse can read it back. */
static void amount_text(int64_t milli, char *out, size_t size) {
    int64_t left = milli < 0 ? -milli : milli;
    int used = snprintf(out, size, "%s%" PRId64 ".%03" PRId64, milli < 0 ? "-" : "", left / 1000, left % 1000);
    while (out[used - 1] == '0') out[--used] = '\0';
    if (out[used - 1] == '.') out[--used] = '\0';
}

void resources_text(const resources *resources, char *out, size_t size) {
    size_t used = 0;
    if (size > 0) out[0] = '\0';
    for (uint32_t i = 0; i < resources->count && used < size; i++) {
        char amount[32];
        amount_text(resources->items[i].milli, amount, sizeof amount);
        int wrote = snprintf(out + used, size - used, "%s%s=%s", i == 0 ? "" : ", ", resources->items[i].name, amount);
        if (wrote < 0) return;
        used += (size_t)wrote;
    }
    if (resources->group == 0 || used >= size) return;
    snprintf(out + used, size - used, "%sin g%u:%u", used == 0 ? "" : " ", (uint32_t)(resources->group >> 32),
             (uint32_t)resources->group);
}

void resources_encode(const resources *resources, writer *writer) {
    writer_u8(writer, (uint8_t)(resources->count | (resources->group != 0 ? IN_A_GROUP : 0)));
    if (resources->group != 0) {
        writer_u64(writer, resources->group);
        writer_u32(writer, resources->bundle);
    }
    for (uint32_t i = 0; i < resources->count; i++) {
        writer_span32(writer, span_of(resources->items[i].name, strlen(resources->items[i].name)));
        writer_u64(writer, (uint64_t)resources->items[i].milli);
    }
}

mr_status resources_decode(reader *reader, resources *out) {
    resources got = {0};
    uint8_t count = reader_u8(reader);
    if ((count & IN_A_GROUP) != 0) {
        got.group = reader_u64(reader);
        got.bundle = reader_u32(reader);
        if (got.group == 0) reader->failed = true;
        count &= IN_A_GROUP - 1;
    }
    for (uint8_t i = 0; i < count && !reader->failed; i++) {
        span name = reader_span32(reader);
        uint64_t milli = reader_u64(reader);
        char text[RESOURCE_NAME_MAX + 1];
        if (reader->failed || !good_name((const char *)name.data, name.size) || milli > (uint64_t)MILLI_MAX) {
            reader->failed = true;
            break;
        }
        memcpy(text, name.data, name.size);
        text[name.size] = '\0';
        if (put(&got, text, (int64_t)milli) != MR_OK) reader->failed = true;
    }
    if (reader->failed)
        return error_set(MR_CORRUPT, "malformed resources from another process, after %u valid ones", got.count);
    *out = got;
    return MR_OK;
}
