/* Purpose: judge a collective by running it, in one world after the other. */
#include <stdio.h>
#include <string.h>

#include "harness/lab/conforming.h"
#include "harness/lab/orders.h"
#include "harness/plugin/plugin.h"

enum { ARENA_BYTES = 8 << 20, WORLDS = 8 };

/* --- names ------------------------------------------------------------------------------------ */

const char *harness_conform_name(enum harness_conform_property property)
{
    static const char *const names[] = {
#define X(id, name, meaning) name,
        HARNESS_CONFORM_TABLE(X)
#undef X
    };

    DDP_ASSERT(property < HARNESS_CONFORM_COUNT);
    return names[property];
}

const char *harness_conform_meaning(enum harness_conform_property property)
{
    static const char *const meanings[] = {
#define X(id, name, meaning) meaning,
        HARNESS_CONFORM_TABLE(X)
#undef X
    };

    DDP_ASSERT(property < HARNESS_CONFORM_COUNT);
    return meanings[property];
}

/* --- a world ---------------------------------------------------------------------------------- */

static bool is_asked(struct harness_conforming *run, enum harness_conform_property property)
{
    return run->report->result[property].is_asked && !harness_conform_is_over(run);
}

/* Of what is not, what else it does is no matter. */
static bool is_sound(const struct harness_conforming *run)
{
    return !harness_conform_has_failed(run, HARNESS_CONFORM_ENDS) &&
           !harness_conform_has_failed(run, HARNESS_CONFORM_EXACT);
}

static void try_world(struct harness_conforming *run, uint32_t world)
{
    struct harness_lab_shared *shared = run->team.shared;
    /* What goes wrong is tried in small worlds, and in the first one that was asked for. */
    uint64_t first = run->options->worlds.is_chosen && world > 1 ? run->options->worlds.first : 2;

    harness_conform_end_team(run);
    shared->request.ranks = world;
    run->report->first_world = run->report->first_world == 0 ? world : run->report->first_world;
    run->report->last_world = world;
    harness_conform_counts(run);
    if (!is_sound(run)) {
        return;
    }
    if (is_asked(run, HARNESS_CONFORM_TYPES)) {
        harness_conform_types(run);
    }
    if (is_asked(run, HARNESS_CONFORM_SPECIAL) &&
        !harness_conform_has_failed(run, HARNESS_CONFORM_SPECIAL)) {
        harness_conform_special(run);
    }
    if (is_asked(run, HARNESS_CONFORM_TREES) && world > 1) {
        harness_conform_trees(run);
    }
    if (!harness_conform_is_over(run)) {
        harness_conform_repeats(run);
    }
    if (!harness_conform_is_over(run) && !harness_conform_has_failed(run, HARNESS_CONFORM_NEXT)) {
        harness_conform_row(run);
    }
    if (!harness_conform_is_over(run) && !harness_conform_has_failed(run, HARNESS_CONFORM_FREED)) {
        harness_conform_leak(run);
    }
    if (is_asked(run, HARNESS_CONFORM_TWO) &&
        !harness_conform_has_failed(run, HARNESS_CONFORM_TWO)) {
        harness_conform_two(run);
    }
    if (!harness_conform_is_over(run) && (world == 2 || world == 3 || world == first)) {
        harness_conform_oddities(run);
    }
}

static void try_worlds(struct harness_conforming *run)
{
    static const uint32_t worlds[WORLDS] = {1, 2, 3, 4, 5, 6, 7, 8};
    const struct harness_coll_range *chosen = &run->options->worlds;

    if (chosen->is_chosen) {
        for (uint64_t world = chosen->first; world <= chosen->last && !harness_conform_is_over(run);
             world++) {
            try_world(run, (uint32_t)world);
        }
        return;
    }
    for (size_t i = 0; i < (size_t)WORLDS && !harness_conform_is_over(run); i++) {
        try_world(run, worlds[i]);
    }
}

/* --- in one process --------------------------------------------------------------------------- */

enum {
    ORDER_WORLDS = 3,
    ORDER_WORLDS_FULL = 9,
    ORDER_COUNTS = 2,
    ORDER_RUNS = 1000,
    ORDER_RUNS_FULL = 2000, /* half of them drawn */
    SPOILED_WORLD_MAX = 8   /* there are as many runs as messages, times ranks */
};

