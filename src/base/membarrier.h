/* membarrier.h — asymmetric memory barrier: a full barrier in every other thread of this process, paid by the caller
 * (membarrier(2)).
 *
 * For protocols with a frequent and a rare side. The frequent side stores, then loads, with only MEMBARRIER_LIGHT in
 * between, which costs no instruction; the rare side stores, calls membarrier_heavy, then loads. At least one side sees
 * the other's store, as if both had a fence.
 *
 * Costs     0.2 µs, or 2 µs if another CPU runs a thread of this process and must be interrupted. */
#pragma once
#include <stdbool.h>

/* The compiler moves no access across this barrier; the CPU may. */
#define MEMBARRIER_LIGHT() __asm__ volatile("" ::: "memory")

/* Registers this process for membarrier_heavy. False: the kernel lacks or forbids it. The first call takes microseconds
 * while the process has one thread, and many milliseconds when it has more. */
bool membarrier_register(void);
bool membarrier_register_is_quick(void);
void membarrier_heavy(void); /* after membarrier_register has returned true in this process */
