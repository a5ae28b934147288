/* Purpose: the update of each parameter, worked out again from what was kept of it.
 * Idea: before, gradient, state and options are the rank's own, so that an update is judged by
 * itself, whatever came before it, and a rank that goes wrong is named even if all do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "ddpcore/seam/phase.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/guest/observe/keep.h"
#include "harness/observed/internal.h"
#include "harness/watch/analyse.h"

/* One parameter on one rank. */
struct subject {
    struct harness_observed *observed;
    uint32_t rank, tensor;
    uint64_t number, count;
    const struct observed_update *update;
    const struct observed_options *options;
    float *data[OBSERVED_PARTS]; /* by part; NULL: not kept */
    void *file[OBSERVED_PARTS];
};

enum outcome { HIDDEN, UNKNOWN, BLIND, BITWISE, BOUND, WRONG };

/* What is wrong on a rank. */
struct wrong {
    bool is_there;
    enum harness_verdict verdict;
    uint32_t tensor;
    char text[GUEST_TEXT_BYTES + 160];
};

/* --- what was kept
 * ------------------------------------------------------------------------------------------------
 */

static void read_part(struct subject *the, unsigned part)
{
    static const char *const names[] = GUEST_KEPT_PARTS;
    const struct observed_part *told =
        &the->update->parts[(size_t)the->tensor * OBSERVED_PARTS + part];
    const struct guest_arena *arena = the->observed->watch->arena;
    struct guest_kept_head head;
    struct ddp_err err = {{0}};
    char path[GUEST_FOLDER_BYTES + GUEST_KEPT_NAME_BYTES];
    size_t size_bytes = 0;
    int used;

    if (!told->is_there) {
        return;
    }
    used = snprintf(path, sizeof path, "%.*s/", GUEST_FOLDER_BYTES - 1, arena->keep_folder);
    (void)snprintf(path + used, sizeof path - (size_t)used, GUEST_KEPT_TENSOR_NAME, the->rank,
                   (unsigned long long)the->number, the->tensor, names[part]);
    if (ddp_files_system()->ops->read_all(ddp_files_system(), path, the->observed->mem,
                                          &the->file[part], &size_bytes, &err) != DDP_OK) {
        the->file[part] = NULL;
        return;
    }
    if (size_bytes == sizeof head + the->count * sizeof(float)) {
        memcpy(&head, the->file[part], sizeof head);
        if (head.magic == GUEST_KEPT_MAGIC && head.size_bytes == size_bytes - sizeof head &&
            head.value.hash == told->hash) {
            the->data[part] = (float *)((char *)the->file[part] + sizeof head);
        }
    }
}

/* --- one parameter
 * ------------------------------------------------------------------------------------------------
 */

static bool has_all(const struct subject *the)
{
    const unsigned states = observed_state_count(the->options);

    for (unsigned s = 0; s < states; s++) {
        /* Before the first update there may be no state yet. */
        if (the->data[GUEST_PART_FIRST + s] == NULL ||
            (the->data[GUEST_PART_BEFORE + GUEST_PART_FIRST + s] == NULL &&
             the->options->updates > 0)) {
            return false;
        }
    }
    return the->data[GUEST_PART_DATA] != NULL && the->data[GUEST_PART_BEFORE] != NULL &&
           the->data[GUEST_PART_BEFORE + GUEST_PART_GRADIENT] != NULL;
}

static void replay(const struct subject *the, uint64_t at, struct observed_element *out)
{
    float state[OBSERVED_STATES];

    for (unsigned s = 0; s < OBSERVED_STATES; s++) {
        const float *before = the->data[GUEST_PART_BEFORE + GUEST_PART_FIRST + s];

        state[s] = before != NULL ? before[at] : 0;
    }
    observed_replay(the->options, the->data[GUEST_PART_BEFORE][at],
                    the->data[GUEST_PART_BEFORE + GUEST_PART_GRADIENT][at], state, out);
}

/* NaN is only right where it must come out. */
static bool is_within(double value, double exact, double bound)
{
    return isnan(exact) ? isnan(value) : value == exact || fabs(value - exact) <= bound;
}

static bool is_same_bits(float a, float b)
{
    uint32_t bits[2];

    memcpy(&bits[0], &a, sizeof bits[0]);
    memcpy(&bits[1], &b, sizeof bits[1]);
    return bits[0] == bits[1] || (isnan(a) && isnan(b));
}

/* Nothing of the parameter has changed. */
static bool is_left_alone(const struct subject *the)
{
    return memcmp(the->data[GUEST_PART_DATA], the->data[GUEST_PART_BEFORE],
                  the->count * sizeof(float)) == 0;
}

