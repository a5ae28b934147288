/* The guest library in this process, and who reads what it writes. One test, because a process
 * attaches once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"
#include "harness/watch/arena.h"
#include "tests/ct.h"

enum { THREADS = 8, CALLS = 2000, RANKS = 3, RANK = 1 };

static uint32_t comms[THREADS];

/* Calls of one communicator, in turns of those that block and those that do not. */
static void *post_many(void *argument)
{
    const uint32_t comm = *(const uint32_t *)argument;
    const uint32_t model = (uint32_t)((const uint32_t *)argument - comms);
    char names[2][64];
    const char *const told[] = {names[0], names[1]};

    (void)snprintf(names[0], sizeof names[0], "weight of model %u", model);
    (void)snprintf(names[1], sizeof names[1], "a name that is longer than one entry holds %u",
                   model);
    for (uint64_t i = 0; i < CALLS; i++) {
        struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                          .comm = comm,
                                          .kind = DDPROVE_GUEST_BARRIER,
                                          .elem_count = i,
                                          .bucket = 6,
                                          .model = model};

        if (i % 64 == 0) {
            ddprove_guest_bucket(model, 5, told, 1 + (uint32_t)(i / 64 % 2));
        }
        if (i % 2 == 0) {
            CT_CHECK_EQ_I64(ddprove_guest_call_begin(&call), 1);
            ddprove_guest_call_end(&call);
        } else {
            CT_CHECK_EQ_I64(ddprove_guest_call_post(&call), 1);
            ddprove_guest_call_done(&call);
        }
        CT_CHECK_EQ_U64(call.seq, i + 1);
        ddprove_guest_step(i);
    }
    return NULL;
}

/* Before anybody watches, and in a process that is not a rank. */
static void check_nothing_happens(void)
{
    struct ddprove_guest_call call = {
        .size_bytes = sizeof call, .comm = 1, .kind = DDPROVE_GUEST_BARRIER};
    struct ddprove_guest_place place = {.size_bytes = sizeof place,
                                        .point = DDPROVE_GUEST_POINT_DATA_NEXT};

    CT_CHECK_EQ_I64(ddprove_guest_is_watched(), 0);
    CT_CHECK_EQ_U64(ddprove_guest_comm_create(1, 0, 1, "x"), 0);
    CT_CHECK_EQ_I64(ddprove_guest_call_begin(&call), 1);
    ddprove_guest_call_end(&call);
    CT_CHECK_EQ_U64(call.seq, 0);
    CT_CHECK_EQ_I64(ddprove_guest_asks_updated(), 0);
    CT_CHECK_EQ_I64(ddprove_guest_asks_update_begin(), 0);
    ddprove_guest_step(1);
    ddprove_guest_bucket(0, 0, NULL, 0);
    ddprove_guest_unused(0, NULL, 0, 0);
    ddprove_guest_keys(DDPROVE_GUEST_SAVED, NULL, 0, NULL, 0);
    CT_CHECK_EQ_I64(ddprove_guest_wants(DDPROVE_GUEST_POINT_DATA_NEXT, NULL), 0);
    CT_CHECK_EQ_I64(ddprove_guest_wants_calls(0), 0);
    CT_CHECK_EQ_I64(ddprove_guest_pass(&place), 1);
    ddprove_guest_detach();
}

/* A forked child is not watched, and cannot take its parent's place. */
static void check_child(void)
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        _exit(ddprove_guest_is_watched() == 0 && ddprove_guest_attach(RANK, RANKS) == 0 ? 0 : 1);
    }
    CT_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void check_refusals(const struct harness_watch_arena *arena)
{
    char wrong[HARNESS_WATCH_WHERE_BYTES + 8];

    CT_CHECK_EQ_I64(ddprove_guest_attach(RANK, RANKS), 0); /* no variable */
    (void)snprintf(wrong, sizeof wrong, "%.*s:1", (int)(strrchr(arena->where, ':') - arena->where),
                   arena->where);
    (void)setenv(GUEST_ARENA_VARIABLE, wrong, 1);
    CT_CHECK_EQ_I64(ddprove_guest_attach(RANK, RANKS), 0); /* another job's number */
    (void)setenv(GUEST_ARENA_VARIABLE, "/dev/null:1", 1);
    CT_CHECK_EQ_I64(ddprove_guest_attach(RANK, RANKS), 0);
    (void)setenv(GUEST_ARENA_VARIABLE, arena->where, 1);
    CT_CHECK_EQ_I64(ddprove_guest_attach(RANKS, RANKS), 0); /* no such rank */
    CT_CHECK_EQ_I64(ddprove_guest_attach(-1, -1), 0);       /* nobody says which rank it is */
}

