/* task_registry.c — see task_registry.h. A linked list is enough: callers keep the bodies that they looked up. */
#include "runtime/common/task_registry.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

typedef struct record { /* never freed */
    struct record *next;
    const char *class_name, *name; /* class_name NULL: a task; name NULL: creates */
    mr_body_fn *body;
} record;

static record *records;             /* written by constructors only */
static task_registry_hook describe; /* written before mr_init */

static void add(const char *class_name, const char *name, mr_body_fn *body) {
    const char *shown = name != NULL ? name : class_name != NULL ? class_name : "";
    if (body == NULL || (class_name == NULL && name == NULL))
        log_error("cannot register '%s': a task, class or method needs a name and a body", shown);
    else
        records = XNEW(record, records, class_name, name, body);
}

void mr_register_task(const char *name, mr_body_fn *body) { add(NULL, name, body); }
void mr_register_method(const char *class_name, const char *method, mr_body_fn *body) { add(class_name, method, body); }

void mr_on_describe(mr_describe_fn *fn, void *user) { describe = (task_registry_hook){fn, user}; }
task_registry_hook task_registry_describe(void) { return describe; }

static bool same(const char *text, const char *name, size_t size) {
    return text != NULL && strlen(text) == size && memcmp(text, name, size) == 0;
}

static mr_body_fn *find_task(const char *name, size_t size) {
    for (record *at = records; at != NULL; at = at->next)
        if (at->class_name == NULL && same(at->name, name, size)) return at->body;
    return NULL;
}

mr_body_fn *task_registry_task(const char *name, size_t size) {
    if (size == 0) return NULL;
    mr_body_fn *body = find_task(name, size);
    return body != NULL ? body : find_task("*", 1);
}

static bool has_class(const char *name, size_t size) {
    for (record *at = records; at != NULL; at = at->next)
        if (same(at->class_name, name, size)) return true;
    return false;
}

bool task_registry_class(const char *name, size_t size) {
    return size > 0 && (has_class(name, size) || has_class("*", 1));
}

static mr_body_fn *find_method(const char *class_name, size_t size, const char *method, size_t method_size) {
    for (record *at = records; at != NULL; at = at->next) {
        if (!same(at->class_name, class_name, size)) continue;
        if (method_size == 0 ? at->name == NULL : same(at->name, method, method_size)) return at->body;
    }
    return NULL;
}

mr_body_fn *task_registry_method(const char *class_name, size_t size, const char *method, size_t method_size) {
    if (size == 0) return NULL;
    if (!has_class(class_name, size)) class_name = "*", size = 1;
    mr_body_fn *body = find_method(class_name, size, method, method_size);
    return body != NULL || method_size == 0 ? body : find_method(class_name, size, "*", 1);
}

static void append(char *out, size_t size, const char *name) {
    size_t used = strlen(out);
    if (used + 1 < size) snprintf(out + used, size - used, "%s%s", used == 0 ? "" : ", ", name);
}

/* Whether no earlier record has the same class. */
static bool is_first_of_class(const record *record) {
    for (const struct record *at = records; at != record; at = at->next)
        if (at->class_name != NULL && strcmp(at->class_name, record->class_name) == 0) return false;
    return true;
}

void task_registry_tasks_text(char *out, size_t size) {
    out[0] = '\0';
    for (record *at = records; at != NULL; at = at->next)
        if (at->class_name == NULL && at->name[0] != '.') append(out, size, at->name); /* .x: the library's */
}

void task_registry_classes_text(char *out, size_t size) {
    out[0] = '\0';
    for (record *at = records; at != NULL; at = at->next)
        if (at->class_name != NULL && is_first_of_class(at)) append(out, size, at->class_name);
}

void task_registry_methods_text(const char *class_name, size_t class_size, char *out, size_t size) {
    out[0] = '\0';
    for (record *at = records; at != NULL; at = at->next)
        if (same(at->class_name, class_name, class_size) && at->name != NULL) append(out, size, at->name);
}
