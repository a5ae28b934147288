/* What an action of a fault takes: a signal, an argument, a value, a call. */
#include <errno.h>
#include <signal.h>

#include "harness/grammar/site.h"

/* Elements of the data at the point. */
static size_t elems_of(const struct harness_draw_site *site)
{
    const struct harness_trigger *at = &site->fault->at;

    if (site->place == HARNESS_GRAMMAR_AT_BUCKET) {
        return harness_grammar_buckets(site->job, at->step)->items[at->bucket].elem_count;
    }
    return site->place == HARNESS_GRAMMAR_AT_PARAM ? site->job->params[at->param].elem_count : 1;
}

/* One of the options of ddp/config, to what the job does not have. */
static void draw_option(struct harness_draw_site *site)
{
    const struct harness_job *job = site->job->job;
    const double other[] = {12344,
                            23456,
                            job->gradient_scale == HARNESS_GRADIENT_SCALE_PRE ? 1 : 0,
                            job->find_unused_parameters ? 0 : 1,
                            job->broadcast_buffers ? 0 : 1,
                            1,
                            7};
    struct harness_action *action = &site->fault->action;

    action->corrupt = HARNESS_CORRUPT_SET;
    action->elem = harness_draw_below(site->draw, sizeof other / sizeof other[0]);
    action->value = other[action->elem];
}

static bool draw_corruption(struct harness_draw_site *site)
{
    struct harness_action *action = &site->fault->action;
    struct harness_draw *draw = site->draw;
    size_t elems = elems_of(site);

    action->corrupt =
        (enum harness_corrupt_kind)harness_draw_below(draw, HARNESS_CORRUPT_KIND_COUNT);
    action->bits = 1;
    action->count = 1;
    action->stride = 1;
    if (site->fault->point == DDP_FAULT_POINT_MODEL_BUILD) {
        action->corrupt = HARNESS_CORRUPT_SET;
        action->value = 17;
        return true;
    }
    if (site->fault->point == DDP_FAULT_POINT_CONFIG) {
        draw_option(site);
        return true;
    }
    if (site->fault->point == DDP_FAULT_POINT_MODEL_BUFFERS) {
        action->corrupt = HARNESS_CORRUPT_SET; /* the first one left out */
        return true;
    }
    switch (action->corrupt) {
    case HARNESS_CORRUPT_ZERO:
    case HARNESS_CORRUPT_DOUBLE:
    case HARNESS_CORRUPT_HALF:
    case HARNESS_CORRUPT_ROUND_BF16:
    case HARNESS_CORRUPT_ROUND_F16:
    case HARNESS_CORRUPT_ROUND_TF32:
        break;
    case HARNESS_CORRUPT_SCALE:
        action->value = HARNESS_DRAW_ONE_OF(draw, 0.2, 0.25, 3, 4, 0.3);
        break;
    case HARNESS_CORRUPT_SHIFT:
        action->value = (double)harness_draw_between(draw, 1, 2);
        break;
    case HARNESS_CORRUPT_FLIP:
        /* Of the mantissa, so that it stays finite, and not so low that scaling rounds it away. */
        action->bit = harness_draw_between(draw, 5, 22);
        action->bits = harness_draw_between(draw, 1, 23 - action->bit);
        action->count = harness_draw_between(draw, 1, elems < 2 ? elems : 2);
        action->stride = harness_draw_between(draw, 1, elems < 3 ? 1 : 2);
        action->elem = harness_draw_below(draw, elems - (action->count - 1) * action->stride);
        break;
    case HARNESS_CORRUPT_SET:
        action->value = HARNESS_DRAW_ONE_OF(draw, 777.5, -7777, 1000); /* no gradient's own */
        action->elem = harness_draw_below(draw, elems);
        break;
    case HARNESS_CORRUPT_NAN:
        /* It spreads, and what changes a NaN is not seen. */
        action->elem = harness_draw_below(draw, elems);
        return site->is_last;
    case HARNESS_CORRUPT_KIND_COUNT:
        break;
    }
    return true;
}

/* Of as many bytes as gradients travel in: else the rank would read what lies behind them. */
static uint64_t other_type(const struct harness_job *job)
{
    const enum ddp_dtype wire = harness_program_wire(job, DDP_DTYPE_F32);

    return wire == DDP_DTYPE_F16    ? DDP_DTYPE_BF16
           : wire == DDP_DTYPE_BF16 ? DDP_DTYPE_F16
                                    : DDP_DTYPE_I32;
}

/* Another argument than the right one. */
static bool draw_argument(struct harness_draw_site *site)
{
    const struct harness_grammar_job *job = site->job;
    struct harness_action *action = &site->fault->action;
    struct harness_draw *draw = site->draw;
    const struct harness_buckets *buckets = harness_grammar_buckets(job, site->fault->at.step);
    size_t elems = buckets->items[site->fault->at.bucket].elem_count;

    action->arg = (enum harness_arg_field)harness_draw_below(draw, HARNESS_ARG_FIELD_COUNT);
    switch (action->arg) {
    case HARNESS_ARG_KIND:
        action->arg_value = DDP_COLL_BROADCAST;
        return true;
    case HARNESS_ARG_COUNT:
        action->arg_value = elems > 1 ? harness_draw_between(draw, 1, elems - 1) : 0;
        return elems > 1;
    case HARNESS_ARG_DTYPE:
        action->arg_value = other_type(job->job);
        return true;
    case HARNESS_ARG_REDOP:
        action->arg_value = DDP_REDOP_MAX;
        return true;
    case HARNESS_ARG_INDEX:
        action->arg_value = ((uint64_t)site->fault->at.bucket + 1) % buckets->count;
        return buckets->count > 1;
    case HARNESS_ARG_ROOT: /* a reduction for all has none */
    case HARNESS_ARG_FIELD_COUNT:
        break;
    }
    return false;
}