static void read_all(struct harness_watch *watch, pthread_t *threads)
{
    uint64_t now_ns = 1;

    for (int i = 0; i < THREADS; i++) {
        CT_CHECK(pthread_create(&threads[i], NULL, post_many, &comms[i]) == 0);
    }
    for (bool is_over = false; !is_over; now_ns++) {
        is_over = true;
        harness_watch_read(watch, now_ns);
        for (size_t g = 0; g < watch->group_count; g++) {
            is_over = is_over && watch->groups[g].members[RANK].posted == CALLS;
        }
        is_over = is_over && watch->group_count == THREADS;
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    harness_watch_read(watch, now_ns);
}

/* --- faults
 * -------------------------------------------------------------------------------------------------------
 */

static const char faulty[] = "faulty"; /* name of the communicator that the faults are for */

static void arm(struct guest_arena *arena, struct guest_fault fault)
{
    memcpy(fault.comm, faulty, sizeof faulty);
    fault.hit = fault.hit == 0 ? 1 : fault.hit;
    fault.times = fault.times == 0 ? 1 : fault.times;
    arena->faults[arena->fault_count++] = fault;
}

static void arm_all(struct guest_arena *arena)
{
    const double factor = 0.5;
    uint64_t factor_bits;

    memcpy(&factor_bits, &factor, sizeof factor_bits);
    arm(arena,
        (struct guest_fault){.point = GUEST_POINT_POST, .seq = 2, .action = GUEST_ACTION_SKIP});
    arm(arena, (struct guest_fault){.point = GUEST_POINT_POST,
                                    .rank = RANK + 1,
                                    .bucket = 7,
                                    .hit = 2,
                                    .action = GUEST_ACTION_TWICE});
    arm(arena, (struct guest_fault){
                   .point = GUEST_POINT_POST, .rank = RANK + 2, .action = GUEST_ACTION_SKIP});
    arm(arena, (struct guest_fault){.point = GUEST_POINT_POST,
                                    .elem_count = 100 + 1,
                                    .action = GUEST_ACTION_ELEMS,
                                    .value = 60});
    arm(arena, (struct guest_fault){.point = GUEST_POINT_POST,
                                    .kind = DDPROVE_GUEST_BROADCAST + 1,
                                    .action = GUEST_ACTION_ROOT,
                                    .value = 2});
    arm(arena, (struct guest_fault){.point = GUEST_POINT_POST,
                                    .step = 50 + 1,
                                    .action = GUEST_ACTION_FLIP,
                                    .elem = 1,
                                    .value = 31});
    arm(arena, (struct guest_fault){.point = GUEST_POINT_DONE,
                                    .step = 51 + 1,
                                    .action = GUEST_ACTION_SCALE,
                                    .value = factor_bits});
    arm(arena, (struct guest_fault){.point = GUEST_POINT_POST,
                                    .step = 52 + 1,
                                    .action = GUEST_ACTION_REDOP,
                                    .value = DDPROVE_GUEST_MAX});
}

static struct ddprove_guest_call call_of(uint32_t comm, uint64_t elem_count)
{
    return (struct ddprove_guest_call){.size_bytes = sizeof(struct ddprove_guest_call),
                                       .comm = comm,
                                       .kind = DDPROVE_GUEST_ALL_REDUCE,
                                       .dtype = DDPROVE_GUEST_F32,
                                       .redop = DDPROVE_GUEST_SUM,
                                       .elem_count = elem_count};
}

/* How often the program is told to make the call. */
static int make(struct ddprove_guest_call *call)
{
    const int times = ddprove_guest_call_begin(call);

    ddprove_guest_call_end(call);
    return times;
}

static void check_arguments(uint32_t comm)
{
    struct ddprove_guest_call call = call_of(comm, 10);

    CT_CHECK_EQ_I64(make(&call), 1);
    CT_CHECK_EQ_I64(make(&call), 0); /* number 2 is left out, and so is its number */
    CT_CHECK_EQ_U64(call.seq, 0);
    call.bucket = 7;
    CT_CHECK_EQ_I64(make(&call), 1);
    CT_CHECK_EQ_U64(call.seq, 2);
    CT_CHECK_EQ_I64(make(&call), 2);
    CT_CHECK_EQ_U64(call.seq, 4); /* both have a number */
    CT_CHECK_EQ_I64(make(&call), 1);
    call = call_of(comm, 100);
    CT_CHECK_EQ_I64(make(&call), 1);
    CT_CHECK_EQ_U64(call.elem_count, 60);
    call = call_of(comm, 10);
    call.kind = DDPROVE_GUEST_BROADCAST;
    CT_CHECK_EQ_I64(make(&call), 1);
    CT_CHECK_EQ_U64(call.root, 2);
}

/* What the program only reads stays as it is; the call gets a changed copy. */
static void check_values(uint32_t comm)
{
    const float in[2] = {1, 2};
    float out[2] = {8, 16};
    struct ddprove_guest_call call = call_of(comm, 2);

    call.in = in;
    call.out = out;
    ddprove_guest_step(50);
    CT_CHECK_EQ_I64(ddprove_guest_call_begin(&call), 1);
    CT_CHECK(call.in != in && ((const float *)call.in)[0] == 1 &&
             ((const float *)call.in)[1] == -2 && in[1] == 2);
    ddprove_guest_call_end(&call);
    ddprove_guest_step(51);
    call = call_of(comm, 2);
    call.out = out;
    CT_CHECK_EQ_I64(make(&call), 1);
    CT_CHECK(out[0] == 4 && out[1] == 8);
    ddprove_guest_step(52);
    CT_CHECK_EQ_I64(make(&call), 1);
    CT_CHECK_EQ_U64(call.redop, DDPROVE_GUEST_MAX);
    CT_CHECK(out[0] == 4);
}

/* A call's name is shown up to its place's end. */
static void check_name(struct harness_watch *watch)
{
    struct ddprove_guest_call call = call_of(ddprove_guest_comm_create(200, 0, 1, "names"), 10);
    const struct harness_watch_call *seen;

    call.name = "a name that is longer than thirty-one bytes";
    CT_CHECK_EQ_I64(make(&call), 1);
    harness_watch_read(watch, UINT64_C(1) << 40);
    seen = harness_watch_call_at(&watch->groups[watch->group_count - 1].members[RANK], 1);
    CT_REQUIRE(seen != NULL);
    CT_CHECK_STR(seen->name, "a name that is longer than thir");
    ddprove_guest_comm_free(call.comm);
}

static struct ddprove_guest_place place_of(enum ddprove_guest_point point, const char *name)
{
    return (struct ddprove_guest_place){
        .size_bytes = sizeof(struct ddprove_guest_place), .point = point, .name = name};
}

static int pass(enum ddprove_guest_point point, const char *name, enum ddprove_guest_part part)
{
    struct ddprove_guest_place place = place_of(point, name);

    place.part = part;
    return ddprove_guest_pass(&place);
}

/* Faults at the places that the program comes by. */
static void arm_places(struct guest_arena *arena)
{
    static const struct guest_fault faults[] = {
        {.point = GUEST_POINT_PLACE + DDPROVE_GUEST_POINT_DATA_NEXT,
         .hit = 2,
         .times = 1,
         .action = GUEST_ACTION_TWICE},
        {.point = GUEST_POINT_PLACE + DDPROVE_GUEST_POINT_OPTIMIZER_PRE,
         .rank = RANK + 2,
         .hit = 1,
         .times = 1,
         .action = GUEST_ACTION_SKIP},
        {.point = GUEST_POINT_PLACE + DDPROVE_GUEST_POINT_CHECKPOINT_KEY,
         .hit = 1,
         .times = 1,
         .action = GUEST_ACTION_EDIT,
         .value = DDPROVE_GUEST_ADD_PREFIX},
    };
    struct guest_fault fault = {.point = GUEST_POINT_PLACE + DDPROVE_GUEST_POINT_GRAD_READY,
                                .tensor = guest_name_hash("fc.weight"),
                                .hit = 2,
                                .times = 1,
                                .action = GUEST_ACTION_SKIP};

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        arena->faults[arena->fault_count++] = faults[i];
    }
    arena->faults[arena->fault_count++] = fault;
    fault.hit = 1;
    fault.action = GUEST_ACTION_ZERO;
    arena->faults[arena->fault_count++] = fault;
    fault.point = GUEST_POINT_PLACE + DDPROVE_GUEST_POINT_PARAM_UPDATED;
    arena->faults[arena->fault_count++] = fault;
}

