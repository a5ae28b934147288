/* Purpose: see the header.
 * Idea: whole numbers leave no room for rounding, so whatever is lost, doubled or moved shows, and
 * the difference tells whose contribution it is. */
#include "harness/lab/numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/lab/data.h"
#include "harness/lab/element.h"

enum {
    WIDE = 97,
    BYTE_WIDE = 16,
    NARROW = 7,
    TWO_EVERY = 5,
    SPECIALS = 9,
    PERIOD = WIDE * NARROW * TWO_EVERY
};

static size_t in_elems(const struct harness_lab_shared *shared)
{
    return harness_lab_input_elems(&shared->request, shared->trial.elem_count);
}

static size_t out_elems(const struct harness_lab_shared *shared)
{
    return harness_lab_output_elems(&shared->request, shared->trial.elem_count);
}

/* Elements that a slice has room for, as the count of its calls. */
static size_t slice_elems(const struct harness_lab_shared *shared)
{
    const struct harness_lab_trial *trial = &shared->trial;

    return trial->slice_elem_count > 0 ? trial->slice_elem_count : trial->elem_count;
}

static unsigned char *input_of(struct harness_lab_shared *shared, uint32_t rank, uint32_t slice)
{
    size_t bytes = harness_lab_input_elems(&shared->request, slice_elems(shared)) *
                   ddp_dtype_size_bytes(shared->trial.dtype);

    return (unsigned char *)harness_lab_area(shared, rank, HARNESS_LAB_INPUT) + bytes * slice;
}

static unsigned char *output_of(struct harness_lab_shared *shared, uint32_t rank, uint32_t slice)
{
    size_t bytes = harness_lab_output_elems(&shared->request, slice_elems(shared)) *
                   ddp_dtype_size_bytes(shared->trial.dtype);

    return (unsigned char *)harness_lab_area(shared, rank, HARNESS_LAB_EXPECTED) + bytes * slice;
}

/* --- whole numbers ---------------------------------------------------------------------------- */

/* Factors of the numbers of a wide trial: sums of 16 of them are exact in the type, and in
 * no narrower one. */
static int64_t factor_of(enum ddp_dtype dtype)
{
    switch (dtype) {
    case DDP_DTYPE_F32:
        return (INT64_C(1) << 13) + 1;
    case DDP_DTYPE_F64:
        return (INT64_C(1) << 40) + 1;
    case DDP_DTYPE_I32:
        return (INT64_C(1) << 20) + 1;
    case DDP_DTYPE_I64:
        return (INT64_C(1) << 52) + 1;
    default: /* 16 bits have no room; of bytes see below */
        return 1;
    }
}

/* Of both signs, or of a byte with and without its highest bit: an empty maximum that begins at
 * zero, and bytes that are compared with a sign, show. Sums of bytes stay below 256: whether they
 * wrap or saturate is left open by those who define sums (Open MPI's do either, by the count). */
static int64_t wide_of(const struct harness_lab_trial *trial, uint64_t number, int64_t plain)
{
    if (trial->dtype == DDP_DTYPE_U8) {
        return trial->redop == DDP_REDOP_PROD  ? plain
               : trial->redop == DDP_REDOP_SUM ? plain % BYTE_WIDE
                                               : (plain * TWO_EVERY) & UINT8_MAX;
    }
    if (trial->redop == DDP_REDOP_PROD) {
        return number % NARROW == 0 ? -plain : plain;
    }
    plain -= trial->dtype == DDP_DTYPE_BF16 ? NARROW / 2 + 1 : WIDE / 2 + 1;
    return plain * factor_of(trial->dtype);
}

/* bf16 has 8 bits for a sum, fp16 11. After PERIOD places the numbers come again: that is no power
 * of two, so a place that lost its upper bits has another number. */
static int64_t whole_at(const struct harness_lab_trial *trial, uint32_t rank, size_t place,
                        uint32_t seed)
{
    uint64_t number = (uint64_t)rank * 31 + place * 7 + (uint64_t)seed * 13;
    int64_t plain = trial->redop == DDP_REDOP_PROD
                        ? (number % TWO_EVERY == 0 ? 2 : 1)
                        : 1 + (int64_t)(number % (trial->dtype == DDP_DTYPE_BF16 ? NARROW : WIDE));

    return trial->is_wide ? wide_of(trial, number, plain) : plain;
}

