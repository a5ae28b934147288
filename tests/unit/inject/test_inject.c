/* Triggers, and the way of a fault through libfiu. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/inject/inject.h"
#include "harness/inject/rules.h"
#include "tests/ct.h"

#define RING_ENTRIES 256

static const struct harness_trigger any_trigger = {.step = -1,
                                                   .micro = -1,
                                                   .bucket = -1,
                                                   .param = -1,
                                                   .layer = -1,
                                                   .seq = -1,
                                                   .phase = -1,
                                                   .hit = 1,
                                                   .times = 1};

static bool matches(const struct harness_trigger *trigger, uint32_t step, enum ddp_phase phase,
                    int32_t bucket, uint64_t seq)
{
    const struct harness_place place = {step, 1, (int32_t)phase};
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;

    context.bucket = bucket;
    context.seq = seq;
    context.param = 4;
    context.layer = 2;
    return harness_trigger_matches(trigger, &place, &context);
}

/* A trigger without conditions matches everywhere. */
CT_TEST(inject, empty_trigger_matches_everything)
{
    CT_CHECK(matches(&any_trigger, 0, DDP_PHASE_SPAWN, -1, 0));
    CT_CHECK(matches(&any_trigger, 7, DDP_PHASE_BACKWARD, 3, 9));
}

/* Every condition that is set must hold. */
CT_TEST(inject, trigger_needs_every_condition)
{
    struct harness_trigger trigger = any_trigger;

    trigger.step = 5;
    trigger.micro = 1;
    trigger.phase = DDP_PHASE_BACKWARD;
    trigger.bucket = 1;
    trigger.param = 4;
    trigger.layer = 2;
    trigger.seq = 12;
    CT_CHECK(matches(&trigger, 5, DDP_PHASE_BACKWARD, 1, 12));
    CT_CHECK(!matches(&trigger, 4, DDP_PHASE_BACKWARD, 1, 12));
    CT_CHECK(!matches(&trigger, 5, DDP_PHASE_FORWARD, 1, 12));
    CT_CHECK(!matches(&trigger, 5, DDP_PHASE_BACKWARD, 0, 12));
    CT_CHECK(!matches(&trigger, 5, DDP_PHASE_BACKWARD, -1, 12));
    CT_CHECK(!matches(&trigger, 5, DDP_PHASE_BACKWARD, 1, 13));
    trigger.micro = 0;
    CT_CHECK(!matches(&trigger, 5, DDP_PHASE_BACKWARD, 1, 12));
    trigger.micro = -1;
    trigger.param = 3;
    CT_CHECK(!matches(&trigger, 5, DDP_PHASE_BACKWARD, 1, 12));
    trigger.param = -1;
    trigger.layer = 0;
    CT_CHECK(!matches(&trigger, 5, DDP_PHASE_BACKWARD, 1, 12));
}

/* Set-up and teardown belong to no step, unless the trigger names the phase. */
CT_TEST(inject, steps_exclude_setup_and_teardown)
{
    struct harness_trigger trigger = any_trigger;

    trigger.step = 0;
    CT_CHECK(!matches(&trigger, 0, DDP_PHASE_INIT, -1, 1));
    CT_CHECK(!matches(&trigger, 0, DDP_PHASE_TEARDOWN, -1, 1));
    CT_CHECK(matches(&trigger, 0, DDP_PHASE_DATA, -1, 1));
    trigger.phase = DDP_PHASE_INIT;
    CT_CHECK(matches(&trigger, 0, DDP_PHASE_INIT, -1, 1));
}

/* hit counts matches from 1; times says how many fire from there on, 0 all of them. */
CT_TEST(inject, hits_are_counted)
{
    struct harness_trigger trigger = any_trigger;

    trigger.hit = 3;
    trigger.times = 2;
    CT_CHECK(!harness_trigger_is_hit(&trigger, 2));
    CT_CHECK(harness_trigger_is_hit(&trigger, 3));
    CT_CHECK(harness_trigger_is_hit(&trigger, 4));
    CT_CHECK(!harness_trigger_is_hit(&trigger, 5));
    trigger.times = 0;
    CT_CHECK(harness_trigger_is_hit(&trigger, 1000000));
}

struct witness {
    int kills, signal, exits, code;
    uint64_t stopped_ms, delayed_ms;
    uint64_t events_before; /* entries in the ring when the last action began */
    struct ddp_recorder *recorder;
};