static void judge_orders(struct harness_conforming *run, enum harness_conform_property property,
                         const struct harness_orders_config *config,
                         const struct harness_orders_result *result)
{
    struct harness_lab_wrong wrong = {.rank = result->rank, .elem = SIZE_MAX};

    run->team.shared->request.ranks = config->world;
    harness_conform_set_trial(run, config->elem_count);
    (void)snprintf(wrong.text, sizeof wrong.text, "%.290s", result->wrong);
    harness_conform_judge(run, property, result->wrong[0] != '\0' ? &wrong : NULL);
    run->report->order_count += result->run_count;
}

/* One world and count: orders, then messages that are spoiled, then deaths. */
static void try_order(struct harness_conforming *run, uint32_t world, size_t elem_count)
{
    const struct harness_lab_request *request = &run->team.shared->request;
    const struct harness_orders_config config = {
        .kind = request->kind,
        .algorithm = request->algorithm,
        .world = world,
        .elem_count = elem_count,
        .runs_max = run->options->is_full ? (uint64_t)ORDER_RUNS_FULL : (uint64_t)ORDER_RUNS};
    struct harness_orders_result result;

    run->status = harness_orders_all(&config, &result, run->err);
    if (run->status == DDP_OK) {
        judge_orders(run, HARNESS_CONFORM_ORDERS, &config, &result);
    }
    if (run->status == DDP_OK && world <= (uint32_t)SPOILED_WORLD_MAX) {
        run->status = harness_orders_spoiled(&config, &result, run->err);
        if (run->status == DDP_OK) {
            judge_orders(run, HARNESS_CONFORM_SPOILED, &config, &result);
            run->status = harness_orders_killed(&config, &result, run->err);
        }
        if (run->status == DDP_OK) {
            judge_orders(run, HARNESS_CONFORM_KILLED, &config, &result);
        }
    }
}

/* Of the core's own algorithms: all orders of small worlds, drawn ones of larger ones. */
static void try_orders(struct harness_conforming *run)
{
    static const uint32_t some[ORDER_WORLDS] = {2, 3, 5};
    static const uint32_t all[ORDER_WORLDS_FULL] = {1, 2, 3, 4, 5, 7, 8, 13, 16};
    bool is_full = run->options->is_full;
    size_t world_count = is_full ? (size_t)ORDER_WORLDS_FULL : (size_t)ORDER_WORLDS;

    for (size_t i = 0; i < world_count * ORDER_COUNTS && !harness_conform_is_over(run); i++) {
        uint32_t world = is_full ? all[i / ORDER_COUNTS] : some[i / ORDER_COUNTS];

        try_order(run, world, i % ORDER_COUNTS == 0 ? 2 : 2 * (size_t)world + 1);
    }
}

/* --- run -------------------------------------------------------------------------------------- */

static void ask(struct harness_conforming *run)
{
    enum ddp_coll_kind kind = run->report->kind;
    bool is_sum = ddp_coll_kind_is_sum(kind);
    bool is_for_all =
        kind == DDP_COLL_ALL_REDUCE || kind == DDP_COLL_BROADCAST || kind == DDP_COLL_ALL_GATHER;

    for (int p = 0; p < HARNESS_CONFORM_COUNT; p++) {
        run->report->result[p] =
            (struct harness_conform_result){.is_asked = true, .rank = -1, .elem = -1};
    }
    run->report->result[HARNESS_CONFORM_ROUNDED].is_asked = is_sum;
    run->report->result[HARNESS_CONFORM_TREES].is_asked = kind == DDP_COLL_ALL_REDUCE;
    run->report->result[HARNESS_CONFORM_SAME_ORDER].is_asked = kind == DDP_COLL_ALL_REDUCE;
    run->report->result[HARNESS_CONFORM_SAME_BITS].is_asked = is_for_all;
    run->report->result[HARNESS_CONFORM_SPECIAL].is_asked = is_sum;
    /* Of a broadcast or a sum for a root, not every rank needs all the others. */
    run->report->result[HARNESS_CONFORM_MISMATCH].is_asked = !ddp_coll_kind_has_root(kind);
    run->report->result[HARNESS_CONFORM_DEATH].is_asked = !ddp_coll_kind_has_root(kind);
    run->report->result[HARNESS_CONFORM_REOPENS].is_asked = !ddp_coll_kind_has_root(kind);
    run->report->result[HARNESS_CONFORM_ORDERS].is_asked = run->is_builtin;
    run->report->result[HARNESS_CONFORM_SPOILED].is_asked = run->is_builtin;
    run->report->result[HARNESS_CONFORM_KILLED].is_asked = run->is_builtin;
    run->report->result[HARNESS_CONFORM_ABORT].is_asked = run->has_abort;
    run->report->result[HARNESS_CONFORM_LARGE].is_asked = run->options->is_full;
    if ((run->needs & DDPROVE_COLL_ONE_COMM) != 0) {
        run->report->result[HARNESS_CONFORM_TWO].is_asked = false;
        run->report->result[HARNESS_CONFORM_REOPENS].is_asked = false;
    }
}

