/* Purpose: make one difference of all deviations that are one error.
 * Idea: a collective is one operation, whatever ranks it went wrong on; elsewhere a rank's tensors
 * of one stage belong together, of BatchNorms' exchanges what went in, and what came out. Ranks
 * that deviate in the same way are named together. */
#include "harness/emulation/compare.h"

#include <math.h>
#include <string.h>

#include "harness/emulation/emulation.h"

/* A fault of every step of a long run need not be listed to its end. */
enum { DIFFERENCES_MAX = 1024 };

void harness_compare_note(struct harness_emulation *e, const struct harness_deviation *deviation)
{
    struct harness_compare *compare = &e->compare;
    struct harness_deviation *grown =
        ddp_mem_grow(e->mem, compare->noted, compare->noted_count, &compare->noted_capacity,
                     sizeof(*compare->noted));

    DDP_ASSERT(deviation->rank < e->world);
    if (grown == NULL) {
        e->is_out_of_memory = true;
        return;
    }
    compare->noted = grown;
    compare->noted[compare->noted_count++] = *deviation;
}

static bool is_bucketwise(enum harness_stage stage)
{
    return stage == HARNESS_STAGE_INPUT || stage == HARNESS_STAGE_OUTPUT ||
           stage == HARNESS_STAGE_FINAL;
}

/* Both lack, or have too much of, the same rank's contribution. */
static bool is_same_share(const struct harness_description *a, const struct harness_description *b)
{
    return a->share == b->share &&
           (a->share == HARNESS_SHARE_DUE || a->share_rank == b->share_rank);
}

/* Both are described by the same words. */
static bool is_alike(const struct harness_description *a, const struct harness_description *b)
{
    const struct harness_residual *x = &a->residual;
    const struct harness_residual *y = &b->residual;

    return harness_residual_is_one_factor(x, y) || harness_residual_is_one_format(x, y) ||
           (a->verdict == b->verdict && is_same_share(a, b) && x->bit == y->bit &&
            a->verdict != HARNESS_VERDICT_VALUE_PRECISION && x->shift == y->shift &&
            !(x->factor < y->factor) && !(x->factor > y->factor) &&
            (x->bit < 0 || x->first == y->first));
}

/* What both say of their factor; who calls it scaled says it. */
static void join_factors(struct harness_deviation *first, const struct harness_deviation *other)
{
    double low = fmax(first->what.residual.low, other->what.residual.low);
    double high = fmin(first->what.residual.high, other->what.residual.high);

    if (harness_residual_is_one_factor(&first->what.residual, &other->what.residual)) {
        if (first->what.verdict == HARNESS_VERDICT_VALUE_CORRUPTED) {
            *first = *other;
        }
        first->what.residual.low = low;
        first->what.residual.high = high;
    }
}

/* The formats that do for both. */
static void join_formats(struct harness_deviation *first, const struct harness_deviation *other)
{
    const unsigned formats = first->what.residual.formats & other->what.residual.formats;

    if (harness_residual_is_one_format(&first->what.residual, &other->what.residual)) {
        if (first->what.verdict != HARNESS_VERDICT_VALUE_PRECISION ||
            (other->what.verdict == HARNESS_VERDICT_VALUE_PRECISION &&
             other->what.residual.formats == formats)) {
            *first = *other;
        }
        first->what.residual.formats = formats;
    }
}

static void add_params(struct harness_difference *difference,
                       const struct harness_deviation *deviation)
{
    const struct harness_list *own = &deviation->what.params;

    for (uint32_t i = 0; i < own->count; i++) {
        if (!harness_list_has(&difference->params, harness_list_at(own, i))) {
            harness_list_add(&difference->params, harness_list_at(own, i));
        }
    }
    if (own->count == 0 && deviation->param >= 0 &&
        !harness_list_has(&difference->params, (uint32_t)deviation->param)) {
        harness_list_add(&difference->params, (uint32_t)deviation->param);
    }
}

static struct harness_difference *append(struct harness_emulation *e)
{
    struct harness_compare *compare = &e->compare;
    struct harness_difference *items;

    if (compare->count >= DIFFERENCES_MAX) {
        compare->is_cut_off = true;
        return NULL;
    }
    items = ddp_mem_grow(e->mem, compare->items, compare->count, &compare->capacity,
                         sizeof(*compare->items));
    if (items == NULL) {
        e->is_out_of_memory = true;
        return NULL;
    }
    compare->items = items;
    return &compare->items[compare->count++];
}