static void note(struct witness *witness)
{
    witness->events_before = witness->recorder->page->event_count;
}

static void on_kill(void *context, int signal_number)
{
    struct witness *witness = context;

    note(witness);
    witness->kills++;
    witness->signal = signal_number;
}

static void on_exit_code(void *context, int code)
{
    struct witness *witness = context;

    note(witness);
    witness->exits++;
    witness->code = code;
}

static void on_stop(void *context, uint64_t ms)
{
    struct witness *witness = context;

    note(witness);
    witness->stopped_ms = ms;
}

static void on_delay(void *context, uint64_t ms)
{
    struct witness *witness = context;

    note(witness);
    witness->delayed_ms = ms;
}

struct fixture {
    struct ddp_mem_pool *pool;
    void *storage;
    struct ddp_recorder recorder;
    struct ddp_env env;
    struct witness witness;
    struct harness_victim victim;
    struct harness_fault faults[4];
    struct harness_plan plan;
    struct harness_injector *injector;
    struct ddp_fault_hook *hook;
};

static void add_fault(struct fixture *f, enum ddp_fault_point point, enum harness_action_kind kind)
{
    struct harness_fault *fault = &f->faults[f->plan.fault_count++];

    fault->at = any_trigger;
    fault->at.rank = 1;
    fault->point = point;
    fault->action.kind = kind;
}

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    CT_REQUIRE_OK(ddp_mem_pool_create(&f->pool));
    f->env.rank = 1;
    f->env.world_size = 4;
    f->env.mem = ddp_mem_pool_mem(f->pool);
    f->env.clock = ddp_clock_monotonic();
    f->env.recorder = &f->recorder;
    f->storage = f->env.mem->alloc(f->env.mem, ddp_recorder_size_bytes(RING_ENTRIES));
    CT_REQUIRE(f->storage != NULL);
    ddp_recorder_init(&f->recorder, f->storage, RING_ENTRIES, f->env.clock, 1, 4, 1);
    f->witness.recorder = &f->recorder;
    f->victim = (struct harness_victim){&f->witness, on_kill, on_exit_code, on_stop, on_delay};
    f->plan.faults = f->faults;
}

static void arm(struct fixture *f)
{
    CT_REQUIRE_OK(harness_injector_create(&f->env, &f->plan, &f->victim, &f->injector, NULL));
    f->hook = harness_injector_hook(f->injector);
}

static void fixture_fini(struct fixture *f)
{
    harness_injector_destroy(f->injector);
    harness_inject_close();
    ddp_mem_pool_destroy(f->pool);
}

static enum ddp_fault_action pass(struct fixture *f, enum ddp_fault_point point)
{
    return ddp_fault_point_plain(f->hook, point);
}

static uint64_t fired_count(const struct fixture *f)
{
    uint64_t count = 0;

    for (uint64_t i = 1; i <= f->recorder.page->event_count; i++) {
        struct ddp_event_entry entry;

        if (ddp_ring_read(f->recorder.ring, RING_ENTRIES, i, &entry) == DDP_OK &&
            entry.event == DDP_EVENT_FAULT_FIRED) {
            count++;
        }
    }
    return count;
}

/* A point that libfiu was never told of fires nothing, whatever the plan says. */
CT_TEST(inject, unregistered_point_fires_nothing)
{
    struct fixture f;

    fixture_init(&f);
    add_fault(&f, DDP_FAULT_POINT_STEP_BEGIN, HARNESS_ACTION_KILL);
    arm(&f);
    CT_CHECK(pass(&f, DDP_FAULT_POINT_STEP_BEGIN) == DDP_FAULT_GO);
    CT_CHECK(f.witness.kills == 0 && fired_count(&f) == 0);
    fixture_fini(&f);
}

/* After closing, registered points are silent again. */
CT_TEST(inject, closed_points_fire_nothing)
{
    struct fixture f;

    fixture_init(&f);
    add_fault(&f, DDP_FAULT_POINT_STEP_BEGIN, HARNESS_ACTION_FAIL);
    f.faults[0].at.times = 0;
    CT_REQUIRE_OK(harness_inject_open(&f.plan, NULL));
    arm(&f);
    CT_CHECK(pass(&f, DDP_FAULT_POINT_STEP_BEGIN) == DDP_FAULT_FAIL);
    harness_inject_close();
    CT_CHECK(pass(&f, DDP_FAULT_POINT_STEP_BEGIN) == DDP_FAULT_GO);
    fixture_fini(&f);
}

