/* station.h — process block: the state of a process in the machine's shared memory.
 *
 * The arena begins with its header, then STATIONS_MAX stations, then extents (rings, and later objects). A station is
 * one process: its doorbell (what it sleeps on), the CPU it runs on (so that a waiter knows whether to spin) and its
 * ready bitmap (which of its incoming rings have something). Everything is offsets; a byte read from here was written
 * by another process and is checked before use.
 *
 *   station    offset  what                                   written by
 *   ---------  ------  -------------------------------------  ---------------------------------
 *   identity   0       state, pid, process id                 hub
 *   doorbell   64      sleep word, see bell.h                 owner arms it, senders clear it
 *   cpu        128     CPU it runs on, or STATION_CPU_NONE    owner
 *   woke       136     when it was woken last, in ticks       owner
 *   summary    192     bit i: ready[i] may be non-zero        senders set, owner clears
 *   ready      256     bit j of word i: link 64 i + j         senders set, owner clears
 */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STATIONS_MAX = 2048,
    STATION_LINKS_MAX = 4096, /* incoming rings of one process */
    STATION_READY_WORDS = STATION_LINKS_MAX / 64,
    STATION_NONE = STATIONS_MAX, /* no station */
    STATION_HUB_INDEX = 0,       /* the ready bit that says: the hub's socket has something for you */
};
#define STATION_CPU_NONE UINT32_MAX

typedef enum station_state { STATION_FREE, STATION_ALIVE, STATION_DEAD } station_state;

typedef struct station {
    _Alignas(64) _Atomic uint32_t state; /* station_state */
    uint32_t pid;
    uint64_t process; /* never reused */
    _Alignas(64) _Atomic uint32_t sleep;
    _Alignas(64) _Atomic uint32_t cpu;
    _Atomic uint64_t woke;
    _Alignas(64) _Atomic uint64_t summary;
    _Alignas(64) _Atomic uint64_t ready[STATION_READY_WORDS];
} station;

_Static_assert(offsetof(station, sleep) == 64 && offsetof(station, cpu) == 128, "layout");
_Static_assert(offsetof(station, summary) == 192 && offsetof(station, ready) == 256, "layout");
_Static_assert(sizeof(station) == 768, "layout");

typedef struct extent {    /* a stretch of the arena */
    uint64_t offset, size; /* size == 0: none */
} extent;

typedef struct arena_header {
    uint64_t magic;                      /* ARENA_MAGIC */
    uint32_t version;                    /* ARENA_VERSION; another one is refused */
    uint32_t stations;                   /* STATIONS_MAX */
    uint64_t size;                       /* of the whole arena */
    uint64_t generation;                 /* random: which arena this is */
    _Alignas(64) _Atomic uint32_t seats; /* stations that were ever taken: those behind are free */
} arena_header;

enum { ARENA_STATIONS_OFFSET = 4096 };
#define ARENA_EXTENTS_OFFSET ((uint64_t)ARENA_STATIONS_OFFSET + (uint64_t)STATIONS_MAX * sizeof(station))
_Static_assert(ARENA_EXTENTS_OFFSET % 4096 == 0, "extents begin on a page");
