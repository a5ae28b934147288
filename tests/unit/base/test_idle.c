/* Waiting: ddp_wait's contract in virtual time, and doorbells between real threads. */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/idle.h"
#include "tests/ct.h"

/* Idles by moving a virtual clock. */
struct step_idle {
    struct ddp_idle base;
    struct ddp_clock_virtual clock;
    struct ddp_idle_hint last;
    int wait_count;
};

static void step_wait(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    struct step_idle *self = (struct step_idle *)idle;

    self->last = *hint;
    self->wait_count++;
    ddp_clock_virtual_advance_to(&self->clock, self->clock.time_ns + 10);
}

static void step_progress(struct ddp_idle *idle)
{
    (void)idle;
}

static void step_idle_init(struct step_idle *idle)
{
    static const struct ddp_idle_ops ops = {step_wait, step_progress};

    memset(idle, 0, sizeof(*idle));
    idle->base.ops = &ops;
    ddp_clock_virtual_init(&idle->clock, 1000);
}

struct countdown {
    int polls_left;
    ddp_status result;
};

static ddp_status countdown_poll(void *self)
{
    struct countdown *countdown = (struct countdown *)self;

    return countdown->polls_left-- > 0 ? DDP_PENDING : countdown->result;
}

/* Polls until the operation ends and returns its status, idling once for each PENDING. */
CT_TEST(idle, wait_returns_the_final_status)
{
    struct countdown countdown = {3, DDP_E_PEER_DIED};
    struct ddp_pollable pollable = {countdown_poll, NULL, &countdown};
    struct step_idle idle;

    step_idle_init(&idle);
    CT_CHECK_STATUS(ddp_wait(&idle.base, &idle.clock.base, &pollable, DDP_DEADLINE_NEVER),
                    DDP_E_PEER_DIED);
    CT_CHECK_EQ_I64(idle.wait_count, 3);
    CT_CHECK_EQ_U64(idle.last.started_ns, 1000);
    CT_CHECK_EQ_U64(idle.last.deadline_ns, DDP_DEADLINE_NEVER);
    CT_CHECK_EQ_I64(idle.last.fd, -1);
    CT_CHECK(idle.last.doorbell == NULL);
}

struct counting {
    struct ddp_idle_attendant base;
    int count;
    uint64_t last_ns;
};

static void count_attend(struct ddp_idle_attendant *attendant, uint64_t now_ns)
{
    struct counting *self = (struct counting *)attendant;

    self->count++;
    self->last_ns = now_ns;
}

/* Whoever was added is called once for each time that passes, and no more once it is removed. */
CT_TEST(idle, attends_to_others_while_it_waits)
{
    struct countdown countdown = {3, DDP_OK};
    struct ddp_pollable pollable = {countdown_poll, NULL, &countdown};
    struct counting attendants[3];
    struct step_idle idle;

    step_idle_init(&idle);
    for (size_t i = 0; i < 3; i++) {
        attendants[i] = (struct counting){.base.attend = count_attend};
        ddp_idle_add(&idle.base, &attendants[i].base);
    }
    ddp_idle_remove(&idle.base, &attendants[1].base);
    CT_CHECK_OK(ddp_wait(&idle.base, &idle.clock.base, &pollable, DDP_DEADLINE_NEVER));
    CT_CHECK_EQ_I64(attendants[0].count, 3);
    CT_CHECK_EQ_I64(attendants[1].count, 0);
    CT_CHECK_EQ_I64(attendants[2].count, 3);
    CT_CHECK(attendants[0].last_ns >= 1000 && attendants[0].last_ns <= idle.clock.time_ns);
    ddp_idle_remove(&idle.base, &attendants[0].base);
    ddp_idle_remove(&idle.base, &attendants[2].base);
    CT_CHECK(idle.base.attendants == NULL);
}