void harness_lab_put_whole(struct harness_lab_shared *shared, uint32_t slice, uint32_t seed)
{
    size_t elem_bytes = ddp_dtype_size_bytes(shared->trial.dtype);
    size_t count = in_elems(shared);
    size_t first = count < (size_t)PERIOD ? count : (size_t)PERIOD;

    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        unsigned char *input = input_of(shared, r, slice);

        for (size_t i = 0; i < first; i++) {
            harness_lab_store(input, i, shared->trial.dtype, whole_at(&shared->trial, r, i, seed));
        }
        for (size_t i = first; i < count; i += first) {
            memcpy(input + i * elem_bytes, input,
                   (count - i < first ? count - i : first) * elem_bytes);
        }
    }
}

static int64_t combine(enum ddp_redop redop, int64_t a, int64_t b)
{
    switch (redop) {
    case DDP_REDOP_MAX:
        return a > b ? a : b;
    case DDP_REDOP_MIN:
        return a < b ? a : b;
    case DDP_REDOP_PROD:
        return a * b;
    case DDP_REDOP_SUM:
    case DDP_REDOP_COUNT:
        break;
    }
    return a + b;
}

/* The rank, and the place in its input, of what is copied to an element of an output. */
static void find_source(const struct harness_lab_shared *shared, uint32_t rank, size_t elem,
                        uint32_t *out_rank, size_t *out_place)
{
    size_t block = shared->trial.elem_count;

    *out_rank = shared->trial.root;
    *out_place = elem;
    if (shared->request.kind == DDP_COLL_ALL_GATHER ||
        shared->request.kind == DDP_COLL_ALL_TO_ALL) {
        *out_rank = (uint32_t)(elem / block);
        *out_place = elem % block;
        *out_place += shared->request.kind == DDP_COLL_ALL_TO_ALL ? rank * block : 0;
    }
}

static size_t place_of(const struct harness_lab_shared *shared, uint32_t rank, size_t elem)
{
    return shared->request.kind == DDP_COLL_REDUCE_SCATTER ? rank * shared->trial.elem_count + elem
                                                           : elem;
}

static int64_t expected_at(const struct harness_lab_shared *shared, uint32_t rank, size_t elem,
                           uint32_t seed)
{
    const struct harness_lab_trial *trial = &shared->trial;
    size_t place = place_of(shared, rank, elem);
    uint32_t from;
    int64_t sum;

    if (!ddp_coll_kind_is_sum(shared->request.kind)) {
        find_source(shared, rank, elem, &from, &place);
        return whole_at(trial, from, place, seed);
    }
    sum = whole_at(trial, 0, place, seed);
    for (uint32_t r = 1; r < shared->request.ranks; r++) {
        sum = combine(trial->redop, sum, whole_at(trial, r, place, seed));
    }
    return trial->dtype == DDP_DTYPE_U8 ? (int64_t)(uint8_t)sum : sum;
}

/* Whose contribution the difference is, if it is one rank's. */
static void explain(struct harness_lab_shared *shared, uint32_t slice, uint32_t rank, size_t elem,
                    uint32_t seed, struct harness_lab_wrong *out)
{
    const struct harness_lab_trial *trial = &shared->trial;
    const unsigned char *output = output_of(shared, rank, slice);
    int64_t expected = expected_at(shared, rank, elem, seed);
    int64_t got;
    bool is_number = harness_lab_load_whole(output, elem, trial->dtype, &got);
    char text[32];
    size_t used;
    uint32_t matches = 0;
    uint32_t whose = 0;
    bool is_missing = false;

    (void)snprintf(text, sizeof text, "%lld", (long long)got);
    if (!is_number) {
        (void)snprintf(text, sizeof text, trial->dtype == DDP_DTYPE_F64 ? "%.17g" : "%.9g",
                       harness_lab_load(output, elem, trial->dtype));
    }
    used = (size_t)snprintf(out->text, sizeof out->text, "element %zu of rank %u is %s, not %lld",
                            elem, rank, text, (long long)expected);
    if (!is_number || !ddp_coll_kind_is_sum(shared->request.kind) ||
        trial->redop != DDP_REDOP_SUM || trial->dtype == DDP_DTYPE_U8) {
        return;
    }
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        double own = (double)whole_at(trial, r, place_of(shared, rank, elem), seed);
        double difference = (double)expected - (double)got;

        if (fabs(own) > 0.5 && fabs(fabs(difference) - fabs(own)) < 0.5) {
            matches++;
            whose = r;
            is_missing = (difference > 0) == (own > 0);
        }
    }
    if (matches == 1) {
        (void)snprintf(out->text + used, sizeof out->text - used,
                       ": the contribution of rank %u %s", whose,
                       is_missing ? "is missing" : "is in it twice");
    }
}

