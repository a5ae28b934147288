/* Waiting in a real process, and ddp_wait. Whoever rings changes the doorbell and then reads the
 * owner's sleep flag; the owner sets its flag and then the kernel compares the doorbell. At least
 * one of the two sees what the other wrote, so no ring is lost. Sleeping in slices of 1 ms bounds
 * the delay if a peer dies between its two steps. */
#include "ddpcore/base/idle.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Longer than a message takes between two ranks that run: who yields earlier on a core that other
 * programs want, too, gives it away for a whole slice of theirs, and the other end follows. */
#define SPIN_NS      (50 * DDP_NS_PER_US)
#define YIELD_NS     (200 * DDP_NS_PER_US)
#define SLICE_NS     DDP_NS_PER_MS
#define BLIND_MIN_NS (50 * DDP_NS_PER_US)
#define SPIN_ROUNDS  32

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_rung(const struct ddp_idle_hint *hint)
{
    return hint->doorbell != NULL &&
           __atomic_load_n(hint->doorbell, __ATOMIC_ACQUIRE) != hint->doorbell_seen;
}

static struct timespec timespec_of(uint64_t ns)
{
    struct timespec out = {(time_t)(ns / DDP_NS_PER_S), (long)(ns % DDP_NS_PER_S)};

    return out;
}

/* Every error of the call (changed word, signal, time out) means the same here: poll again. */
static void sleep_on_doorbell(const struct ddp_idle_hint *hint, uint64_t slice_ns)
{
    struct timespec timeout = timespec_of(slice_ns);

    if (hint->doorbell_sleep != NULL) {
        __atomic_store_n(hint->doorbell_sleep, 1u, __ATOMIC_SEQ_CST);
    }
    if (__atomic_load_n(hint->doorbell, __ATOMIC_SEQ_CST) == hint->doorbell_seen) {
        (void)syscall(SYS_futex, hint->doorbell, FUTEX_WAIT, hint->doorbell_seen, &timeout, NULL,
                      0);
    }
    if (hint->doorbell_sleep != NULL) {
        __atomic_store_n(hint->doorbell_sleep, 0u, __ATOMIC_RELAXED);
    }
}

static void sleep_on_fd(const struct ddp_idle_hint *hint, uint64_t slice_ns)
{
    struct pollfd watched = {hint->fd, hint->fd_events, 0};
    struct timespec timeout = timespec_of(slice_ns);

    (void)ppoll(&watched, hint->fd >= 0 ? 1 : 0, &timeout, NULL);
}

/* The beginning first: see struct ddp_idle_polls. */
static void note_poll(struct ddp_idle_polls *polls, const struct ddp_idle_hint *hint,
                      uint64_t now_ns)
{
    if (polls != NULL) {
        __atomic_store_n(&polls->started_ns, hint->started_ns, __ATOMIC_RELEASE);
        __atomic_store_n(&polls->polled_ns, now_ns, __ATOMIC_RELEASE);
    }
}

static void process_wait(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    struct ddp_idle_process *process = (struct ddp_idle_process *)idle;
    uint64_t now_ns = process->clock->now_ns(process->clock);
    uint64_t elapsed_ns = now_ns - hint->started_ns;
    uint64_t slice_ns = SLICE_NS;

    DDP_ASSERT(now_ns >= hint->started_ns);
    DDP_ASSERT(hint->doorbell != NULL || hint->doorbell_sleep == NULL);
    note_poll(process->polls, hint, now_ns);
    if (has_rung(hint) || now_ns >= hint->deadline_ns) {
        return;
    }
    if (process->may_spin && elapsed_ns < SPIN_NS) {
        for (int i = 0; i < SPIN_ROUNDS && !has_rung(hint); i++) {
            cpu_relax();
        }
        return;
    }
    if (elapsed_ns < YIELD_NS) {
        (void)sched_yield();
        return;
    }
    if (hint->doorbell == NULL && hint->fd < 0) {
        /* No doorbell and no descriptor: poll again after an eighth of the time already waited. */
        slice_ns = elapsed_ns / 8 < BLIND_MIN_NS ? BLIND_MIN_NS : elapsed_ns / 8;
        slice_ns = slice_ns < SLICE_NS ? slice_ns : SLICE_NS;
    }
    if (hint->deadline_ns - now_ns < slice_ns) {
        slice_ns = hint->deadline_ns - now_ns;
    }
    if (hint->doorbell != NULL) {
        sleep_on_doorbell(hint, slice_ns);
    } else {
        sleep_on_fd(hint, slice_ns);
    }
}

static void process_progress(struct ddp_idle *idle)
{
    (void)idle;
}

void ddp_idle_process_init(struct ddp_idle_process *idle, struct ddp_clock *clock, bool may_spin)
{
    static const struct ddp_idle_ops ops = {process_wait, process_progress};

    idle->base = (struct ddp_idle){.ops = &ops};
    idle->clock = clock;
    idle->may_spin = may_spin;
    idle->polls = NULL;
}

void ddp_doorbell_ring(uint32_t *doorbell, const uint32_t *doorbell_sleep)
{
    (void)__atomic_add_fetch(doorbell, 1u, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(doorbell_sleep, __ATOMIC_SEQ_CST) != 0) {
        (void)syscall(SYS_futex, doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

void ddp_idle_add(struct ddp_idle *idle, struct ddp_idle_attendant *attendant)
{
    DDP_ASSERT(attendant->attend != NULL);
    attendant->next = idle->attendants;
    idle->attendants = attendant;
}

void ddp_idle_remove(struct ddp_idle *idle, struct ddp_idle_attendant *attendant)
{
    struct ddp_idle_attendant **at = &idle->attendants;

    while (*at != attendant) {
        DDP_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = attendant->next;
}

ddp_status ddp_wait(struct ddp_idle *idle, struct ddp_clock *clock,
                    const struct ddp_pollable *pollable, uint64_t deadline_ns)
{
    struct ddp_idle_hint hint = {0};
    bool is_started = false;

    DDP_ASSERT(pollable->poll != NULL);
    for (;;) {
        ddp_status status;
        uint64_t now_ns;

        hint.doorbell = NULL;
        hint.doorbell_sleep = NULL;
        hint.fd = -1;
        hint.fd_events = 0;
        if (pollable->hint != NULL) {
            pollable->hint(pollable->self, &hint);
        }
        status = pollable->poll(pollable->self);
        if (status != DDP_PENDING) {
            return status;
        }
        now_ns = clock->now_ns(clock);
        if (now_ns >= deadline_ns && deadline_ns != DDP_DEADLINE_NEVER) {
            return DDP_E_TIMEOUT;
        }
        if (!is_started) {
            hint.started_ns = now_ns;
            is_started = true;
        }
        hint.deadline_ns = deadline_ns;
        for (struct ddp_idle_attendant *a = idle->attendants; a != NULL; a = a->next) {
            a->attend(a, now_ns);
        }
        DDP_ASSERT(now_ns >= hint.started_ns);
        idle->ops->wait(idle, &hint);
    }
}
