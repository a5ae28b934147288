/* Purpose: inputs in whose sums the order shows, and the comparison of what came out.
 * Idea: a number is a function of rank and place alone, so both ends work it out by themselves. A
 * sum of n numbers in any order is at most gamma = (n - 1) u / (1 - (n - 1) u) of the sum of
 * magnitudes away from the exact one (Higham, "The accuracy of floating point summation", 1993);
 * the exact one is taken in fp64, whose own error is counted too. */
#include "harness/lab/data.h"

#include <math.h>
#include <string.h>

enum { EXPONENTS = 12 };

/* A mixer of 64 bits: splitmix64's. */
static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* Sign, a whole mantissa and one of EXPONENTS exponents around 1. */
static float number_at(uint32_t rank, size_t place)
{
    uint64_t bits = mix(((uint64_t)rank << 40) + place + UINT64_C(0x9e3779b97f4a7c15));
    uint32_t exponent = 127 - EXPONENTS / 2 + (uint32_t)((bits >> 32) % EXPONENTS);
    uint32_t word = ((uint32_t)(bits >> 63) << 31) | (exponent << 23) | ((uint32_t)bits & 0x7fffff);
    float value;

    memcpy(&value, &word, sizeof value);
    return value;
}

void harness_lab_fill(uint32_t rank, float *out, size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        out[i] = number_at(rank, i);
    }
}

/* --- expected bits ---------------------------------------------------------------------------- */

/* The whole buffers of a set in place of a reduce-scatter or an all-gather are longer than a rank's
 * output, so every rank gets buffers of its own. */
struct runs {
    void *input[HARNESS_LAB_RANKS_MAX];
    void *output[HARNESS_LAB_RANKS_MAX];
};

static ddp_status run_set(struct harness_lab_shared *shared, struct harness_schedule_set *set,
                          struct runs *runs, struct ddp_mem *mem)
{
    const struct harness_lab_request *request = &shared->request;

    for (uint32_t r = 0; r < request->ranks; r++) {
        size_t room = shared->arena_bytes;

        runs->input[r] = harness_lab_area(shared, r, HARNESS_LAB_INPUT);
        runs->output[r] = ddp_mem_array(mem, room, 1);
        if (runs->output[r] == NULL) {
            return DDP_E_NOMEM;
        }
    }
    return harness_schedule_set_run(set, runs->input, runs->output);
}

struct ddp_coll_choice harness_lab_choice(const struct harness_lab_request *request,
                                          size_t elem_count)
{
    size_t i = 0;

    if (request->choice_count == 0) {
        return (struct ddp_coll_choice){SIZE_MAX, request->algorithm, request->segment_bytes};
    }
    while (i + 1 < request->choice_count &&
           elem_count * sizeof(float) > request->choice[i].bytes_max) {
        i++;
    }
    return request->choice[i];
}

/* A plug-in is asked as the kind's default algorithm would be. */
struct harness_coll_case harness_lab_case(const struct harness_lab_request *request,
                                          size_t elem_count, bool is_in_place)
{
    const struct ddp_coll_choice choice = harness_lab_choice(request, elem_count);
    const struct ddp_algorithm *algorithm = ddp_algorithm_find(request->kind, choice.algorithm);

    return (struct harness_coll_case){.world = request->ranks,
                                      .elem_count = elem_count,
                                      .is_in_place = is_in_place,
                                      .segment_elem_count = ddp_algorithm_segment_elem_count(
                                          algorithm, request->segment_bytes, DDP_DTYPE_F32)};
}

/* Bits that follow from wrong schedules would be no measure. */
static ddp_status prove(const struct harness_schedule_set *set, struct ddp_mem *mem,
                        struct ddp_err *err)
{
    struct harness_findings findings;

    harness_findings_init(&findings, mem);
    DDP_TRY(harness_schedule_set_prove(set, &findings));
    if (findings.is_failed) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory");
    }
    return findings.count == 0 && set->is_ordered
               ? DDP_OK
               : ddp_err_set(err, DDP_E_INVALID, "it is wrong, see ddprove coll check: %s",
                             findings.count > 0 ? findings.items[0].text : "nobody can go on");
}