static void check_places(const struct guest_page *page)
{
    float data[2] = {1, 2};
    struct ddprove_guest_place place = place_of(DDPROVE_GUEST_POINT_GRAD_READY, "fc.weight");
    const struct ddprove_guest_tensor tensor = {.size_bytes = sizeof tensor,
                                                .dtype = DDPROVE_GUEST_F32,
                                                .elem_count = 2,
                                                .name = "fc.weight",
                                                .data = data};

    CT_CHECK_EQ_I64(ddprove_guest_wants(DDPROVE_GUEST_POINT_OPTIMIZER_PRE, NULL), 0);
    CT_CHECK_EQ_I64(ddprove_guest_wants(DDPROVE_GUEST_POINT_GRAD_READY, "fc.weight"), 1);
    CT_CHECK_EQ_I64(ddprove_guest_wants(DDPROVE_GUEST_POINT_GRAD_READY, "fc.bias"), 0);
    CT_CHECK_EQ_I64(ddprove_guest_wants(DDPROVE_GUEST_POINT_GRAD_READY, NULL), 1);
    CT_CHECK_EQ_I64(pass(DDPROVE_GUEST_POINT_DATA_NEXT, NULL, DDPROVE_GUEST_WHOLE), 1);
    CT_CHECK_EQ_I64(pass(DDPROVE_GUEST_POINT_DATA_NEXT, NULL, DDPROVE_GUEST_WHOLE), 2);
    CT_CHECK_EQ_I64(pass(DDPROVE_GUEST_POINT_DATA_NEXT, NULL, DDPROVE_GUEST_WHOLE), 1);
    CT_CHECK_EQ_I64(pass(DDPROVE_GUEST_POINT_OPTIMIZER_PRE, NULL, DDPROVE_GUEST_WHOLE), 1);
    /* Whether, and what: each fault sees one of them. Without data nothing can be done. */
    CT_CHECK_EQ_I64(pass(DDPROVE_GUEST_POINT_GRAD_READY, "fc.bias", DDPROVE_GUEST_WHETHER), 1);
    CT_CHECK_EQ_I64(pass(DDPROVE_GUEST_POINT_GRAD_READY, "fc.weight", DDPROVE_GUEST_WHETHER), 1);
    place.part = DDPROVE_GUEST_WHAT;
    place.data = data;
    place.elem_count = 2;
    place.dtype = DDPROVE_GUEST_F32;
    CT_CHECK_EQ_I64(ddprove_guest_pass(&place), 1);
    CT_CHECK(data[0] == 0 && data[1] == 0);
    CT_CHECK_EQ_I64(pass(DDPROVE_GUEST_POINT_GRAD_READY, "fc.weight", DDPROVE_GUEST_WHETHER), 0);
    /* The library comes by an update's tensors itself, also where nobody judges. */
    data[1] = 3;
    ddprove_guest_updated(&tensor, 1);
    CT_CHECK(data[1] == 0);
    place = place_of(DDPROVE_GUEST_POINT_CHECKPOINT_KEY, NULL);
    CT_CHECK_EQ_I64(ddprove_guest_pass(&place), 1);
    CT_CHECK_EQ_U64(place.edit, DDPROVE_GUEST_ADD_PREFIX);
    CT_CHECK_EQ_I64(ddprove_guest_pass(&place), 1);
    CT_CHECK_EQ_U64(place.edit, DDPROVE_GUEST_NO_EDIT);
    CT_CHECK_EQ_U64(page->fault_hits[9], 0); /* another rank's */
}

