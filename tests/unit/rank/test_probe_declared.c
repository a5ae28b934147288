/* Declared = measured: what the schedules of the built-in algorithms say about the order of a sum
 * is what the prober measures, and the judge's sum in the measured tree is what came out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/schedule/schedule.h"
#include "harness/sums/schedule_set.h"
#include "harness/sums/tree.h"
#include "tests/ct.h"
#include "tests/unit/rank/probe_sums.h"
#include "tests/unit/rank/probe_world.h"

#define REQUESTS 15u
static const size_t elem_counts[] = {1, 2, 7, 16, 1003};
static const enum ddp_dtype dtypes[] = {DDP_DTYPE_F32, DDP_DTYPE_BF16, DDP_DTYPE_F16};

/* One world: its schedules, and a reduction of random values for each request. */
struct declared {
    struct ddp_schedule_observer observer; /* first: the observer's pointer is the struct's */
    struct ddp_mem_pool *pool;
    struct harness_schedules schedules;
    struct harness_probe_request requests[REQUESTS];
    void *input[REQUESTS][PROBE_RANKS_MAX];
    void *output[REQUESTS][PROBE_RANKS_MAX];
};

static struct ddp_mem *mem_of(const struct declared *declared)
{
    return ddp_mem_pool_mem(declared->pool);
}

static ddp_status keep_schedule(struct ddp_schedule_observer *observer,
                                const struct ddp_schedule *schedule)
{
    struct declared *declared = (struct declared *)observer;
    struct harness_schedule parsed;
    struct ddp_err err = {""};
    struct ddp_text text;
    ddp_status status;

    ddp_text_init(&text, mem_of(declared));
    ddp_schedule_print(schedule, &text);
    status = harness_schedule_parse(mem_of(declared), ddp_text_str(&text), &parsed, &err);
    CT_CHECK_OK(status);
    if (status == DDP_OK) {
        CT_CHECK_OK(harness_schedules_add(&declared->schedules, &parsed, &err));
    }
    ddp_text_fini(&text);
    return status;
}

/* --- the ranks' program ----------------------------------------------------------------------- */

struct waited {
    struct ddp_coll *coll;
    struct ddp_coll_work work;
};

static ddp_status poll_waited(void *self)
{
    struct waited *waited = self;

    return waited->coll->ops->poll(waited->coll, &waited->work);
}

static void hint_waited(void *self, struct ddp_idle_hint *hint)
{
    struct ddp_coll *coll = ((struct waited *)self)->coll;

    coll->ops->hint(coll, hint);
}

static void run(struct probe_rank *rank, const struct ddp_coll_args *args, uint64_t seq)
{
    struct waited waited = {.coll = rank->coll, .work = {.args = *args, .seq = seq}};
    const struct ddp_pollable pollable = {poll_waited, hint_waited, &waited};

    CT_REQUIRE_OK(rank->coll->ops->post(rank->coll, &waited.work));
    CT_CHECK_OK(ddp_wait(rank->env.idle, rank->env.clock, &pollable, DDP_DEADLINE_NEVER));
}

static void reduce_random(struct probe_rank *rank, struct declared *declared, size_t request)
{
    const struct harness_probe_request *what = &declared->requests[request];
    size_t size_bytes = what->elem_count * ddp_dtype_size_bytes(what->dtype);
    void *output = ddp_mem_array(mem_of(declared), size_bytes, 1);
    void *input = ddp_mem_array(mem_of(declared), size_bytes, 1);
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                       .dtype = what->dtype,
                                       .role = DDP_ROLE_BUCKET,
                                       .input = output,
                                       .output = output,
                                       .elem_count = what->elem_count};

    CT_REQUIRE(input != NULL && output != NULL);
    probe_fill_random(what, rank->rank, input);
    memcpy(output, input, size_bytes);
    declared->input[request][rank->rank] = input;
    declared->output[request][rank->rank] = output;
    run(rank, &args, request + 1);
}

/* Probes, then the group's collectives from sequence number 1, probes again, one more of the
 * group: every message is checked, so a stray one would end it. */
static void measure(struct probe_rank *rank)
{
    struct declared *declared = rank->world->config.arg;
    const struct ddp_coll_args last = {.kind = DDP_COLL_BARRIER};
    struct harness_probe config = {.env = &rank->env,
                                   .coll = rank->coll,
                                   .device = rank->device,
                                   .store = rank->store,
                                   .name = "world",
                                   .run_dir = PROBE_DIR,
                                   .requests = declared->requests,
                                   .request_count = REQUESTS,
                                   .round = HARNESS_PROBE_FIRST};
    struct ddp_err err = {""};

    CT_REQUIRE_OK(harness_probe_run(&config, &err));
    for (size_t i = 0; i < REQUESTS; i++) {
        reduce_random(rank, declared, i);
    }
    config.round = HARNESS_PROBE_LAST;
    CT_REQUIRE_OK(harness_probe_run(&config, &err));
    run(rank, &last, REQUESTS + 1);
}

