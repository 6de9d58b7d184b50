/* cmd_why.c — `miniray why ID`: chain of causes for which a task, call, object, actor or process waits. */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/node_query.h"
#include "cli/text_table.h"

/* Prints the process's description of its current work (mr_on_describe) below the step. */
static void print_words(const mr_value *step, int indent) {
    mr_value does = node_query_field(step, "does");
    mr_span text;
    if (mr_value_kind(&does) != MR_KIND_STR || mr_value_str(&does, &text) != MR_OK) return;
    const char *at = text.data, *end = at + text.size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        int length = (int)((newline == NULL ? end : newline) - at);
        printf("%*s| %.*s\n", indent, "", length, at);
        at += length + 1;
    }
}

static void print(const node_query *query, const mr_value *answer) {
    mr_value steps = node_query_field(answer, "steps"), step;
    int indent = 0;
    for (mr_iter iter = mr_value_iter(&steps); mr_iter_next(&iter, &step); indent += 2) {
        const char *because = node_query_text(&step, "because"), *release = node_query_text(&step, "release");
        int64_t age_us = node_query_int(&step, "age_us");
        printf("%*s%s  %s", indent, "", node_query_text(&step, "id"), node_query_text(&step, "what"));
        if (age_us > 0) printf(", for %s", text_table_time(age_us));
        putchar('\n');
        if (because[0] != '\0') printf("%*s%s\n", indent + 2, "", because);
        print_words(&step, indent + 2);
        if (release[0] != '\0') printf("%*sreleased by: %s\n", indent + 2, "", release);
    }
}

/* p4, or a letter, a process and a number: t4:17, o4:17.2. */
static bool is_id(const char *word) {
    if (word[0] == '\0' || strchr("tcoap", word[0]) == NULL) return false;
    const char *process = word + 1, *rest = process + strspn(process, "0123456789");
    if (rest == process) return false;
    if (word[0] == 'p') return *rest == '\0';
    return rest[0] == ':' && rest[1] != '\0' && rest[1 + strspn(rest + 1, "0123456789.")] == '\0';
}

int command_why(int argc, char **argv) {
    node_query query = {.title = argv[0],
                        .what = "why",
                        .missing = "no id is given; `miniray list tasks` shows ids",
                        .knows = is_id,
                        .unknown = "'%s' is not an id such as t4:17, c4:17, o4:17, a4:2 or p4%s; `miniray list tasks` "
                                   "shows ids",
                        .examples = "miniray why t4:17\nminiray why p4 --json"};
    node_query_parse(
        &query, argc, argv, "ID",
        "Explains what a task, call, object, actor or process waits for, since when, and what releases it.\v"
        "ID is as `miniray list` shows it: t4:17 (task), c4:17 (call), o4:17 (object), a4:2 (actor), p4 "
        "(process).");
    query.id = query.word;
    return node_query_run(&query, print);
}