static void check_faults(const struct harness_watch_arena *arena)
{
    const uint32_t comm = ddprove_guest_comm_create(999, 0, 1, faulty);
    const struct guest_page *page = guest_arena_page(arena->head, RANK);

    check_arguments(comm);
    check_values(comm);
    CT_CHECK_EQ_U64(page->fault_hits[2], 0); /* another rank's */
    check_places(page);
    for (uint64_t i = 0; i < arena->head->fault_count; i++) {
        CT_CHECK((page->fault_hits[i] > 0) == (i != 2 && i != 9));
    }
    ddprove_guest_comm_free(comm);
}

/* What the thread told just before its call, while the others told of their own. */
static void check_list(const struct harness_watch_call *call, uint64_t number)
{
    char name[64];

    CT_REQUIRE(call != NULL && call->list != NULL);
    CT_CHECK_EQ_U64(call->list->count, 1 + number / 64 % 2);
    (void)snprintf(name, sizeof name, "weight of model %u", call->model);
    CT_CHECK_STR(call->list->texts[0], name);
    (void)snprintf(name, sizeof name, "a name that is longer than one entry holds %u", call->model);
    CT_CHECK_STR(call->list->texts[call->list->count - 1],
                 call->list->count == 2 ? name : call->list->texts[0]);
}

