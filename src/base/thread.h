/* thread.h — library threads inside a user's program, with signals blocked; and the privileges of a thread. */
#pragma once
#include <pthread.h>

/* As pthread_create, with every signal blocked in the new thread: 0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

/* Sets no_new_privs (prctl(2)): this thread, and all threads and processes that it starts from now on, cannot gain
 * privileges by running a set-user-ID program. A failure is a warning. */
void thread_bar_privileges(void);