/* Gives up at the deadline, and polls once even when it has passed already. */
CT_TEST(idle, wait_times_out)
{
    struct countdown never = {1000, DDP_OK};
    struct countdown done = {0, DDP_OK};
    struct ddp_pollable pollable = {countdown_poll, NULL, &never};
    struct step_idle idle;

    step_idle_init(&idle);
    CT_CHECK_STATUS(ddp_wait(&idle.base, &idle.clock.base, &pollable, 1050), DDP_E_TIMEOUT);
    CT_CHECK_EQ_U64(idle.clock.time_ns, 1050);
    CT_CHECK_STATUS(ddp_wait(&idle.base, &idle.clock.base, &pollable, 1), DDP_E_TIMEOUT);
    pollable.self = &done;
    CT_CHECK_OK(ddp_wait(&idle.base, &idle.clock.base, &pollable, 1));
}

/* Two threads that hand a turn to and fro, each with its own doorbell. */
struct turn {
    uint32_t value;
    uint32_t doorbell[2];
    uint32_t sleep[2];
};

struct player {
    struct turn *turn;
    uint32_t side;
    uint32_t target;
    bool may_spin;
    bool is_slow; /* lets the other side fall asleep before it rings */
    ddp_status status;
};

static ddp_status turn_poll(void *self)
{
    struct player *player = (struct player *)self;

    return __atomic_load_n(&player->turn->value, __ATOMIC_ACQUIRE) == player->target ? DDP_OK
                                                                                     : DDP_PENDING;
}

static void turn_hint(void *self, struct ddp_idle_hint *hint)
{
    struct player *player = (struct player *)self;

    hint->doorbell = &player->turn->doorbell[player->side];
    hint->doorbell_sleep = &player->turn->sleep[player->side];
    hint->doorbell_seen = __atomic_load_n(hint->doorbell, __ATOMIC_ACQUIRE);
}

static void spend_us(uint64_t us)
{
    struct ddp_clock *clock = ddp_clock_monotonic();
    uint64_t until_ns = ddp_clock_deadline_ns(clock, us * DDP_NS_PER_US);

    while (ddp_clock_now_ns(clock) < until_ns) {
    }
}

static void *play(void *argument)
{
    enum { ROUNDS = 200 };
    struct player *player = (struct player *)argument;
    struct ddp_clock *clock = ddp_clock_monotonic();
    struct ddp_pollable pollable = {turn_poll, turn_hint, player};
    struct ddp_idle_process idle;
    uint32_t other = 1 - player->side;

    ddp_idle_process_init(&idle, clock, player->may_spin);
    player->status = DDP_OK;
    for (uint32_t i = 0; i < ROUNDS && player->status == DDP_OK; i++) {
        player->target = 2 * i + player->side;
        player->status =
            ddp_wait(&idle.base, clock, &pollable, ddp_clock_deadline_ns(clock, 20 * DDP_NS_PER_S));
        if (player->is_slow && i % 8 == 0) {
            spend_us(400);
        }
        __atomic_store_n(&player->turn->value, player->target + 1, __ATOMIC_RELEASE);
        ddp_doorbell_ring(&player->turn->doorbell[other], &player->turn->sleep[other]);
    }
    return NULL;
}