static void check_failure(struct harness_watch *watch)
{
    struct ddprove_guest_call call = {
        .size_bytes = sizeof call, .comm = comms[0], .kind = DDPROVE_GUEST_BARRIER};

    CT_CHECK_EQ_I64(ddprove_guest_call_begin(&call), 1);
    harness_watch_read(watch, UINT64_C(1) << 40);
    CT_CHECK_EQ_U64(watch->ranks[RANK].wait_count, 1);
    CT_CHECK(!watch->ranks[RANK].has_broken);
    ddprove_guest_call_wait_end(&call);
    ddprove_guest_call_failed(&call);
    harness_watch_read(watch, UINT64_C(1) << 41);
    CT_CHECK(watch->ranks[RANK].has_broken);
}

/* A caller may spare itself the model's table where nobody would look at it. */
static void check_asks(struct guest_arena *arena)
{
    const uint64_t fault_count = arena->fault_count;
    const struct guest_fault first = arena->faults[0];

    CT_CHECK_EQ_I64(ddprove_guest_asks_updated(), 1); /* a fault waits for a tensor after that */
    CT_CHECK_EQ_I64(ddprove_guest_wants_calls(0), 1);
    CT_CHECK_EQ_I64(ddprove_guest_wants_calls(1), 1);
    arena->fault_count = 0;
    CT_CHECK_EQ_I64(ddprove_guest_asks_updated(), 0);
    CT_CHECK_EQ_I64(ddprove_guest_wants_calls(0), 0);
    arena->fault_count = 1;
    arena->faults[0].point = GUEST_POINT_DONE;
    arena->faults[0].rank = RANK + 2;
    CT_CHECK_EQ_I64(ddprove_guest_wants_calls(1), 0); /* another rank's */
    arena->faults[0].rank = RANK + 1;
    CT_CHECK_EQ_I64(ddprove_guest_wants_calls(0), 0);
    CT_CHECK_EQ_I64(ddprove_guest_wants_calls(1), 1);
    arena->faults[0] = first;
    arena->fault_count = fault_count;
    arena->is_observed = 1;
    CT_CHECK_EQ_I64(ddprove_guest_asks_updated(), 1);
    CT_CHECK_EQ_I64(ddprove_guest_asks_update_begin(), 0);
    arena->keep_end = UINT64_MAX;
    CT_CHECK_EQ_I64(ddprove_guest_asks_update_begin(), 1);
    arena->keep_end = 0;
    arena->is_observed = 0;
}

