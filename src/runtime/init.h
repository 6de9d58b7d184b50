/* init.h — the life of a worker, for whoever begins it: mr_init, or boot.h before there is a main. */
#pragma once

_Noreturn void init_be_worker(void); /* this process is one by its environment; it serves, and is gone */