/* One rank's part of an error: deviations [first, end) of the same bucket, or of any. */
static void start(struct harness_emulation *e, enum harness_stage stage, uint32_t step,
                  const struct harness_deviation *deviation, struct harness_difference *out)
{
    struct ddp_mem *mem = ddp_mem_pool_mem(e->sets);

    *out = (struct harness_difference){.stage = stage,
                                       .step = step,
                                       .params = harness_list_in(mem),
                                       .ranks = harness_rank_set_in(mem),
                                       .first = *deviation,
                                       .is_alike = true};
    harness_rank_set_add(&out->ranks, deviation->rank);
}

/* A value that is not finite says more than what follows from it. */
static void join(struct harness_difference *difference, const struct harness_deviation *deviation)
{
    if (difference->first.what.verdict != HARNESS_VERDICT_VALUE_NONFINITE &&
        deviation->what.verdict == HARNESS_VERDICT_VALUE_NONFINITE) {
        difference->first = *deviation;
    } else if (!is_alike(&difference->first.what, &deviation->what)) {
        difference->is_alike = false;
    } else {
        join_factors(&difference->first, deviation);
        join_formats(&difference->first, deviation);
    }
    add_params(difference, deviation);
}

/* Another deviation of the rank that is part of the same error. */
static bool is_same_part(enum harness_stage stage, const struct harness_deviation *a,
                         const struct harness_deviation *b)
{
    return a->rank == b->rank && (!is_bucketwise(stage) || a->bucket == b->bucket) &&
           (stage != HARNESS_STAGE_STATISTIC || a->is_result == b->is_result);
}

static bool is_same_list(const struct harness_list *a, const struct harness_list *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (i >= b->count || harness_list_at(a, i) != harness_list_at(b, i)) {
            return false;
        }
    }
    return a->count == b->count;
}

/* Another rank's part of the same error. */
static bool is_same_error(const struct harness_difference *a, const struct harness_difference *b)
{
    DDP_ASSERT(a->stage == b->stage && a->step == b->step);
    if (a->stage == HARNESS_STAGE_STATISTIC &&
        (a->first.is_result != b->first.is_result || a->first.seq != b->first.seq)) {
        return false;
    }
    return (!is_bucketwise(a->stage) || a->first.bucket == b->first.bucket) &&
           a->is_alike == b->is_alike && a->first.is_loss == b->first.is_loss &&
           is_alike(&a->first.what, &b->first.what) && is_same_list(&a->params, &b->params);
}

static void keep(struct harness_emulation *e, size_t begin,
                 const struct harness_difference *difference)
{
    struct harness_difference *added;

    for (size_t i = begin; i < e->compare.count; i++) {
        if (is_same_error(&e->compare.items[i], difference)) {
            harness_rank_set_add_all(&e->compare.items[i].ranks, &difference->ranks);
            return;
        }
    }
    added = append(e);
    if (added != NULL) {
        *added = *difference;
    }
}

void harness_compare_close(struct harness_emulation *e, enum harness_stage stage, uint32_t step)
{
    struct harness_compare *compare = &e->compare;
    size_t begin = compare->count;

    for (size_t i = 0; i < compare->noted_count; i++) {
        struct harness_deviation *own = &compare->noted[i];
        struct harness_difference difference;

        if (own->rank == UINT32_MAX) {
            continue; /* part of an earlier one */
        }
        start(e, stage, step, own, &difference);
        for (size_t k = i; k < compare->noted_count; k++) {
            struct harness_deviation *other = &compare->noted[k];

            if (is_same_part(stage, &difference.first, other)) {
                join(&difference, other);
                other->rank = k > i ? UINT32_MAX : other->rank;
            }
        }
        keep(e, begin, &difference);
    }
    compare->noted_count = 0;
}

bool harness_compare_has(const struct harness_emulation *e, enum harness_stage stage, uint32_t step)
{
    for (size_t i = e->compare.count; i-- > 0 && e->compare.items[i].step == step;) {
        if (e->compare.items[i].stage == stage) {
            return true;
        }
    }
    return false;
}

bool harness_compare_is_known_until(const struct harness_emulation *e, uint32_t step)
{
    return e->unknown_from < 0 || step < (uint64_t)e->unknown_from;
}
