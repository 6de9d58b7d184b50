/* task_registry.h — registered tasks and classes of this program, by name.
 *
 * Filled before mr_init, mostly by constructors, and read afterwards: the only state that belongs to the program and
 * not to a context. A record named "*" matches every name of its kind without a record of its own. */
#pragma once
#include "miniray/admin.h"

typedef struct task_registry_hook { /* mr_on_describe */
    mr_describe_fn *fn;             /* NULL: none */
    void *user;
} task_registry_hook;
task_registry_hook task_registry_describe(void);

mr_body_fn *task_registry_task(const char *name, size_t size); /* NULL: no such task */
bool task_registry_class(const char *name, size_t size);
/* The method; with method_size 0 the constructor. NULL: none. */
mr_body_fn *task_registry_method(const char *class_name, size_t size, const char *method, size_t method_size);

/* "add, scale, …": registered names, for the text of an error. */
void task_registry_tasks_text(char *out, size_t size);
void task_registry_classes_text(char *out, size_t size);
void task_registry_methods_text(const char *class_name, size_t class_size, char *out, size_t size);