/* A thread waits for ranks, whatever they post: for one, for one of two, for anybody. */
static void check_waits_for_ranks(struct harness_watch *watch)
{
    static const int ends[][2] = {{2, -1}, {0, 2}, {-1, -1}};

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const struct harness_watch_rank *self = &watch->ranks[RANK];

        ddprove_guest_wait_for(comms[0], ends[i][0], ends[i][1]);
        harness_watch_read(watch, 1000 + i);
        CT_REQUIRE(self->wait_count == 1 && guest_wait_is_of_ranks(self->waits[0].seq));
        CT_CHECK_EQ_I64(guest_wait_rank(self->waits[0].seq, 0), ends[i][0]);
        CT_CHECK_EQ_I64(guest_wait_rank(self->waits[0].seq, 1), ends[i][1]);
        ddprove_guest_wait_over();
        harness_watch_read(watch, 2000 + i);
        CT_CHECK_EQ_U64(self->wait_count, 0);
    }
    ddprove_guest_wait_for(0, 1, -1); /* in a communicator that is not seen */
    harness_watch_read(watch, 3000);
    CT_CHECK_EQ_U64(watch->ranks[RANK].wait_count, 0);
}

CT_TEST(guest, threads_are_read_while_they_write)
{
    struct harness_watch_arena arena;
    struct harness_watch watch;
    struct ddp_err err = {{0}};
    pthread_t threads[THREADS];

    (void)unsetenv(GUEST_ARENA_VARIABLE);
    (void)unsetenv("RANK");
    CT_REQUIRE(harness_watch_arena_create(RANKS, 1 << 18, &arena, &err) == DDP_OK);
    CT_REQUIRE(harness_watch_init(&watch, ddp_mem_system(), arena.head) == DDP_OK);
    arm_all(arena.head);
    arm_places(arena.head);
    check_nothing_happens();
    check_refusals(&arena);
    CT_REQUIRE(ddprove_guest_attach(RANK, RANKS) == 1);
    CT_CHECK_EQ_I64(ddprove_guest_attach(0, RANKS), 1); /* it stays what it is */
    CT_CHECK_EQ_U64(guest_arena_page(arena.head, 0)->pid, 0);
    check_child();
    for (uint32_t i = 0; i < THREADS; i++) {
        comms[i] =
            ddprove_guest_comm_create(100 + i, 0, 1, "a name that is longer than thirty-one bytes");
        CT_CHECK(comms[i] != 0);
    }
    read_all(&watch, threads);
    CT_CHECK_EQ_U64(watch.ranks[RANK].lost_count, 0);
    for (size_t g = 0; g < watch.group_count; g++) {
        const struct harness_watch_member *member = &watch.groups[g].members[RANK];

        CT_CHECK_STR(watch.groups[g].name, "a name that is longer than thir");
        for (uint64_t seq = 1; seq <= CALLS; seq++) {
            const struct harness_watch_call *call = harness_watch_call_at(member, seq);

            CT_CHECK(call != NULL && call->elem_count == seq - 1 && call->is_done);
            check_list(call, seq - 1);
        }
    }
    check_asks(arena.head);
    check_failure(&watch);
    check_name(&watch);
    check_waits_for_ranks(&watch);
    check_faults(&arena);
    CT_CHECK_EQ_U64(watch.ranks[RANK].wait_count, 0);
    CT_CHECK_EQ_U64(watch.ranks[RANK].thread_count,
                    1); /* those that ended gave their places back */
    for (uint32_t i = 0; i < THREADS; i++) {
        ddprove_guest_comm_free(comms[i]);
    }
    harness_watch_fini(&watch);
    harness_watch_arena_destroy(&arena);
}
