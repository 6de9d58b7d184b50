/* membarrier.h — asymmetric memory barrier: a full barrier in every other thread of this process, paid by the caller
 * (membarrier(2)).
 *
 * For protocols in which one side does something all the time and the other seldom: the busy side stores, then loads,
 * with nothing but MEMBARRIER_LIGHT in between, which costs no instruction; the other side stores, calls
 * membarrier_heavy, then loads. One of the two sees what the other has stored, as if both had a fence.
 *
 * Costs     0.2 µs, and 2 µs where another CPU runs a thread of this process and must be interrupted. */
#pragma once
#include <stdbool.h>

/* The compiler moves nothing across it; the CPU may. */
#define MEMBARRIER_LIGHT() __asm__ volatile("" ::: "memory")

/* Registers this process for it. False: the kernel does not have it, or it is forbidden here; do without. Takes
 * microseconds while the process has one thread, the first time, and many milliseconds when it has more. */
bool membarrier_register(void);
bool membarrier_register_is_quick(void);
void membarrier_heavy(void); /* after membarrier_register has returned true in this process */
