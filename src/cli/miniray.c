/* miniray.c — the command. */
#include <stdio.h>

#include "miniray/status.h"

int main(void) { return printf("miniray %s\n", mr_version()) < 0; }
