/* Purpose: this process as a rank: its page, its history, its threads' places.
 * Idea: a writer takes the next index, so threads never wait for each other. The slot's index is
 * cleared first and written last: a reader knows an entry that is not whole by its index. */
#include "harness/guest/self.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct guest_page *guest_self_page_now;
static const struct guest_arena *self_arena;
static struct guest_entry *self_ring;
static uint64_t self_ring_mask;

/* Of the calling thread: its place in page->threads plus 1. */
static _Thread_local uint32_t thread_place;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

void guest_self_forget(void)
{
    __atomic_store_n(&guest_self_page_now, NULL, __ATOMIC_RELEASE);
}

void guest_self_open(const struct guest_arena *arena, struct guest_page *page)
{
    self_arena = arena;
    self_ring = (struct guest_entry *)((char *)page + arena->ring_offset_bytes);
    self_ring_mask = arena->ring_entry_count - 1;
    __atomic_store_n(&guest_self_page_now, page, __ATOMIC_RELEASE);
}

const struct guest_arena *guest_self_arena(void)
{
    return self_arena;
}

uint64_t guest_self_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* A thread that ends gives its place back. */
static void leave_place(void *thread)
{
    guest_store(&((struct guest_thread *)thread)->tid, 0);
}

static void make_key(void)
{
    (void)pthread_key_create(&thread_key, leave_place);
}

uint32_t guest_self_spare(struct guest_page *page)
{
    const uint64_t tid = (uint64_t)syscall(SYS_gettid);

    for (uint32_t i = 0; i < GUEST_THREADS_MAX; i++) {
        uint64_t free_tid = 0;

        if (__atomic_compare_exchange_n(&page->threads[i].tid, &free_tid, tid, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            return i;
        }
    }
    return GUEST_THREADS_MAX;
}

static uint32_t take_place(struct guest_page *page)
{
    const uint32_t place = guest_self_spare(page);

    if (place < GUEST_THREADS_MAX) {
        (void)pthread_once(&thread_once, make_key);
        (void)pthread_setspecific(thread_key, &page->threads[place]);
    }
    return place;
}

uint32_t guest_self_thread(struct guest_page *page)
{
    if (thread_place == 0) {
        const uint32_t place = take_place(page);

        if (place == GUEST_THREADS_MAX) {
            return place;
        }
        thread_place = place + 1;
    }
    return thread_place - 1;
}

/* The calling thread, as an entry names it. A post ends what it has waited for since the last one.
 */
static uint64_t thread_of(struct guest_page *page, enum guest_event event)
{
    const uint32_t place = guest_self_thread(page);
    uint64_t messages;

    if (event != GUEST_EVENT_POST || place == GUEST_THREADS_MAX) {
        return place;
    }
    messages = guest_load(&page->threads[place].messages);
    if (messages != 0) {
        guest_store(&page->threads[place].messages, 0);
    }
    return place | (messages < UINT32_MAX ? messages : UINT32_MAX) << 32;
}

void guest_self_record(struct guest_page *page, enum guest_event event,
                       const uint64_t arg[GUEST_ARG_COUNT])
{
    const uint64_t index = __atomic_add_fetch(&page->entry_count, 1, __ATOMIC_ACQ_REL);
    struct guest_entry *entry = &self_ring[(index - 1) & self_ring_mask];
    const uint64_t now_ns = guest_self_now_ns();
    /* step | micro << 32 | phase << 48 | event << 56, the four fields behind time_ns */
    const uint64_t place = (guest_load(&page->step) & UINT32_MAX) |
                           (guest_load(&page->micro) & 0xffff) << 32 |
                           (guest_load(&page->phase) & 0xff) << 48 | (uint64_t)event << 56;

    guest_store(&entry->index, 0);
    guest_store(&entry->time_ns, now_ns);
    guest_store(&entry->place, place);
    guest_store(&entry->thread, thread_of(page, event));
    for (unsigned i = 0; i < GUEST_ARG_COUNT; i++) {
        guest_store(&entry->arg[i], arg[i]);
    }
    __atomic_store_n(&entry->index, index, __ATOMIC_RELEASE);
    guest_store(&page->alive_ns, now_ns);
}