/* All elements moved by the same multiple of what they should have; *out: which. */
static bool is_scaled(const struct subject *the, double *out)
{
    double product = 0;
    double square = 0;

    for (uint64_t i = 0; i < the->count; i++) {
        struct observed_element element[1 + OBSERVED_STATES];
        const double before = (double)the->data[GUEST_PART_BEFORE][i];

        replay(the, i, element);
        product += ((double)the->data[GUEST_PART_DATA][i] - before) * (element[0].exact - before);
        square += (element[0].exact - before) * (element[0].exact - before);
    }
    *out = product / square;
    if (the->count < 2 || !isfinite(*out)) {
        return false;
    }
    for (uint64_t i = 0; i < the->count; i++) {
        struct observed_element element[1 + OBSERVED_STATES];
        const double before = (double)the->data[GUEST_PART_BEFORE][i];

        replay(the, i, element);
        /* The factor itself is known up to a few bits. */
        if (!is_within((double)the->data[GUEST_PART_DATA][i],
                       before + *out * (element[0].exact - before),
                       4 * fmax(1, fabs(*out)) * element[0].bound)) {
            return false;
        }
    }
    return true;
}

/* What is wrong with the element, and with all of them. part: the parameter's, or a state's. */
static void explain(const struct subject *the, uint64_t at, unsigned part, struct wrong *out)
{
    const struct observed_tensor *tensor = &the->update->table->tensors[the->tensor];
    const char *name = tensor->name[0] != '\0' ? tensor->name : "a parameter";
    struct observed_element element[1 + OBSERVED_STATES];
    double factor = 1;

    *out = (struct wrong){
        .is_there = true, .verdict = HARNESS_VERDICT_VALUE_CORRUPTED, .tensor = the->tensor};
    replay(the, at, element);
    if (part == GUEST_PART_DATA && is_left_alone(the)) {
        out->verdict = HARNESS_VERDICT_VALUE_STALE;
        (void)snprintf(out->text, sizeof out->text, "%s was not updated at all", name);
    } else if (part == GUEST_PART_DATA && is_scaled(the, &factor)) {
        out->verdict = HARNESS_VERDICT_VALUE_SCALED;
        (void)snprintf(out->text, sizeof out->text,
                       "%s changed by %.4g times what the optimizer's options give", name, factor);
    } else {
        (void)snprintf(
            out->text, sizeof out->text,
            "%s%s is %.9g in element %llu, where the optimizer's options give %.9g (rounding "
            "explains %.3g)",
            name, part == GUEST_PART_DATA ? "" : "'s state of the optimizer",
            (double)the->data[part][at], (unsigned long long)at, element[part].exact,
            element[part].bound);
    }
}

/* Every element of the parameter and of its states. */
static enum outcome judge_elements(const struct subject *the, struct wrong *out)
{
    const unsigned parts = 1 + observed_state_count(the->options);
    bool is_bitwise = true;
    bool is_blind = true;

    for (uint64_t i = 0; i < the->count; i++) {
        struct observed_element element[1 + OBSERVED_STATES];

        replay(the, i, element);
        is_blind = is_blind && fabs(element[0].exact - (double)the->data[GUEST_PART_BEFORE][i]) <=
                                   element[0].bound;
        for (unsigned p = 0; p < parts; p++) {
            const float value = the->data[p][i];

            is_bitwise = is_bitwise && is_same_bits(value, element[p].plain);
            if (!is_same_bits(value, element[p].plain) &&
                !is_within((double)value, element[p].exact, element[p].bound)) {
                explain(the, i, p, out);
                return WRONG;
            }
        }
    }
    if (is_bitwise) {
        return BITWISE;
    }
    return is_blind ? BLIND : BOUND;
}

/* Without a gradient the optimizer leaves it alone. */
static enum outcome judge_untouched(const struct subject *the, struct wrong *out)
{
    const struct observed_part *parts = &the->update->parts[(size_t)the->tensor * OBSERVED_PARTS];
    const struct observed_tensor *tensor = &the->update->table->tensors[the->tensor];

    if (!parts[GUEST_PART_DATA].is_there || !parts[GUEST_PART_BEFORE].is_there) {
        return HIDDEN;
    }
    if (parts[GUEST_PART_DATA].hash == parts[GUEST_PART_BEFORE].hash) {
        return BITWISE;
    }
    *out = (struct wrong){
        .is_there = true, .verdict = HARNESS_VERDICT_VALUE_CORRUPTED, .tensor = the->tensor};
    (void)snprintf(out->text, sizeof out->text, "%s changed, and has no gradient",
                   tensor->name[0] != '\0' ? tensor->name : "a parameter");
    return WRONG;
}