/* What passes while a point is closed is no match: it is libfiu's callback that counts. */
CT_TEST(inject, closed_points_do_not_count)
{
    struct fixture f;

    fixture_init(&f);
    add_fault(&f, DDP_FAULT_POINT_STEP_BEGIN, HARNESS_ACTION_FAIL);
    f.faults[0].at.hit = 2;
    CT_REQUIRE_OK(harness_inject_open(&f.plan, NULL));
    arm(&f);
    CT_CHECK(pass(&f, DDP_FAULT_POINT_STEP_BEGIN) == DDP_FAULT_GO);
    harness_inject_close();
    CT_CHECK(pass(&f, DDP_FAULT_POINT_STEP_BEGIN) == DDP_FAULT_GO);
    CT_REQUIRE_OK(harness_inject_open(&f.plan, NULL));
    CT_CHECK(pass(&f, DDP_FAULT_POINT_STEP_BEGIN) == DDP_FAULT_FAIL);
    CT_CHECK_EQ_U64(fired_count(&f), 1);
    fixture_fini(&f);
}

/* Only this rank's faults are armed, only their points call the hook. */
CT_TEST(inject, arms_only_its_own_points)
{
    struct fixture f;

    fixture_init(&f);
    add_fault(&f, DDP_FAULT_POINT_STEP_BEGIN, HARNESS_ACTION_FAIL);
    add_fault(&f, DDP_FAULT_POINT_LOSS, HARNESS_ACTION_FAIL);
    f.faults[1].at.rank = 2;
    CT_REQUIRE_OK(harness_inject_open(&f.plan, NULL));
    arm(&f);
    CT_CHECK_EQ_U64(f.hook->armed, UINT64_C(1) << DDP_FAULT_POINT_STEP_BEGIN);
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_GO);
    CT_CHECK(pass(&f, DDP_FAULT_POINT_STEP_BEGIN) == DDP_FAULT_FAIL);
    fixture_fini(&f);
}

/* The firing is in the ring, with fault, point and hit, before the action begins. */
CT_TEST(inject, records_before_it_acts)
{
    struct fixture f;
    struct ddp_event_entry entry;

    fixture_init(&f);
    add_fault(&f, DDP_FAULT_POINT_LOSS, HARNESS_ACTION_NONE);
    add_fault(&f, DDP_FAULT_POINT_STEP_BEGIN, HARNESS_ACTION_KILL);
    f.faults[1].action.signal = SIGKILL;
    f.faults[1].at.hit = 2;
    CT_REQUIRE_OK(harness_inject_open(&f.plan, NULL));
    arm(&f);
    CT_CHECK(pass(&f, DDP_FAULT_POINT_STEP_BEGIN) == DDP_FAULT_GO);
    CT_CHECK(f.witness.kills == 0);
    CT_CHECK(pass(&f, DDP_FAULT_POINT_STEP_BEGIN) == DDP_FAULT_GO);
    CT_CHECK(f.witness.kills == 1 && f.witness.signal == SIGKILL);
    CT_CHECK_EQ_U64(f.witness.events_before, 1);
    CT_REQUIRE_OK(ddp_ring_read(f.recorder.ring, RING_ENTRIES, 1, &entry));
    CT_CHECK(entry.event == DDP_EVENT_FAULT_FIRED && entry.arg[0] == 1 &&
             entry.arg[1] == DDP_FAULT_POINT_STEP_BEGIN && entry.arg[2] == 2);
    CT_CHECK_EQ_U64(f.recorder.page->last_point, DDP_FAULT_POINT_STEP_BEGIN + 1);
    fixture_fini(&f);
}

/* A dummy fault fires, is recorded, and changes nothing. */
CT_TEST(inject, dummy_fault_only_records)
{
    struct fixture f;

    fixture_init(&f);
    add_fault(&f, DDP_FAULT_POINT_LOSS, HARNESS_ACTION_NONE);
    CT_REQUIRE_OK(harness_inject_open(&f.plan, NULL));
    arm(&f);
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_GO);
    CT_CHECK_EQ_U64(fired_count(&f), 1);
    fixture_fini(&f);
}

