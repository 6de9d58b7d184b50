/* tsan.h — ThreadSanitizer annotations.
 *
 * For speculative reads of memory that others may free or reuse meanwhile: the reader checks afterwards whether that
 * happened and then discards the data. ThreadSanitizer reports such a read unless it is between the two macros. */
#pragma once

#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#ifndef TSAN
#define TSAN 0
#endif

#if TSAN
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#define tsan_ignore_reads()  AnnotateIgnoreReadsBegin(__FILE__, __LINE__)
#define tsan_observe_reads() AnnotateIgnoreReadsEnd(__FILE__, __LINE__)
#else
#define tsan_ignore_reads()  ((void)0)
#define tsan_observe_reads() ((void)0)
#endif