static bool has_output(const struct harness_lab_shared *shared, uint32_t rank)
{
    return shared->request.kind != DDP_COLL_REDUCE || rank == shared->trial.root;
}

/* Whether a block of a rank's output is right: its first period, and what follows is what lies a
 * period before it. False: perhaps not; who asks looks at each element. */
static bool is_block_right(struct harness_lab_shared *shared, uint32_t slice, uint32_t rank,
                           size_t from, uint32_t seed)
{
    enum ddp_dtype dtype = shared->trial.dtype;
    size_t elem_bytes = ddp_dtype_size_bytes(dtype);
    size_t count = shared->trial.elem_count;
    size_t first = count < (size_t)PERIOD ? count : (size_t)PERIOD;
    const unsigned char *output = output_of(shared, rank, slice);
    const unsigned char *block = output + from * elem_bytes;

    for (size_t i = from; i < from + first; i++) {
        if (!harness_lab_is_whole(output, i, dtype, expected_at(shared, rank, i, seed))) {
            return false;
        }
    }
    return memcmp(block, block + first * elem_bytes, (count - first) * elem_bytes) == 0;
}

static bool is_all_right(struct harness_lab_shared *shared, uint32_t slice, uint32_t seed)
{
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        for (size_t from = 0; has_output(shared, r) && from < out_elems(shared);
             from += shared->trial.elem_count) {
            if (!is_block_right(shared, slice, r, from, seed)) {
                return false;
            }
        }
    }
    return true;
}

bool harness_lab_judge_whole(struct harness_lab_shared *shared, uint32_t slice, uint32_t seed,
                             struct harness_lab_wrong *out)
{
    if (is_all_right(shared, slice, seed)) {
        return true;
    }
    for (size_t i = 0; i < out_elems(shared); i++) {
        for (uint32_t r = 0; r < shared->request.ranks; r++) {
            if (has_output(shared, r) &&
                !harness_lab_is_whole(output_of(shared, r, slice), i, shared->trial.dtype,
                                      expected_at(shared, r, i, seed))) {
                *out = (struct harness_lab_wrong){.rank = r, .elem = i};
                explain(shared, slice, r, i, seed, out);
                return false;
            }
        }
    }
    return true;
}

/* --- any numbers ------------------------------------------------------------------------------ */

void harness_lab_put_any(struct harness_lab_shared *shared)
{
    DDP_ASSERT(shared->trial.dtype == DDP_DTYPE_F32);
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        harness_lab_fill(r, (float *)(void *)input_of(shared, r, 0), in_elems(shared));
    }
}

bool harness_lab_judge_any(struct harness_lab_shared *shared, struct harness_lab_wrong *out)
{
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        const float *output = (const float *)(const void *)output_of(shared, r, 0);
        size_t first = 0;

        if (harness_lab_count_wrong(shared, r, output, shared->trial.elem_count, &first) > 0) {
            *out = (struct harness_lab_wrong){.rank = r, .elem = first};
            (void)snprintf(out->text, sizeof out->text, "element %zu of rank %u is %.9g, %s", first,
                           r, (double)output[first],
                           ddp_coll_kind_is_sum(shared->request.kind)
                               ? "farther from the exact sum than any order of additions in f32 is"
                               : "not the number that was to be copied");
            return false;
        }
    }
    return true;
}