/* --- reading a tree off a schedule ------------------------------------------------------------ */

/* Terms: 0 .. member_count - 1 are members; others are sums of two, made once each. */
struct terms {
    uint32_t member_count, count;
    struct {
        uint32_t a, b, least; /* a holds the smaller member */
        bool is_wide;         /* kept in a wider type than that of the members */
    } sum[4096];
};

static uint32_t least_of(const struct terms *terms, uint32_t term)
{
    return term < terms->member_count ? term : terms->sum[term - terms->member_count].least;
}

static uint32_t sum_of(struct terms *terms, uint32_t a, uint32_t b, bool is_wide)
{
    uint32_t first = least_of(terms, a) < least_of(terms, b) ? a : b;
    uint32_t second = first == a ? b : a;

    for (uint32_t i = 0; i < terms->count; i++) {
        if (terms->sum[i].a == first && terms->sum[i].b == second &&
            terms->sum[i].is_wide == is_wide) {
            return terms->member_count + i;
        }
    }
    DDP_ASSERT(terms->count < 4096);
    terms->sum[terms->count].a = first;
    terms->sum[terms->count].b = second;
    terms->sum[terms->count].least = least_of(terms, first);
    terms->sum[terms->count].is_wide = is_wide;
    return terms->member_count + terms->count++;
}

/* A sum in the members' type, whatever type it was kept in. */
static uint32_t narrow_of(struct terms *terms, uint32_t term)
{
    return term < terms->member_count ? term
                                      : sum_of(terms, terms->sum[term - terms->member_count].a,
                                               terms->sum[term - terms->member_count].b, false);
}

static void print_term(const struct terms *terms, uint32_t term, struct ddp_text *out)
{
    if (term < terms->member_count) {
        ddp_text_add(out, "%u", term);
        return;
    }
    ddp_text_add(out, terms->sum[term - terms->member_count].is_wide ? "[" : "(");
    print_term(terms, terms->sum[term - terms->member_count].a, out);
    ddp_text_add(out, " ");
    print_term(terms, terms->sum[term - terms->member_count].b, out);
    ddp_text_add(out, terms->sum[term - terms->member_count].is_wide ? "]" : ")");
}

/* Run a set on terms instead of values: terms[rank][buffer][element]. */
static void run_terms(struct ddp_mem *mem, const struct harness_schedule_set *set,
                      struct terms *terms, uint32_t ***values)
{
    for (uint32_t r = 0; r < set->size; r++) {
        const struct harness_schedule *member = set->member[r];

        values[r] = ddp_mem_array(mem, member->buffer_count, sizeof(values[r][0]));
        for (size_t b = 0; b < member->buffer_count; b++) {
            values[r][b] = ddp_mem_array(mem, member->buffer_elem_count[b], sizeof(uint32_t));
        }
        for (size_t i = 0; i < member->elem_count; i++) {
            values[r][member->is_in_place ? 1 : 0][i] = r;
        }
    }
    for (size_t t = 0; t < set->event_count; t++) {
        const struct harness_schedule_event *event = &set->events[t];
        bool is_local = event->from_rank == HARNESS_NO_RANK;
        uint32_t from = is_local ? event->rank : event->from_rank;
        const struct harness_schedule_step *step = &set->member[event->rank]->steps[event->step];
        const struct harness_schedule_step *sent =
            &set->member[from]->steps[is_local ? event->step : event->from_step];

        for (size_t i = 0; i < step->dst.elem_count; i++) {
            uint32_t *target = &values[event->rank][step->dst.buffer][step->dst.first + i];
            uint32_t source = values[from][sent->src.buffer][sent->src.first + i];
            bool is_sum =
                step->kind == HARNESS_STEP_RECV_REDUCE || step->kind == HARNESS_STEP_REDUCE;

            bool is_wide =
                set->member[event->rank]->buffer_dtype[step->dst.buffer] != set->member[0]->dtype;

            if (is_sum) {
                *target = sum_of(terms, *target, source, is_wide);
            } else if (step->kind == HARNESS_STEP_CONVERT && !is_wide) {
                *target = narrow_of(terms, source);
            } else {
                *target = source;
            }
        }
    }
}

