/* nursery.c — see nursery.h. */
#include "runtime/node/nursery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/map.h"
#include "runtime/worker/template.h"

enum { UNDER_WAY_MAX = 8, BARREN_MAX = 3 };

typedef struct template {
    nursery *nursery;
    uint32_t program;
    const recipe *recipe; /* borrowed; NULL: dropped */
    pid_t pid;            /* 0: it has ended, or there is none */
    int socket_fd;        /* -1: it has ended, or there is none */
    loop_watch *watch;
    bool ready, cold;
    bool failing;    /* hosts are being told: it is not freed under that */
    bool stood;      /* this process of it was ready */
    uint32_t barren; /* processes in a row that made nothing */
    uint32_t made;   /* by this process of it */
    uint32_t wanted; /* not asked for yet */
    uint32_t last;   /* number of the last request */
    map under_way;   /* numbers that were asked for */
    char why[400];   /* it ended */
}
template;

struct nursery {
    loop *loop;
    const nursery_host *host;
    void *context;
    map templates; /* of template, owned, by program */
    map by_pid;    /* the same, while they have a process */
};

/* ---- Asking. */

static void ask(template *template) {
    while (template->ready && template->wanted > 0 && template->under_way.count < UNDER_WAY_MAX) {
        template_request request = {.number = ++template->last};
        if (send(template->socket_fd, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
        map_put(&template->under_way, request.number, template);
        template->wanted--;
    }
}

static uint32_t take_all_wanted(template *template) {
    uint32_t count = template->wanted + (uint32_t) template->under_way.count;
    template->wanted = 0;
    map_fini(&template->under_way);
    return count;
}

static void fail_all(template *template, const char *why) {
    const nursery *nursery = template->nursery;
    template->failing = true;
    for (uint32_t count = take_all_wanted(template); count > 0; count--)
        nursery->host->failed(nursery->context, template->program, why);
    template->failing = false;
}

/* ---- Its process. */

static void hear(void *context);

static mr_status start(template *template) {
    nursery *nursery = template->nursery;
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return error_errno("cannot create a socket to a zygote of workers");
    mr_status status = loop_watch_add(nursery->loop, fds[0], hear, template, &template->watch);
    if (status != MR_OK) {
        close(fds[0]);
        close(fds[1]);
        return status;
    }
    status = nursery->host->start(nursery->context, template->program, template->recipe, fds[1], &template->pid);
    close(fds[1]);
    template->socket_fd = fds[0];
    template->ready = template->stood = false;
    template->made = 0;
    if (status == MR_OK) {
        map_put(&nursery->by_pid, (uint64_t) template->pid, template);
        return MR_OK;
    }
    loop_watch_remove(template->watch);
    close(template->socket_fd);
    template->socket_fd = -1;
    template->pid = 0;
    return status;
}

static void template_free(template *template) {
    nursery *nursery = template->nursery;
    if (template->socket_fd >= 0) {
        loop_watch_remove(template->watch);
        close(template->socket_fd);
    }
    if (template->pid != 0) map_remove(&nursery->by_pid, (uint64_t) template->pid);
    map_remove(&nursery->templates, template->program);
    map_fini(&template->under_way);
    free(template);
}

/* Neither its process nor its socket is there any more. */
static void over(template *template) {
    template->barren = template->made > 0 ? 0 : template->barren + 1;
    if (template->recipe != NULL && template->stood && template->barren < BARREN_MAX) {
        template->wanted = take_all_wanted(template);
        if (template->wanted == 0) return; /* started again when somebody asks */
        log_warn("%s; starting another", template->why);
        if (start(template) == MR_OK) return;
        snprintf(template->why, sizeof template->why, "%s", mr_last_error());
    }
    char why[sizeof template->why];
    memcpy(why, template->why, sizeof why); /* who is told may have another one started */
    fail_all(template, why);
    if (template->recipe == NULL && template->pid == 0 && template->socket_fd < 0) template_free(template);
}

bool nursery_has(nursery *nursery, pid_t pid) { return map_get(&nursery->by_pid, (uint64_t)pid) != NULL; }

void nursery_ended(nursery *nursery, pid_t pid, const char *why) {
    template *template = map_remove(&nursery->by_pid, (uint64_t)pid);
    MR_ASSERT(template != NULL);
    template->pid = 0;
    template->ready = false;
    snprintf(template->why, sizeof template->why, "the zygote of workers %s", why);
    if (template->socket_fd < 0) over(template);
}

/* ---- What it says. */

static void no_longer(template *template) {
    loop_watch_remove(template->watch);
    close(template->socket_fd);
    template->socket_fd = -1;
    template->ready = false;
    if (template->pid == 0)
        over(template);
    else
        template->nursery->host->kill(template->nursery->context, template->pid); /* deaf, but not dead */
}

static void refused(template *template, int value) {
    const nursery *nursery = template->nursery;
    uint32_t program = template->program;
    template->cold = true;
    template->ready = false;
    if (value > 0)
        log_info("workers of job %u are started with exec: its zygote has %d threads and cannot fork", program, value);
    else
        log_warn("workers of job %u are started with exec: its zygote could not fork: %s", program, strerror(-value));
    if (template->pid != 0) nursery->host->kill(nursery->context, template->pid);
    for (uint32_t count = take_all_wanted(template); count > 0; count--)
        nursery->host->afresh(nursery->context, program);
}

static void heard(template *template, const template_report *report) {
    const nursery *nursery = template->nursery;
    switch (report->kind) {
    case TEMPLATE_READY:
        template->ready = template->stood = true;
        ask(template);
        break;
    case TEMPLATE_MADE:
        if (map_remove(&template->under_way, report->number) == NULL) break; /* the other one has said it */
        template->made++;
        nursery->host->made(nursery->context, template->program, report->value);
        ask(template);
        break;
    case TEMPLATE_REFUSED:
        if (!template->cold) refused(template, report->value);
        break;
    default: break;
    }
}

/* All that it has said by now. False: it says no more. */
static bool listen_to(template *template) {
    for (;;) {
        template_report report;
        ssize_t got = recv(template->socket_fd, &report, sizeof report, MSG_DONTWAIT);
        /* ECONNRESET comes once, when it ended without having read all: what it said before that is still there. */
        if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
        if (got < 0 && errno == EAGAIN) return true;
        if (got != (ssize_t)sizeof report) return false;
        heard(template, &report);
    }
}

static void hear(void *context) {
    template *template = context;
    if (!listen_to(template)) no_longer(template);
}

/* That one says no more is left to the loop. */
void nursery_settle(nursery *nursery) {
    map_for_each (slot, &nursery->templates) {
        template *template = slot.value;
        if (template->socket_fd >= 0) (void)listen_to(template);
    }
}

/* ---- Life. */

nursery *nursery_create(loop *loop, const nursery_host *host, void *context) {
    nursery *nursery = XNEW(struct nursery, .loop = loop, .host = host, .context = context);
    return nursery;
}

void nursery_destroy(nursery *nursery) {
    map_slot slot;
    if (nursery == NULL) return;
    while (map_next(&nursery->templates, 0, &slot) != 0) template_free(slot.value);
    map_fini(&nursery->templates);
    map_fini(&nursery->by_pid);
    free(nursery);
}

bool nursery_is_cold(nursery *nursery, uint32_t program) {
    const template *template = map_get(&nursery->templates, program);
    return template != NULL && template->cold;
}

mr_status nursery_ask(nursery *nursery, uint32_t program, const recipe *recipe) {
    template *template = map_get(&nursery->templates, program);
    if (template == NULL) {
        template = XNEW(struct template, .nursery = nursery, .program = program, .recipe = recipe, .socket_fd = -1);
        map_put(&nursery->templates, program, template);
    }
    if (template->pid == 0 && template->socket_fd < 0) MR_TRY(start(template));
    template->wanted++;
    ask(template);
    return MR_OK;
}

void nursery_drop(nursery *nursery, uint32_t program) {
    template *template = map_get(&nursery->templates, program);
    if (template == NULL) return;
    template->recipe = NULL;
    template->ready = false;
    if (template->pid != 0)
        nursery->host->kill(nursery->context, template->pid);
    else if (template->socket_fd < 0 && !template->failing)
        template_free(template);
}
