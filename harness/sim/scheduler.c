/* The seeded scheduler. All choices are drawn from one random stream, in one order, so a seed
 * determines the schedule. Timers are lazy: an actor has at most one live timer in the heap. If the
 * deadline has moved when the timer fires, it is set again; so a wait that ends before its deadline
 * costs nothing. */
#include "harness/sim/scheduler.h"

#include <string.h>

/* Room for the deepest rank program (OpenBLAS, printf of a double); sanitizers pad every frame. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_BYTES ((size_t)1024 * 1024)
#else
#define STACK_BYTES ((size_t)256 * 1024)
#endif

/* A run takes 1 to 5 us of the rank's time. */
#define RUN_NS_MIN  UINT64_C(1000)
#define RUN_NS_SPAN UINT64_C(4001)
/* At one progress point in so many, another actor may run. */
#define YIELD_ONE_IN UINT64_C(4)

static bool is_before(const struct harness_sim_event *a, const struct harness_sim_event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

static void heap_swap(struct harness_sim_event *heap, size_t a, size_t b)
{
    struct harness_sim_event held = heap[a];

    heap[a] = heap[b];
    heap[b] = held;
}

static bool heap_grow(struct harness_sim_scheduler *scheduler)
{
    struct harness_sim_event *heap =
        ddp_mem_grow(scheduler->mem, scheduler->heap, scheduler->heap_count,
                     &scheduler->heap_capacity, sizeof *heap);

    if (heap == NULL) {
        scheduler->is_out_of_memory = true;
        return false;
    }
    scheduler->heap = heap;
    return true;
}

static void heap_push(struct harness_sim_scheduler *scheduler, uint64_t time_ns, uint32_t actor,
                      bool is_timer)
{
    size_t at = scheduler->heap_count;

    if (!heap_grow(scheduler)) {
        return;
    }
    scheduler->heap[at] = (struct harness_sim_event){.time_ns = time_ns,
                                                     .order = scheduler->event_order++,
                                                     .actor = actor,
                                                     .is_timer = is_timer};
    scheduler->heap_count++;
    scheduler->message_event_count += is_timer ? 0 : 1;
    /* The parent of i is (i - 1) / 2. */
    while (at > 0 && is_before(&scheduler->heap[at], &scheduler->heap[(at - 1) / 2])) {
        heap_swap(scheduler->heap, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

static struct harness_sim_event heap_pop(struct harness_sim_scheduler *scheduler)
{
    struct harness_sim_event *heap = scheduler->heap;
    struct harness_sim_event first = heap[0];
    size_t count;
    size_t at = 0;

    DDP_ASSERT(scheduler->heap_count > 0);
    count = --scheduler->heap_count;
    heap[0] = heap[count];
    for (;;) {
        /* The children of i are 2i + 1 and 2i + 2. */
        size_t least = at;
        size_t child = 2 * at + 1;

        if (child < count && is_before(&heap[child], &heap[least])) {
            least = child;
        }
        if (child + 1 < count && is_before(&heap[child + 1], &heap[least])) {
            least = child + 1;
        }
        if (least == at) {
            break;
        }
        heap_swap(heap, at, least);
        at = least;
    }
    scheduler->message_event_count -= first.is_timer ? 0 : 1;
    return first;
}

static void make_ready(struct harness_sim_scheduler *scheduler, struct harness_sim_actor *actor)
{
    DDP_ASSERT(actor->state != HARNESS_SIM_ACTOR_GONE);
    actor->state = HARNESS_SIM_ACTOR_READY;
    actor->ready_index = scheduler->ready_count;
    scheduler->ready[scheduler->ready_count++] = (uint32_t)(actor - scheduler->actors);
}

static void make_unready(struct harness_sim_scheduler *scheduler, struct harness_sim_actor *actor,
                         enum harness_sim_actor_state state)
{
    if (actor->state == HARNESS_SIM_ACTOR_READY) {
        uint32_t last;

        DDP_ASSERT(actor->ready_index < scheduler->ready_count &&
                   &scheduler->actors[scheduler->ready[actor->ready_index]] == actor);
        last = scheduler->ready[--scheduler->ready_count];
        scheduler->ready[actor->ready_index] = last;
        scheduler->actors[last].ready_index = actor->ready_index;
    }
    actor->state = state;
}

/* Whether an event still concerns its actor. A timer that fired early is set again. */
static bool is_event_due(struct harness_sim_scheduler *scheduler,
                         const struct harness_sim_event *event)
{
    struct harness_sim_actor *actor = &scheduler->actors[event->actor];
    bool is_waiting =
        actor->state == HARNESS_SIM_ACTOR_PARKED || actor->state == HARNESS_SIM_ACTOR_ASLEEP;

    if (!event->is_timer) {
        return actor->state == HARNESS_SIM_ACTOR_PARKED;
    }
    if (event->time_ns != actor->timer_ns) {
        return false;
    }
    if (is_waiting && actor->deadline_ns <= event->time_ns) {
        return true;
    }
    actor->timer_ns = DDP_DEADLINE_NEVER;
    if (is_waiting && actor->deadline_ns != DDP_DEADLINE_NEVER) {
        actor->timer_ns = actor->deadline_ns;
        heap_push(scheduler, actor->deadline_ns, event->actor, true);
    }
    return false;
}

uint64_t harness_sim_scheduler_next_ns(struct harness_sim_scheduler *scheduler)
{
    while (scheduler->heap_count > 0) {
        struct harness_sim_event first = scheduler->heap[0];

        /* A message's arrival counts even if its receiver is busy: it is still under way. */
        if (!first.is_timer && scheduler->actors[first.actor].state != HARNESS_SIM_ACTOR_GONE) {
            return first.time_ns;
        }
        if (first.is_timer && is_event_due(scheduler, &first)) {
            return first.time_ns;
        }
        /* A timer that is_event_due has set again is later, so this pops `first`. */
        (void)heap_pop(scheduler);
    }
    return DDP_DEADLINE_NEVER;
}

void harness_sim_scheduler_deliver(struct harness_sim_scheduler *scheduler)
{
    uint64_t now_ns = scheduler->clock.time_ns;

    while (scheduler->heap_count > 0 && scheduler->heap[0].time_ns <= now_ns) {
        struct harness_sim_event event = heap_pop(scheduler);
        struct harness_sim_actor *actor = &scheduler->actors[event.actor];

        actor->is_woken =
            actor->is_woken || (!event.is_timer && actor->state == HARNESS_SIM_ACTOR_ASLEEP);
        if (!is_event_due(scheduler, &event)) {
            continue;
        }
        if (event.is_timer) {
            actor->timer_ns = DDP_DEADLINE_NEVER;
        }
        make_ready(scheduler, actor);
    }
}

uint32_t harness_sim_scheduler_run_one(struct harness_sim_scheduler *scheduler)
{
    uint64_t pick = ddp_prng_below(&scheduler->prng, scheduler->ready_count);
    uint32_t index = scheduler->ready[pick];
    struct harness_sim_actor *actor = &scheduler->actors[index];

    DDP_ASSERT(actor->state == HARNESS_SIM_ACTOR_READY);
    scheduler->clock.time_ns += RUN_NS_MIN + ddp_prng_below(&scheduler->prng, RUN_NS_SPAN);
    scheduler->switch_count++;
    scheduler->running = actor;
    harness_fiber_resume(actor->fiber);
    scheduler->running = NULL;
    return index;
}

bool harness_sim_scheduler_is_stable(const struct harness_sim_scheduler *scheduler)
{
    return scheduler->ready_count == 0 && scheduler->message_event_count == 0;
}

void harness_sim_scheduler_remove(struct harness_sim_scheduler *scheduler, uint32_t index)
{
    struct harness_sim_actor *actor = &scheduler->actors[index];

    if (actor->state == HARNESS_SIM_ACTOR_GONE) {
        return;
    }
    make_unready(scheduler, actor, HARNESS_SIM_ACTOR_GONE);
    scheduler->live_count--;
    harness_fiber_destroy(actor->fiber);
    actor->fiber = NULL;
}

void harness_sim_scheduler_wake(struct harness_sim_scheduler *scheduler, uint32_t index,
                                uint64_t at_ns)
{
    DDP_ASSERT(index < scheduler->actor_count);
    if (scheduler->actors[index].state != HARNESS_SIM_ACTOR_GONE) {
        heap_push(scheduler, at_ns, index, false);
    }
}

static void set_timer(struct harness_sim_actor *actor, uint64_t deadline_ns)
{
    struct harness_sim_scheduler *scheduler = actor->scheduler;

    actor->deadline_ns = deadline_ns;
    /* An earlier live timer sets itself again when it fires; a later one is replaced. */
    if (deadline_ns < actor->timer_ns) {
        actor->timer_ns = deadline_ns;
        heap_push(scheduler, deadline_ns, (uint32_t)(actor - scheduler->actors), true);
    }
}

static void actor_wait(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    struct harness_sim_actor *actor = (struct harness_sim_actor *)idle;

    if (actor->is_woken) {
        actor->is_woken = false;
        return;
    }
    set_timer(actor, hint->deadline_ns);
    make_unready(actor->scheduler, actor, HARNESS_SIM_ACTOR_PARKED);
    harness_fiber_yield(actor->fiber);
}

static void actor_progress(struct ddp_idle *idle)
{
    struct harness_sim_actor *actor = (struct harness_sim_actor *)idle;

    if (ddp_prng_below(&actor->scheduler->prng, YIELD_ONE_IN) == 0) {
        harness_fiber_yield(actor->fiber);
    }
}

static const struct ddp_idle_ops actor_idle_ops = {.wait = actor_wait, .progress = actor_progress};

void harness_sim_actor_sleep(struct harness_sim_actor *actor, uint64_t until_ns)
{
    set_timer(actor, until_ns);
    make_unready(actor->scheduler, actor, HARNESS_SIM_ACTOR_ASLEEP);
    harness_fiber_yield(actor->fiber);
}

void harness_sim_actor_halt(struct harness_sim_actor *actor)
{
    harness_sim_actor_sleep(actor, DDP_DEADLINE_NEVER);
    DDP_ASSERT(!"a halted actor was resumed");
    __builtin_unreachable();
}

ddp_status harness_sim_scheduler_init(struct harness_sim_scheduler *scheduler, struct ddp_mem *mem,
                                      const struct harness_sim_scheduler_config *config)
{
    memset(scheduler, 0, sizeof *scheduler);
    scheduler->mem = mem;
    ddp_clock_virtual_init(&scheduler->clock, config->start_ns);
    scheduler->prng = ddp_prng_make(config->seed, "scheduler");
    scheduler->actors = ddp_mem_array(mem, config->actor_count, sizeof scheduler->actors[0]);
    scheduler->ready = ddp_mem_array(mem, config->actor_count, sizeof scheduler->ready[0]);
    if (scheduler->actors == NULL || scheduler->ready == NULL) {
        harness_sim_scheduler_fini(scheduler);
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < config->actor_count; i++) {
        struct harness_sim_actor *actor = &scheduler->actors[i];
        ddp_status status =
            harness_fiber_create(STACK_BYTES, config->entry,
                                 config->contexts + i * config->context_bytes, &actor->fiber);

        if (status != DDP_OK) {
            harness_sim_scheduler_fini(scheduler);
            return status;
        }
        actor->idle.ops = &actor_idle_ops;
        actor->scheduler = scheduler;
        actor->timer_ns = DDP_DEADLINE_NEVER;
        scheduler->actor_count++;
        scheduler->live_count++;
        make_ready(scheduler, actor);
    }
    return DDP_OK;
}

void harness_sim_scheduler_fini(struct harness_sim_scheduler *scheduler)
{
    if (scheduler->mem == NULL) {
        return;
    }
    DDP_ASSERT(scheduler->actors != NULL || scheduler->actor_count == 0);
    for (uint32_t i = 0; i < scheduler->actor_count; i++) {
        harness_fiber_destroy(scheduler->actors[i].fiber);
    }
    ddp_mem_free(scheduler->mem, scheduler->actors);
    ddp_mem_free(scheduler->mem, scheduler->ready);
    ddp_mem_free(scheduler->mem, scheduler->heap);
    memset(scheduler, 0, sizeof *scheduler);
}