static enum outcome judge_tensor(struct subject *the, struct wrong *out)
{
    const struct observed_tensor *tensor = &the->update->table->tensors[the->tensor];
    enum outcome outcome = HIDDEN;

    the->options = &the->update->options[the->tensor];
    the->count = tensor->elem_count;
    memset(the->data, 0, sizeof the->data);
    memset(the->file, 0, sizeof the->file);
    if (!the->options->is_there) {
        return HIDDEN;
    }
    if (!observed_is_known(the->options)) {
        return UNKNOWN;
    }
    if (!the->update
             ->parts[(size_t)the->tensor * OBSERVED_PARTS + GUEST_PART_BEFORE + GUEST_PART_GRADIENT]
             .is_there) {
        return judge_untouched(the, out);
    }
    if (tensor->dtype != DDPROVE_GUEST_F32) {
        return UNKNOWN;
    }
    for (unsigned part = 0; part < OBSERVED_PARTS; part++) {
        read_part(the, part);
    }
    if (has_all(the)) {
        outcome = judge_elements(the, out);
    }
    for (unsigned part = 0; part < OBSERVED_PARTS; part++) {
        ddp_mem_free(the->observed->mem, the->file[part]);
    }
    return outcome;
}

/* --- all of them
 * --------------------------------------------------------------------------------------------------
 */

/* The update was announced, so that its data were kept. */
static bool is_kept(const struct observed_update *update)
{
    for (size_t i = 0; i < (size_t)update->table->count * OBSERVED_PARTS; i++) {
        if (i % OBSERVED_PARTS >= GUEST_PART_BEFORE && update->parts[i].is_there) {
            return true;
        }
    }
    return false;
}

static void count(struct harness_observed *observed, enum outcome outcome)
{
    observed->hidden += outcome == HIDDEN;
    observed->unknown += outcome == UNKNOWN;
    observed->blind += outcome == BLIND;
    observed->update.judged += outcome >= BITWISE;
    observed->update.bitwise += outcome == BITWISE;
    observed->update.bound += outcome == BOUND;
}

static void judge_rank(struct harness_observed *observed, uint32_t rank, uint64_t number,
                       struct wrong *out)
{
    struct subject the = {.observed = observed,
                          .rank = rank,
                          .number = number,
                          .update = observed_update_of(observed, rank, number)};

    if (the.update == NULL || !is_kept(the.update)) {
        return;
    }
    for (the.tensor = 0; the.tensor < the.update->table->count; the.tensor++) {
        struct wrong wrong = {.is_there = false};

        if (the.update->table->tensors[the.tensor].role == DDPROVE_GUEST_PARAMETER) {
            count(observed, judge_tensor(&the, &wrong));
            *out = out->is_there ? *out : wrong;
        }
    }
}

/* Ranks that are wrong in the same way are one finding. */
static void add(const struct harness_observed *observed, const struct wrong *wrong, uint32_t rank,
                uint64_t number, struct harness_findings *out)
{
    const struct observed_update *update = observed_update_of(observed, rank, number);
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    for (uint32_t r = 0; r < rank; r++) {
        if (wrong[r].is_there && wrong[r].verdict == wrong[rank].verdict) {
            return;
        }
    }
    harness_finding_init(&finding, out->mem, wrong[rank].verdict, HARNESS_ORACLE_UPDATE,
                         HARNESS_MODE_BOUND);
    for (uint32_t r = rank; r < observed->watch->world_size; r++) {
        if (wrong[r].is_there && wrong[r].verdict == wrong[rank].verdict) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    finding.step = (int32_t)update->step;
    finding.phase = DDP_PHASE_OPTIMIZER;
    observed_add_param(observed, update->table->tensors[wrong[rank].tensor].name, &finding);
    harness_watch_say(&finding, "update %llu of the model, in step %u, on rank %s: %s",
                      (unsigned long long)number, update->step,
                      harness_rank_set_text(&finding.culprits, ranks), wrong[rank].text);
    harness_findings_add(out, &finding);
}

bool observed_judge_update(struct harness_observed *observed, uint64_t number,
                           struct harness_findings *out)
{
    const size_t before = out->count;
    struct wrong *wrong = ddp_mem_array(observed->mem, observed->watch->world_size, sizeof *wrong);

    if (wrong == NULL) {
        observed->is_failed = true;
        return false;
    }
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        judge_rank(observed, r, number, &wrong[r]);
    }
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        if (wrong[r].is_there) {
            add(observed, wrong, r, number, out);
        }
    }
    ddp_mem_free(observed->mem, wrong);
    return out->count > before;
}
