/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Threads, and how they wait. In turns (hooks.h) a thread is a fiber of the thread that switched
 * turns on: it goes on in ddp_nccl_standin_turn, and waits by leaving the turn to the next one. */
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "harness/task/fiber.h"
#include "tests/standin/nccl/hooks.h"
#include "tests/standin/nccl/internal.h"

#define STACK_BYTES (256u * 1024u) /* frames are larger under a sanitizer */

struct standin_turn {
    struct standin_turn *next;
    struct harness_fiber *fiber;
    void *(*main)(void *context); /* NULL: has returned */
    void *context;
    bool is_joined; /* or nobody will: free once main has returned */
};

static atomic_bool are_on;
static pthread_t owner;
static struct standin_turn *running; /* used by the owner alone */
/* Guards the lists, and turns' main and is_joined. */
static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turns_changed = PTHREAD_COND_INITIALIZER;
static struct standin_turn *turns, **turns_tail = &turns; /* in the order in which they started */
static struct standin_turn *spare;

bool standin_turns_are_on(void)
{
    return atomic_load(&are_on);
}

static bool is_owner(void)
{
    return atomic_load(&are_on) && pthread_equal(pthread_self(), owner);
}

/* Runs one thread's code after the other. */
static void turn_main(void *context)
{
    struct standin_turn *turn = context;
    for (;;) {
        (void)turn->main(turn->context);
        pthread_mutex_lock(&turns_lock);
        turn->main = NULL;
        pthread_mutex_unlock(&turns_lock);
        harness_fiber_yield(turn->fiber);
    }
}

static struct standin_turn *turn_take(void)
{
    struct standin_turn *turn = spare;
    if (turn != NULL) {
        spare = turn->next;
        return turn;
    }
    turn = calloc(1, sizeof *turn);
    if (turn != NULL &&
        harness_fiber_create(STACK_BYTES, turn_main, turn, &turn->fiber) != DDP_OK) {
        free(turn);
        return NULL;
    }
    return turn;
}

static int turn_start(struct standin_turn **out, void *(*run)(void *), void *context)
{
    pthread_mutex_lock(&turns_lock);
    struct standin_turn *turn = turn_take();
    if (turn != NULL) {
        turn->main = run;
        turn->context = context;
        turn->is_joined = out == NULL;
        turn->next = NULL;
        *turns_tail = turn;
        turns_tail = &turn->next;
    }
    pthread_mutex_unlock(&turns_lock);
    if (out != NULL) {
        *out = turn;
    }
    return turn != NULL ? 0 : -1;
}

/* Takes those that have ended from the list; keeps them until they are joined. */
static void turns_sweep(void)
{
    struct standin_turn **link = &turns;
    while (*link != NULL) {
        struct standin_turn *turn = *link;
        if (turn->main == NULL && turn->is_joined) {
            *link = turn->next;
            turn->next = spare;
            spare = turn;
        } else {
            link = &turn->next;
        }
    }
    turns_tail = link;
}

void ddp_nccl_standin_turn(void)
{
    pthread_mutex_lock(&turns_lock);
    for (struct standin_turn *turn = turns; turn != NULL; turn = turn->next) {
        if (turn->main == NULL) {
            continue;
        }
        pthread_mutex_unlock(&turns_lock);
        running = turn;
        harness_fiber_resume(turn->fiber);
        running = NULL;
        pthread_mutex_lock(&turns_lock);
    }
    turns_sweep();
    pthread_cond_broadcast(&turns_changed);
    pthread_mutex_unlock(&turns_lock);
}

void ddp_nccl_standin_turns(bool is_on)
{
    if (!is_on) {
        standin_roots_stop();
        pthread_mutex_lock(&turns_lock);
        turns_sweep();
        if (turns != NULL) {
            abort(); /* a communicator is left */
        }
        while (spare != NULL) {
            struct standin_turn *turn = spare;
            spare = turn->next;
            harness_fiber_destroy(turn->fiber);
            free(turn);
        }
        pthread_mutex_unlock(&turns_lock);
    }
    if (is_on) {
        standin_log_clear();
        standin_warn("%s", "");
    }
    owner = pthread_self();
    atomic_store(&are_on, is_on);
}

int standin_thread_start(struct standin_thread *thread, void *(*run)(void *), void *context)
{
    if (standin_turns_are_on()) {
        return turn_start(&thread->turn, run, context);
    }
    thread->turn = NULL;
    return pthread_create(&thread->own, NULL, run, context);
}

int standin_turn_start(void *(*run)(void *), void *context)
{
    return turn_start(NULL, run, context);
}

void standin_thread_join(struct standin_thread *thread)
{
    if (thread->turn == NULL) {
        (void)pthread_join(thread->own, NULL);
        return;
    }
    pthread_mutex_lock(&turns_lock);
    while (thread->turn->main != NULL) {
        standin_cond_wait(&turns_changed, &turns_lock, -1);
    }
    thread->turn->is_joined = true;
    pthread_mutex_unlock(&turns_lock);
}

/* Lets others go on; false if the calling thread may as well wait. */
static bool leave_turn(void)
{
    if (!is_owner()) {
        return false;
    }
    if (running != NULL) {
        struct standin_turn *turn = running;
        harness_fiber_yield(turn->fiber);
    } else {
        ddp_nccl_standin_turn();
    }
    return true;
}

void standin_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock, int timeout_ms)
{
    if (is_owner()) {
        pthread_mutex_unlock(lock);
        (void)leave_turn();
        pthread_mutex_lock(lock);
        return;
    }
    if (timeout_ms < 0) {
        (void)pthread_cond_wait(changed, lock);
        return;
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += timeout_ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_cond_timedwait(changed, lock, &until);
}

int standin_poll(struct pollfd *entries, nfds_t count, int timeout_ms)
{
    if (!is_owner()) {
        return poll(entries, count, timeout_ms);
    }
    int ready = count > 0 ? poll(entries, count, 0) : 0;
    if (ready == 0) {
        (void)leave_turn();
    }
    return ready;
}