/* Each action reaches the victim or the caller as it should. */
CT_TEST(inject, acts_as_planned)
{
    struct fixture f;

    fixture_init(&f);
    add_fault(&f, DDP_FAULT_POINT_LOSS, HARNESS_ACTION_NONE);
    f.faults[0].at.times = 0;
    CT_REQUIRE_OK(harness_inject_open(&f.plan, NULL));
    arm(&f);
    f.faults[0].action = (struct harness_action){.kind = HARNESS_ACTION_EXIT, .exit_code = 3};
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_GO);
    CT_CHECK(f.witness.exits == 1 && f.witness.code == 3);
    f.faults[0].action = (struct harness_action){.kind = HARNESS_ACTION_ABORT};
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_GO);
    CT_CHECK(f.witness.kills == 1 && f.witness.signal == SIGABRT);
    f.faults[0].action = (struct harness_action){.kind = HARNESS_ACTION_STOP, .stop_ms = 30};
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_GO);
    CT_CHECK_EQ_U64(f.witness.stopped_ms, 30);
    f.faults[0].action = (struct harness_action){.kind = HARNESS_ACTION_DELAY, .delay_ms = 20};
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_GO);
    CT_CHECK_EQ_U64(f.witness.delayed_ms, 20);
    f.faults[0].action = (struct harness_action){.kind = HARNESS_ACTION_HANG};
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_GO);
    CT_CHECK_EQ_U64(f.witness.delayed_ms, UINT64_MAX);
    f.faults[0].action = (struct harness_action){.kind = HARNESS_ACTION_SKIP};
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_SKIP);
    f.faults[0].action = (struct harness_action){.kind = HARNESS_ACTION_DUP};
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_DUP);
    f.faults[0].action = (struct harness_action){.kind = HARNESS_ACTION_FAIL};
    CT_CHECK(pass(&f, DDP_FAULT_POINT_LOSS) == DDP_FAULT_FAIL);
    fixture_fini(&f);
}

/* Two faults of one point both act; the first that asks for more than going on is answered. */
CT_TEST(inject, faults_of_one_point_add_up)
{
    struct fixture f;
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    float data[2] = {1.0f, 2.0f};

    fixture_init(&f);
    add_fault(&f, DDP_FAULT_POINT_GRAD_READY, HARNESS_ACTION_CORRUPT);
    f.faults[0].action.corrupt = HARNESS_CORRUPT_DOUBLE;
    add_fault(&f, DDP_FAULT_POINT_GRAD_READY, HARNESS_ACTION_SKIP);
    CT_REQUIRE_OK(harness_inject_open(&f.plan, NULL));
    arm(&f);
    context.data = data;
    context.elem_count = 2;
    CT_CHECK(ddp_fault_point(f.hook, DDP_FAULT_POINT_GRAD_READY, &context) == DDP_FAULT_SKIP);
    CT_CHECK(data[0] == 2.0f && data[1] == 4.0f);
    CT_CHECK_EQ_U64(fired_count(&f), 2);
    fixture_fini(&f);
}

/* Without a recorder no trigger could know its step: refused, not ignored. */
CT_TEST(inject, needs_a_recorder)
{
    struct fixture f;

    fixture_init(&f);
    f.env.recorder = NULL;
    CT_CHECK_STATUS(harness_injector_create(&f.env, &f.plan, &f.victim, &f.injector, NULL),
                    DDP_E_INVALID);
    ddp_mem_pool_destroy(f.pool);
}

/* Run an action of the process victim in a child; returns its wait status. */
static int child_status(void (*act)(const struct harness_victim *victim))
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        act(harness_victim_process());
        _exit(99);
    }
    (void)waitpid(child, &status, WUNTRACED);
    if (WIFSTOPPED(status)) {
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    }
    return status;
}

static void act_kill(const struct harness_victim *victim)
{
    victim->kill(victim->context, SIGKILL);
}

static void act_exit(const struct harness_victim *victim)
{
    victim->exit(victim->context, 7);
}

static void act_stop(const struct harness_victim *victim)
{
    victim->stop(victim->context, 0);
}

static void act_delay(const struct harness_victim *victim)
{
    uint64_t before_ns = ddp_clock_now_ns(ddp_clock_monotonic());

    victim->delay(victim->context, 20);
    _exit(ddp_clock_now_ns(ddp_clock_monotonic()) - before_ns >= 20 * DDP_NS_PER_MS ? 0 : 1);
}

/* The victim of a real process really dies, exits, stops and sleeps. */
CT_TEST(inject, process_victim_is_real)
{
    int status = child_status(act_kill);

    CT_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    status = child_status(act_exit);
    CT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    status = child_status(act_stop);
    CT_CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    status = child_status(act_delay);
    CT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
