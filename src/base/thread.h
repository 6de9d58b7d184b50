/* thread.h — library threads inside a user's program, with signals blocked. */
#pragma once
#include <pthread.h>

/* As pthread_create, with every signal blocked in the new thread: 0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);
