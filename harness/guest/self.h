/* This process as a rank of the arena. Internal to the guest library. */
#ifndef HARNESS_GUEST_SELF_H
#define HARNESS_GUEST_SELF_H

#include "harness/guest/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What all functions of the library ask first; through guest_self_page only. */
extern struct guest_page *guest_self_page_now;

/* Where this rank's state lies, NULL if nobody watches. */
static inline struct guest_page *guest_self_page(void)
{
    return __atomic_load_n(&guest_self_page_now, __ATOMIC_ACQUIRE);
}
/* It is nobody's any more. */
void guest_self_forget(void);

/* No word is written before, or read after, one that is written or read earlier in the code. */
static inline uint64_t guest_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static inline void guest_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* The writer of a record begins and ends: readers see all of its words as they were at one moment,
 * or know that they do not. One writer at a time. */
static inline void guest_change_begin(uint64_t *change)
{
    guest_store(change, guest_load(change) + 1);
}
static inline void guest_change_end(uint64_t *change)
{
    __atomic_store_n(change, guest_load(change) + 1, __ATOMIC_RELEASE);
}

/* Well mixed, so that numbers made from numbers hardly ever meet. The finalizer of splitmix64. */
static inline uint64_t guest_mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* From now on this process is the rank of that page, for all of its threads. */
void guest_self_open(const struct guest_arena *arena, struct guest_page *page);
/* The arena that the page lies in. */
const struct guest_arena *guest_self_arena(void);
/* CLOCK_MONOTONIC. */
uint64_t guest_self_now_ns(void);
/* The place of the calling thread in page->threads; GUEST_THREADS_MAX: all are taken. */
uint32_t guest_self_thread(struct guest_page *page);
/* Another place for the calling thread, which gives it back by clearing its tid. */
uint32_t guest_self_spare(struct guest_page *page);
/* Write an entry into the ring. Any thread. */
void guest_self_record(struct guest_page *page, enum guest_event event,
                       const uint64_t arg[GUEST_ARG_COUNT]);

/* told.c */
/* A name in as many entries as it takes; NULL: an empty one. */
void guest_self_record_name(struct guest_page *page, enum guest_event event, uint32_t index,
                            const char *name);

#ifdef __cplusplus
}
#endif
#endif