ddp_status harness_lab_expect(struct harness_lab_shared *shared, struct harness_coll_source *source,
                              size_t elem_count, bool is_in_place, struct ddp_err *err)
{
    const struct harness_lab_request *request = &shared->request;
    const struct harness_coll_case test = harness_lab_case(request, elem_count, is_in_place);
    struct ddp_mem_pool *pool = NULL;
    struct harness_schedules schedules;
    struct runs runs = {{NULL}, {NULL}};
    uint32_t rank = 0;
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status != DDP_OK) {
        return ddp_err_set(err, status, "no memory");
    }
    harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
    status = harness_coll_emit(source, &test, &schedules, &rank, err);
    if (status == DDP_OK) {
        status = prove(&schedules.sets[0], ddp_mem_pool_mem(pool), err);
    }
    if (status == DDP_OK) {
        status = run_set(shared, &schedules.sets[0], &runs, ddp_mem_pool_mem(pool));
        if (status != DDP_OK) {
            (void)ddp_err_set(err, status, "its sums cannot be worked out: %s",
                              ddp_status_text(status));
        }
    }
    for (uint32_t r = 0; status == DDP_OK && r < request->ranks; r++) {
        struct harness_span span = harness_schedule_output(schedules.sets[0].member[r]);

        memcpy(harness_lab_area(shared, r, HARNESS_LAB_EXPECTED),
               (const char *)runs.output[r] + span.first * sizeof(float),
               span.elem_count * sizeof(float));
    }
    ddp_mem_pool_destroy(pool);
    return status;
}

/* --- comparison ------------------------------------------------------------------------------- */

/* The rank, and the place in its input, of what is copied to an element of an output. */
static float copied(struct harness_lab_shared *shared, uint32_t rank, size_t elem_count, size_t i)
{
    uint32_t from = 0;
    size_t place = i;

    switch (shared->request.kind) {
    case DDP_COLL_ALL_GATHER:
        from = (uint32_t)(i / elem_count);
        place = i % elem_count;
        break;
    case DDP_COLL_ALL_TO_ALL:
        from = (uint32_t)(i / elem_count);
        place = rank * elem_count + i % elem_count;
        break;
    default: /* a broadcast from rank 0 */
        break;
    }
    return number_at(from, place);
}

static bool is_near(struct harness_lab_shared *shared, size_t place, float value)
{
    uint32_t ranks = shared->request.ranks;
    double u = (ranks - 1) * ldexp(1, -24);
    double sum = 0;
    double magnitudes = 0;

    for (uint32_t r = 0; r < ranks; r++) {
        double term = (double)number_at(r, place);

        sum += term;
        magnitudes += fabs(term);
    }
    /* 2^-40: many times what fp64 can be wrong by. */
    return fabs((double)value - sum) <= (u / (1 - u) + ldexp(1, -40)) * magnitudes;
}

static bool is_right(struct harness_lab_shared *shared, uint32_t rank, size_t elem_count, size_t i,
                     float value)
{
    enum ddp_coll_kind kind = shared->request.kind;

    if (shared->request.engine == HARNESS_LAB_COPY) {
        return value == number_at(rank, i);
    }
    if (!ddp_coll_kind_is_sum(kind)) {
        return value == copied(shared, rank, elem_count, i);
    }
    return is_near(shared, kind == DDP_COLL_REDUCE_SCATTER ? rank * elem_count + i : i, value);
}

uint64_t harness_lab_count_wrong(struct harness_lab_shared *shared, uint32_t rank,
                                 const float *output, size_t elem_count, size_t *out_first)
{
    const struct harness_lab_request *request = &shared->request;
    const uint32_t *expected = harness_lab_area(shared, rank, HARNESS_LAB_EXPECTED);
    const uint32_t *words = (const uint32_t *)(const void *)output;
    size_t count = harness_lab_output_elems(request, elem_count);
    uint64_t wrong = 0;

    if (request->kind == DDP_COLL_REDUCE && rank != 0) {
        return 0; /* it has no output */
    }
    if (request->is_bitwise && memcmp(words, expected, count * sizeof(*words)) == 0) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        bool is_good = request->is_bitwise ? words[i] == expected[i]
                                           : is_right(shared, rank, elem_count, i, output[i]);

        if (!is_good) {
            *out_first = wrong == 0 ? i : *out_first;
            wrong++;
        }
    }
    return wrong;
}