/* The measured tree of every element is the schedule's, on every rank. */
static void check_declared(const struct declared *declared,
                           const struct harness_probe_request *request,
                           const struct harness_tree_map *map)
{
    const struct harness_schedule_set *set =
        harness_schedules_find(&declared->schedules, declared->schedules.sets[0].size,
                               DDP_COLL_ALL_REDUCE, NULL, request->elem_count, request->dtype, 0);
    struct terms *terms = ddp_mem_array(mem_of(declared), 1, sizeof(*terms));
    uint32_t ***values;
    uint32_t before = UINT32_MAX;

    CT_REQUIRE(set != NULL && set->is_ordered && terms != NULL);
    values = ddp_mem_array(mem_of(declared), set->size, sizeof(values[0]));
    terms->member_count = set->size;
    run_terms(mem_of(declared), set, terms, values);
    for (size_t i = 0; i < request->elem_count; i++) {
        struct ddp_text text;
        char measured[400];

        for (uint32_t r = 1; r < set->size; r++) {
            CT_CHECK_EQ_U64(values[r][1][i], values[0][1][i]);
        }
        harness_tree_print(map, i, measured, sizeof(measured));
        ddp_text_init(&text, mem_of(declared));
        print_term(terms, values[0][1][i], &text);
        if (strcmp(measured, ddp_text_str(&text)) != 0 && before != values[0][1][i]) {
            CT_FAIL("element %zu of %zu of %s: measured %s, declared %s", i, request->elem_count,
                    ddp_dtype_name(request->dtype), measured, ddp_text_str(&text));
            before = values[0][1][i];
        }
        ddp_text_fini(&text);
    }
}

/* --- the test --------------------------------------------------------------------------------- */

static void check_request(struct probe_world *world, const struct declared *declared,
                          size_t request)
{
    const struct harness_probe_request *what = &declared->requests[request];
    size_t size_bytes = what->elem_count * ddp_dtype_size_bytes(what->dtype);
    struct harness_tree_map first, last;
    struct ddp_err err = {""};
    void *expected[PROBE_RANKS_MAX];
    struct harness_tree_map *const rounds[] = {&first, &last};

    for (size_t i = 0; i < 2; i++) {
        char path[160];
        const char *text;

        (void)snprintf(path, sizeof(path), "%s/trees/all_reduce.n%zu.%s.%s.txt", PROBE_DIR,
                       what->elem_count, ddp_dtype_name(what->dtype), i == 0 ? "first" : "last");
        text = probe_world_file(world, path);
        CT_REQUIRE(text != NULL);
        CT_REQUIRE_OK(harness_tree_parse(mem_of(declared), text, rounds[i], &err));
        CT_CHECK_STR(rounds[i]->text, "");
        CT_REQUIRE(rounds[i]->is_measured);
    }
    CT_CHECK_EQ_U64(harness_tree_compare(&first, &last), what->elem_count);
    check_declared(declared, what, &first);
    for (uint32_t r = 0; r < world->config.count; r++) {
        expected[r] = ddp_mem_array(mem_of(declared), size_bytes, 1);
    }
    CT_CHECK_OK(harness_tree_run(&first, (void *const *)declared->input[request], expected));
    for (uint32_t r = 0; r < world->config.count; r++) {
        CT_CHECK_BYTES(declared->output[request][r], expected[r], size_bytes);
    }
}

static void check_world(uint32_t count, enum ddp_algorithm_id algorithm)
{
    struct declared *declared = calloc(1, sizeof(*declared));
    struct probe_world world;
    struct probe_config config = {.count = count,
                                  .program = measure,
                                  .algorithm = algorithm,
                                  .observer = &declared->observer,
                                  .arg = declared,
                                  .seed = count};

    CT_REQUIRE(declared != NULL);
    CT_REQUIRE_OK(ddp_mem_pool_create(&declared->pool));
    declared->observer.used = keep_schedule;
    harness_schedules_init(&declared->schedules, mem_of(declared));
    for (size_t i = 0; i < REQUESTS; i++) {
        declared->requests[i] = (struct harness_probe_request){elem_counts[i % 5], dtypes[i / 5]};
    }
    CT_REQUIRE(probe_world_run(&world, &config));
    CT_CHECK_OK(harness_schedules_order(&declared->schedules));
    for (size_t i = 0; i < REQUESTS; i++) {
        check_request(&world, declared, i);
    }
    probe_world_close(&world);
    ddp_mem_pool_destroy(declared->pool);
    free(declared);
}

static void check_worlds(uint32_t smallest, uint32_t largest)
{
    size_t row_count;
    const struct ddp_algorithm *table = ddp_algorithm_table(&row_count);

    for (size_t row = 0; row < row_count; row++) {
        for (uint32_t count = smallest; count <= largest; count++) {
            if (table[row].kind == DDP_COLL_ALL_REDUCE) {
                check_world(count, table[row].id);
            }
        }
    }
}

CT_TEST(probe, every_all_reduce_is_measured_as_declared)
{
    check_worlds(2, 5);
}

/* AddressSanitizer makes it eight times as slow, and what it could find it finds in one world. */
CT_TEST(probe, larger_worlds_are_measured_as_declared)
{
#ifdef __SANITIZE_ADDRESS__
    check_worlds(7, 7);
#else
    check_worlds(6, 8);
#endif
}
