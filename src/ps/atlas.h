/* atlas.h — cache of cluster maps that several batchers (post.h) of a process share.
 *
 * A chart is decided once: whoever knows a chart of some number and generation knows the same one. A process in which
 * many follow charts (a worker with its ranks; a simulation of thousands) gives them one atlas, and has each chart in
 * memory once, however many know it, and reads it once.
 *
 *   page: a chart, with how many follow it ── a newer one: the page that has it, or one more page ──► page
 *
 * A page that one alone follows becomes the newer chart where it is; one that others follow is copied first.
 *
 * Threads     none: posts that share an atlas are driven by one thread.
 * Ownership   the atlas is shared; pages belong to it. */
#pragma once
#include "ps/chart.h"

typedef struct atlas atlas;
typedef struct atlas_page atlas_page;

atlas *atlas_create(void); /* the caller's; unref */
atlas *atlas_ref(atlas *atlas);
void atlas_unref(atlas *atlas);

atlas_page *atlas_open(atlas *atlas); /* "none yet", for one more who follows; close */
void atlas_close(atlas *atlas, atlas_page *page);
const chart *atlas_chart(const atlas_page *page); /* borrowed until the page is followed from or closed */

/* The newer chart that these bytes tell, as chart_follow does; *page is then another one, perhaps. Not MR_OK: *page is
 * as it was. */
MR_MUST mr_status atlas_follow(atlas *atlas, atlas_page **page, span bytes);

size_t atlas_count(const atlas *atlas); /* pages that are open */
