/* said.h — recorded messages of a server, a rank or the director, for tests that drive one of them by hand. */
#pragma once
#include "ps/chart.h"
#include "ps/part.h"

enum { SAID_MAX = 64 };

typedef struct said {
    struct {
        char to[PART_ADDRESS_MAX];
        part part; /* its payload and terms are gone */
    } list[SAID_MAX];
    size_t count, batches;
} said;

void said_take(said *said, const char *address, span batch);
size_t said_count(const said *said, const char *to, part_kind kind);
size_t said_named(const said *said, const char *to, part_kind kind, part_status status, uint64_t name);

void part_begin(part_batch *batch, const part_head *head); /* whatever was in it is dropped */

/* A batch of at most one part (NULL: none), as somebody would send it; owned, freed by said_free. */
typedef struct said_batch {
    part_batch batch;
    span bytes;
} said_batch;
said_batch said_say(const part_head *from, const part *part);
said_batch said_chart(const part_head *from, const chart *chart);
void said_free(said_batch *batch);
