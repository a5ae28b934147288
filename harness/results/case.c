/* One call's data, and findings about it. */
#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/results/sums.h"

bool harness_sums_is_integer(const struct harness_sums_case *the)
{
    return the->dtype != DDPROVE_GUEST_F16 && the->dtype != DDPROVE_GUEST_BF16 &&
           the->dtype != DDPROVE_GUEST_F32 && the->dtype != DDPROVE_GUEST_F64;
}

bool harness_sums_is_move(const struct harness_sums_case *the)
{
    return the->kind != DDPROVE_GUEST_ALL_REDUCE && the->kind != DDPROVE_GUEST_REDUCE &&
           the->kind != DDPROVE_GUEST_REDUCE_SCATTER;
}

bool harness_sums_is_sum(const struct harness_sums_case *the)
{
    return harness_sums_is_move(the) || the->redop == DDPROVE_GUEST_SUM ||
           (the->redop == DDPROVE_GUEST_AVG && !harness_sums_is_integer(the));
}

static double value_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

void harness_sums_add(const struct harness_sums_case *the, const struct harness_watch_value *value,
                      struct harness_sums_total *total)
{
    if (harness_sums_is_integer(the)) {
        total->whole += value->sum;
    } else {
        total->sum += value_of(value->sum);
    }
    total->magnitude += value_of(value->magnitude);
    total->hash += value->hash;
}

void harness_sums_begin(const struct harness_sums_case *the, enum harness_verdict verdict,
                        enum harness_mode mode, struct harness_findings *out,
                        struct harness_finding *finding)
{
    uint64_t *const wrong_ns = &the->watch->wrong_result_ns;
    struct ddp_text text;

    harness_finding_init(finding, out->mem, verdict,
                         the->kind == DDPROVE_GUEST_BROADCAST ? HARNESS_ORACLE_BROADCAST
                                                              : HARNESS_ORACLE_REDUCTION,
                         mode);
    harness_watch_set_op(the->group, the->seq, the->call, finding);
    for (uint32_t i = 0; i < the->size; i++) {
        const uint64_t posted_ns = the->members[i].call->time_ns;

        *wrong_ns = *wrong_ns == 0 || posted_ns < *wrong_ns ? posted_ns : *wrong_ns;
    }
    ddp_text_init(&text, the->watch->mem);
    harness_watch_print_call(the->group, the->seq, the->call, &text);
    harness_watch_say(finding, "%s in step %u: ", ddp_text_str(&text), the->call->step);
    ddp_text_fini(&text);
}

void harness_sums_blame_all(const struct harness_sums_case *the, struct harness_finding *finding)
{
    for (uint32_t i = 0; i < the->size; i++) {
        harness_rank_set_add(&finding->culprits, the->members[i].rank);
    }
}

bool harness_sums_is_telling(const struct harness_sums_case *the, double distance, double size)
{
    return HARNESS_SUMS_CHANGES * ((double)the->size + 1) * distance <= 1e-3 * size;
}

double harness_sums_factor(const struct harness_sums_case *the)
{
    return the->redop == DDPROVE_GUEST_AVG ? 1.0 / the->size : 1.0;
}