/* A call that saving makes at least once. */
static void draw_call(struct harness_draw_site *site)
{
    static const enum harness_io_call calls[] = {HARNESS_IO_OPEN, HARNESS_IO_WRITE,
                                                 HARNESS_IO_FSYNC, HARNESS_IO_CLOSE};
    static const int errors[] = {EACCES, EDQUOT, EIO, EMFILE, ENFILE, ENOSPC, EROFS};
    struct harness_io_fault *io = &site->fault->action.io;
    struct harness_draw *draw = site->draw;

    io->is_set = true;
    io->call = calls[harness_draw_below(draw, sizeof calls / sizeof calls[0])];
    io->error = errors[harness_draw_below(draw, sizeof errors / sizeof errors[0])];
    io->times = harness_draw_below(draw, 2);
    io->flip = -1;
}

/* Another rank or world size, or nothing that says who the rank is. */
static void draw_variable(struct harness_draw_site *site)
{
    static const char *const numbers[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    static const enum harness_variable needed[] = {
        HARNESS_VARIABLE_RANK, HARNESS_VARIABLE_WORLD_SIZE, HARNESS_VARIABLE_MASTER_ADDR,
        HARNESS_VARIABLE_MASTER_PORT};
    struct harness_action *action = &site->fault->action;
    const uint32_t ranks = site->job->job->ranks;
    uint32_t number = 0;

    action->env = needed[harness_draw_below(site->draw, sizeof needed / sizeof needed[0])];
    action->env_value = "unset";
    if (action->env == HARNESS_VARIABLE_RANK) {
        number = (site->fault->at.rank + 1) % (ranks + 1);
    } else if (action->env == HARNESS_VARIABLE_WORLD_SIZE) {
        number = harness_draw_chance(site->draw, 50) ? ranks - 1 : ranks + 1;
    } else {
        return;
    }
    if (number < sizeof numbers / sizeof numbers[0] && harness_draw_chance(site->draw, 70)) {
        action->env_value = numbers[number];
    }
}

/* Now and then a rank is late in each step, where nothing else goes wrong. */
static bool is_straggler(const struct harness_draw_site *site)
{
    return site->job->job->slow_after_ms > 0 && site->is_first && site->is_last &&
           site->fault->at.step >= 0 && harness_draw_chance(site->draw, 40);
}

/* Longer than what it allows, each time that it comes to the point; budgets are longer still. */
static void draw_straggler(struct harness_draw_site *site)
{
    const uint64_t limit_ms = site->job->job->slow_after_ms;

    site->fault->at.step = -1;
    site->fault->at.times = 0;
    site->fault->action.delay_ms = limit_ms + harness_draw_between(site->draw, 2, 40);
}

bool harness_draw_details(struct harness_draw_site *site)
{
    static const int signals[] = {SIGKILL, SIGSEGV, SIGTERM, SIGBUS, SIGABRT};
    struct harness_action *action = &site->fault->action;
    struct harness_draw *draw = site->draw;

    switch (action->kind) {
    case HARNESS_ACTION_KILL:
        action->signal = signals[harness_draw_below(draw, sizeof signals / sizeof signals[0])];
        return true;
    case HARNESS_ACTION_EXIT:
        action->exit_code = (int)HARNESS_DRAW_ONE_OF(draw, 0, 1, 3, 255);
        return action->exit_code != 0 || (site->place != HARNESS_GRAMMAR_AT_START && site->is_last);
    case HARNESS_ACTION_STOP:
        action->stop_ms = harness_draw_chance(draw, 25) ? harness_draw_between(draw, 1, 40) : 0;
        return action->stop_ms > 0 || site->is_last;
    case HARNESS_ACTION_DELAY:
        if (is_straggler(site)) {
            draw_straggler(site);
            return true;
        }
        action->delay_ms = /* who comes late to the start is waited for long */
            harness_draw_between(draw, 1, site->place == HARNESS_GRAMMAR_AT_START ? 400 : 40);
        site->fault->at.times = (uint32_t)harness_draw_between(draw, 1, 2);
        return true;
    case HARNESS_ACTION_CORRUPT:
        return draw_corruption(site);
    case HARNESS_ACTION_IO:
        draw_call(site);
        return true;
    case HARNESS_ACTION_ENV:
        draw_variable(site);
        return true;
    case HARNESS_ACTION_LEAK_MEMORY: /* seen at the end of a job that ends well */
    case HARNESS_ACTION_LEAK_FILE:
        return site->is_first && site->is_last;
    case HARNESS_ACTION_NO_MEMORY: /* no job allocates less */
        action->memory_after =
            harness_draw_below(draw, site->place == HARNESS_GRAMMAR_AT_START ? 100 : 12);
        return true;
    case HARNESS_ACTION_ARG:
        return draw_argument(site);
    default: /* it takes nothing */
        return true;
    }
}
