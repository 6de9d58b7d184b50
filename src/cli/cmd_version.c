/* cmd_version.c — `miniray version`: version of this program. */
#include <argp.h>
#include <stdio.h>

#include "cli/command_line.h"
#include "miniray/status.h"

int command_version(int argc, char **argv) {
    const struct argp argp = {.doc = "Prints the version."};
    command_line_parse(&argp, argc, argv, 0, NULL, "miniray version");
    printf("miniray %s\n", mr_version());
    return 0;
}