bool harness_lab_judge_same(struct harness_lab_shared *shared, struct harness_lab_wrong *out)
{
    enum ddp_coll_kind kind = shared->request.kind;
    size_t elem_bytes = ddp_dtype_size_bytes(shared->trial.dtype);

    if (kind != DDP_COLL_ALL_REDUCE && kind != DDP_COLL_BROADCAST && kind != DDP_COLL_ALL_GATHER) {
        return true; /* each rank gets something else */
    }
    for (size_t i = 0; i < out_elems(shared); i++) {
        for (uint32_t r = 1; r < shared->request.ranks; r++) {
            if (memcmp(output_of(shared, 0, 0) + i * elem_bytes,
                       output_of(shared, r, 0) + i * elem_bytes, elem_bytes) != 0) {
                *out = (struct harness_lab_wrong){.rank = r, .elem = i};
                (void)snprintf(out->text, sizeof out->text,
                               "element %zu: rank 0 has %.9g, rank %u has %.9g", i,
                               harness_lab_load(output_of(shared, 0, 0), i, shared->trial.dtype), r,
                               harness_lab_load(output_of(shared, r, 0), i, shared->trial.dtype));
                return false;
            }
        }
    }
    return true;
}

/* --- special values --------------------------------------------------------------------------- */

/* What is tried at an element, by its number. */
static float special_at(uint32_t ranks, uint32_t rank, size_t place)
{
    bool is_last = rank == ranks - 1;

    switch (place % SPECIALS) {
    case 0: /* a subnormal sum of subnormal numbers */
        return ldexpf((float)(1 + rank), -149);
    case 1:
        return rank == 0 ? INFINITY : 1.0f;
    case 2:
        return is_last ? -INFINITY : -1.0f;
    case 3: /* a NaN, and only here */
        return rank == 0 ? NAN : 2.0f;
    case 4: /* of two infinities a NaN comes, if there are two ranks */
        return rank == 0 ? INFINITY : is_last ? -INFINITY : 0.0f;
    case 5: /* -0 comes of negative zeros alone */
        return -0.0f;
    case 6:
        return is_last ? 0.0f : -0.0f;
    case 7: /* too large, if there are two ranks */
        return 0x1.fffffep127f;
    default: /* nothing special beside them */
        return (float)(rank + 1);
    }
}

void harness_lab_put_special(struct harness_lab_shared *shared)
{
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        for (size_t i = 0; i < in_elems(shared); i++) {
            float value = special_at(shared->request.ranks, r, i);

            memcpy(input_of(shared, r, 0) + i * sizeof value, &value, sizeof value);
        }
    }
}

/* Every order of additions gives the same for these. */
static float special_sum(const struct harness_lab_shared *shared, uint32_t rank, size_t elem)
{
    uint32_t ranks = shared->request.ranks;
    size_t place = place_of(shared, rank, elem);
    uint32_t from;
    float sum;

    if (!ddp_coll_kind_is_sum(shared->request.kind)) {
        find_source(shared, rank, elem, &from, &place);
        return special_at(ranks, from, place);
    }
    sum = special_at(ranks, 0, place);
    for (uint32_t r = 1; r < ranks; r++) {
        sum += special_at(ranks, r, place);
    }
    return sum;
}

bool harness_lab_judge_special(struct harness_lab_shared *shared, struct harness_lab_wrong *out)
{
    for (size_t i = 0; i < out_elems(shared); i++) {
        for (uint32_t r = 0; r < shared->request.ranks; r++) {
            float expected = special_sum(shared, r, i);
            uint32_t expected_bits, got_bits;
            float got;

            memcpy(&got, output_of(shared, r, 0) + i * sizeof got, sizeof got);
            memcpy(&got_bits, &got, sizeof got);
            memcpy(&expected_bits, &expected, sizeof expected);
            if (has_output(shared, r) && !(isnan(expected) && isnan(got)) &&
                got_bits != expected_bits) {
                *out = (struct harness_lab_wrong){.rank = r, .elem = i};
                (void)snprintf(out->text, sizeof out->text, "element %zu of rank %u is %g, not %g",
                               i, r, (double)got, (double)expected);
                return false;
            }
        }
    }
    return true;
}
