/* failing_disk.h — a disk whose operations fail from the nth on, before or after the operation is done. */
#pragma once
#include "net/disk.h"

typedef struct failing_disk {
    disk real;
    int countdown; /* operations until the first failure, with it; 0: none fails */
    bool after;    /* the first failing operation is done, and then reports an error */
    bool unsynced; /* sync_data does nothing: for tests of many writes */
} failing_disk;

disk failing_disk_ops(failing_disk *disk); /* borrowed for the disk's life */
