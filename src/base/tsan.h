/* tsan.h — ThreadSanitizer annotations.
 *
 * Memory that others may give away while it is read is read like this: afterwards the reader looks whether that was so,
 * and then drops what it has. To the sanitizer such a read is a race, unless it is between the two. */
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