static ddp_status open_subject(struct harness_conforming *run, struct harness_lab_request *request)
{
    const char *name = run->options->name;
    struct harness_coll_source *source = NULL;
    struct harness_plugin_about about;

    request->is_tried = true;
    request->transport = run->options->is_tcp ? HARNESS_LAB_TCP : HARNESS_LAB_SHM;
    request->engine = HARNESS_LAB_SCHEDULE;
    run->claims = DDPROVE_COLL_TELLS_MISMATCH | DDPROVE_COLL_TELLS_DEATH; /* of the core's engine */
    if (strchr(name, '/') == NULL) {
        DDP_TRY(harness_coll_builtin_open(name, &source, run->err));
        request->kind = source->kind;
        run->claims |= source->claims;
        (void)snprintf(run->report->name, sizeof run->report->name, "%s", name);
        harness_coll_source_close(source);
        run->is_builtin = true;
        return ddp_algorithm_parse(name, request->kind, &request->algorithm);
    }
    DDP_TRY(harness_plugin_describe(run->options->program, name, &about, run->err));
    (void)snprintf(run->report->name, sizeof run->report->name, "%s", about.name);
    (void)snprintf(request->path, sizeof request->path, "%s", name);
    request->kind = (enum ddp_coll_kind)about.kind;
    run->needs = about.needs;
    if (about.is_opaque) {
        request->engine = HARNESS_LAB_OPAQUE;
        run->is_opaque = true;
        run->has_abort = about.has_abort;
        run->claims = about.claims;
        run->mpirun = (about.needs & DDPROVE_COLL_BY_MPIRUN) != 0 ? "mpirun" : NULL;
        return DDP_OK;
    }
    run->claims |= about.claims;
    return request->kind == DDP_COLL_ALL_REDUCE
               ? DDP_OK
               : ddp_err_set(run->err, DDP_E_UNSUPPORTED,
                             "of schedules from plug-ins only all-reduces can be run, this is: %s",
                             ddp_coll_kind_name(request->kind));
}

ddp_status harness_conform_run(const struct harness_conform_options *options,
                               struct harness_conform_report *out, struct ddp_err *err)
{
    struct harness_conforming run = {.options = options, .report = out, .err = err};
    const struct harness_coll_range *worlds = &options->worlds;
    uint32_t most = worlds->is_chosen ? (uint32_t)worlds->last : 8;
    ddp_status status;

    memset(out, 0, sizeof *out);
    run.start_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    if (most > 16) {
        return ddp_err_set(err, DDP_E_INVALID, "worlds of up to 16 ranks can be run");
    }
    status = harness_lab_team_init(&run.team, most, ARENA_BYTES, err);
    if (status == DDP_OK) {
        status = open_subject(&run, &run.team.shared->request);
    }
    if (status == DDP_OK && run.team.shared->request.kind == DDP_COLL_BARRIER) {
        status = ddp_err_set(err, DDP_E_UNSUPPORTED, "a barrier has nothing that could be tried");
    }
    if (status == DDP_OK) {
        out->kind = run.team.shared->request.kind;
        ask(&run);
        try_worlds(&run);
        harness_conform_end_team(&run);
        if (is_asked(&run, HARNESS_CONFORM_LARGE) && is_sound(&run)) {
            harness_conform_large(&run);
        }
        if (run.is_builtin && status == DDP_OK) {
            try_orders(&run);
        }
        status = run.status;
    }
    harness_lab_team_fini(&run.team);
    out->elapsed_ns = ddp_clock_now_ns(ddp_clock_monotonic()) - run.start_ns;
    return status;
}

enum harness_outcome harness_conform_outcome(const struct harness_conform_report *report)
{
    bool is_judged = !report->is_stopped;

    for (int p = 0; p < HARNESS_CONFORM_COUNT; p++) {
        if (report->result[p].state == HARNESS_COLL_FAIL) {
            return HARNESS_OUTCOME_FAIL;
        }
        is_judged = is_judged && (!report->result[p].is_asked ||
                                  report->result[p].state != HARNESS_COLL_NOT_JUDGED);
    }
    return is_judged ? HARNESS_OUTCOME_PASS : HARNESS_OUTCOME_INCONCLUSIVE;
}