static void check_turns(bool may_spin)
{
    struct turn turn;
    struct player players[2] = {{&turn, 0, 0, may_spin, false, DDP_OK},
                                {&turn, 1, 0, may_spin, true, DDP_OK}};
    pthread_t threads[2];

    memset(&turn, 0, sizeof(turn));
    for (int i = 0; i < 2; i++) {
        CT_REQUIRE(pthread_create(&threads[i], NULL, play, &players[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CT_CHECK(pthread_join(threads[i], NULL) == 0);
        CT_CHECK_OK(players[i].status);
    }
    CT_CHECK_EQ_U64(turn.value, 400);
}

/* No ring is lost, whether the waiter spins, yields or sleeps when it comes. */
CT_TEST(idle, doorbell_wakes_without_spinning)
{
    check_turns(false);
}

/* The same with spinning allowed. */
CT_TEST(idle, doorbell_wakes_with_spinning)
{
    check_turns(true);
}

static ddp_status pending_poll(void *self)
{
    (void)self;
    return DDP_PENDING;
}

/* A doorbell that never rings. */
static void quiet_hint(void *self, struct ddp_idle_hint *hint)
{
    struct turn *turn = (struct turn *)self;

    hint->doorbell = &turn->doorbell[0];
    hint->doorbell_sleep = &turn->sleep[0];
    hint->doorbell_seen = 0;
}

/* A wait that nobody ends lasts to its deadline and not much longer, with or without a doorbell. */
CT_TEST(idle, process_wait_ends_at_the_deadline)
{
    struct ddp_clock *clock = ddp_clock_monotonic();
    struct ddp_idle_process idle;
    struct turn turn;

    memset(&turn, 0, sizeof(turn));
    ddp_idle_process_init(&idle, clock, true);
    for (int with_doorbell = 0; with_doorbell < 2; with_doorbell++) {
        struct ddp_pollable pollable = {pending_poll, with_doorbell ? quiet_hint : NULL, &turn};
        uint64_t deadline_ns = ddp_clock_deadline_ns(clock, 5 * DDP_NS_PER_MS);
        uint64_t end_ns;

        CT_CHECK_STATUS(ddp_wait(&idle.base, clock, &pollable, deadline_ns), DDP_E_TIMEOUT);
        end_ns = ddp_clock_now_ns(clock);
        CT_CHECK(end_ns >= deadline_ns);
        CT_CHECK(end_ns < deadline_ns + DDP_NS_PER_S); /* generous: the machine may be busy */
        CT_CHECK_EQ_U64(turn.sleep[0], 0);
    }
}

struct pipe_wait {
    int fd;
};

static ddp_status pipe_poll(void *self)
{
    struct pollfd watched = {((struct pipe_wait *)self)->fd, POLLIN, 0};

    return poll(&watched, 1, 0) == 1 ? DDP_OK : DDP_PENDING;
}

static void pipe_hint(void *self, struct ddp_idle_hint *hint)
{
    hint->fd = ((struct pipe_wait *)self)->fd;
    hint->fd_events = POLLIN;
}

static void *write_late(void *argument)
{
    spend_us(2000);
    CT_CHECK(write(*(const int *)argument, "x", 1) == 1);
    return NULL;
}

/* An observer sees when the last wait began, and when it last looked. */
CT_TEST(idle, polls_are_noted)
{
    struct ddp_clock *clock = ddp_clock_monotonic();
    struct ddp_pollable pollable = {pending_poll, NULL, NULL};
    struct ddp_idle_polls polls = {0, 0};
    struct ddp_idle_process idle;
    uint64_t begin_ns = ddp_clock_now_ns(clock), first_ns;

    ddp_idle_process_init(&idle, clock, false);
    idle.polls = &polls;
    for (int i = 0; i < 2; i++) {
        first_ns = polls.started_ns;
        CT_CHECK_EQ_I64(
            ddp_wait(&idle.base, clock, &pollable, ddp_clock_deadline_ns(clock, 2 * DDP_NS_PER_MS)),
            DDP_E_TIMEOUT);
        CT_CHECK(polls.started_ns >= begin_ns && polls.started_ns > first_ns);
        CT_CHECK(polls.polled_ns > polls.started_ns && polls.polled_ns <= ddp_clock_now_ns(clock));
        begin_ns = polls.polled_ns;
    }
}

/* A wait on a descriptor ends when it becomes readable. */
CT_TEST(idle, descriptor_wakes)
{
    struct ddp_clock *clock = ddp_clock_monotonic();
    struct pipe_wait wait;
    struct ddp_pollable pollable = {pipe_poll, pipe_hint, &wait};
    struct ddp_idle_process idle;
    pthread_t thread;
    int ends[2];

    CT_REQUIRE(pipe(ends) == 0);
    wait.fd = ends[0];
    ddp_idle_process_init(&idle, clock, false);
    CT_REQUIRE(pthread_create(&thread, NULL, write_late, &ends[1]) == 0);
    CT_CHECK_OK(
        ddp_wait(&idle.base, clock, &pollable, ddp_clock_deadline_ns(clock, 20 * DDP_NS_PER_S)));
    CT_CHECK(pthread_join(thread, NULL) == 0);
    CT_CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}
