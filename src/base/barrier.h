/* barrier.h — asymmetric memory barrier: a full barrier in every other thread of this process, paid by the caller
 * (membarrier(2)).
 *
 * For protocols in which one side does something all the time and the other seldom: the busy side stores, then loads,
 * with nothing but BARRIER_LIGHT in between, which costs no instruction; the other side stores, calls barrier_heavy,
 * then loads. One of the two sees what the other has stored, as if both had a fence.
 *
 * Costs     0.2 µs, and 2 µs where another CPU runs a thread of this process and must be interrupted. */
#pragma once
#include <stdbool.h>

/* The compiler moves nothing across it; the CPU may. */
#define BARRIER_LIGHT() __asm__ volatile("" ::: "memory")

/* Says that this process will use it. False: the kernel does not have it, or it is forbidden here; do without. Takes
 * microseconds while the process has one thread, the first time, and many milliseconds when it has more. */
bool barrier_register(void);
bool barrier_register_is_quick(void);
void barrier_heavy(void); /* after barrier_register has returned true in this process */
