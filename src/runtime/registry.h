/* registry.h — the tasks and classes of this program, by name.
 *
 * Filled by constructors before main, read afterwards: the one piece of state that belongs to the program and not to a
 * context. A record called "*" stands for every name of its kind that has no record of its own. */
#pragma once
#include "miniray/runtime.h"

mr_body_fn *registry_task(const char *name, size_t size); /* NULL: no such task */
bool registry_class(const char *name, size_t size);
/* The method; with method_size 0 the one that creates. NULL: none. */
mr_body_fn *registry_method(const char *class_name, size_t size, const char *method, size_t method_size);

/* "add, scale, …": what there is, for the text of an error. */
void registry_tasks_text(char *out, size_t size);
void registry_classes_text(char *out, size_t size);
void registry_methods_text(const char *class_name, size_t class_size, char *out, size_t size);
