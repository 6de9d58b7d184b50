/* atlas.c — see atlas.h. */
#include "ps/atlas.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

struct atlas_page {
    chart chart;
    size_t followers;
    atlas_page *before, *after;
};

struct atlas {
    size_t refs, count;
    atlas_page *pages; /* owned */
};

atlas *atlas_create(void) {
    atlas *atlas = xcalloc(1, sizeof *atlas);
    atlas->refs = 1;
    return atlas;
}

atlas *atlas_ref(atlas *atlas) {
    atlas->refs++;
    return atlas;
}

void atlas_unref(atlas *atlas) {
    MR_ASSERT(atlas->refs > 0);
    if (--atlas->refs != 0) return;
    MR_ASSERT(atlas->count == 0);
    free(atlas);
}

atlas_page *atlas_open(atlas *atlas) {
    atlas_page *page = xcalloc(1, sizeof *page);
    page->followers = 1;
    page->after = atlas->pages;
    if (page->after != NULL) page->after->before = page;
    atlas->pages = page;
    atlas->count++;
    return page;
}

void atlas_close(atlas *atlas, atlas_page *page) {
    MR_ASSERT(page->followers > 0 && atlas->count > 0);
    if (--page->followers != 0) return;
    if (page->after != NULL) page->after->before = page->before;
    if (page->before != NULL) page->before->after = page->after;
    if (atlas->pages == page) atlas->pages = page->after;
    atlas->count--;
    chart_fini(&page->chart);
    free(page);
}

const chart *atlas_chart(const atlas_page *page) { return &page->chart; }
size_t atlas_count(const atlas *atlas) { return atlas->count; }

/* The page that has the chart of these bytes; NULL: none, or it is no newer one. */
static atlas_page *find(const atlas *atlas, const chart *known, span bytes) {
    uint64_t number, generation;
    if (!chart_peek(bytes, &number, &generation) || number <= known->number) return NULL;
    atlas_page *page = atlas->pages;
    while (page != NULL && (page->chart.number != number || page->chart.generation != generation)) page = page->after;
    return page;
}

mr_status atlas_follow(atlas *atlas, atlas_page **page, span bytes) {
    MR_ASSERT((*page)->followers > 0);
    atlas_page *from = *page, *next = find(atlas, &from->chart, bytes);
    if (next != NULL) {
        next->followers++;
    } else if (from->followers == 1) {
        return chart_follow(&from->chart, bytes);
    } else {
        next = atlas_open(atlas);
        chart_copy(&next->chart, &from->chart);
        mr_status status = chart_follow(&next->chart, bytes);
        if (status != MR_OK) {
            atlas_close(atlas, next);
            return status;
        }
    }
    atlas_close(atlas, from);
    *page = next;
    return MR_OK;
}
