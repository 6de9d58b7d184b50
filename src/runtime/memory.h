/* memory.h — how much memory this machine, or the container that we are in, may use. */
#pragma once
#include <stdint.h>

enum { MEMORY_STORE_PERCENT = 30 };
#define MEMORY_STORE_LEAST (UINT64_C(64) << 20)

/* Bytes; 0: not known. Reads PROC/meminfo, and below GROUPS the limits of the control group and of those around it. */
uint64_t memory_of_machine(const char *proc, const char *groups);
uint64_t memory_store_bytes(uint64_t machine); /* what a store has of it by default: whole megabytes */
