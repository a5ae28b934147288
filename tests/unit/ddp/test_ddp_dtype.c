/* Parameters and buffers of several types in one model: buckets and chunks of one type each, exact
 * averages in each type, and what is refused. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_world.h"

enum { PARAM_COUNT = 6, BUFFER_COUNT = 5, ELEMS_MAX = 6, CHUNK_COUNT = 4 };

static const struct {
    const char *name;
    enum ddp_dtype dtype;
    size_t elem_count;
    size_t bucket, offset; /* with caps of 8 and 16 bytes */
} params[PARAM_COUNT] = {
    {"a", DDP_DTYPE_F32, 4, 4, 0},  {"b", DDP_DTYPE_F16, 6, 3, 2}, {"c", DDP_DTYPE_F32, 2, 2, 0},
    {"d", DDP_DTYPE_BF16, 3, 1, 0}, {"e", DDP_DTYPE_F16, 2, 3, 0}, {"f", DDP_DTYPE_BF16, 5, 0, 0},
};

static const struct {
    enum ddp_dtype dtype;
    size_t elem_count;
} buckets[] = {{DDP_DTYPE_BF16, 5},
               {DDP_DTYPE_BF16, 3},
               {DDP_DTYPE_F32, 2},
               {DDP_DTYPE_F16, 8},
               {DDP_DTYPE_F32, 4}};
enum { BUCKET_COUNT = sizeof(buckets) / sizeof(buckets[0]) };

static const struct {
    const char *name;
    enum ddp_dtype dtype;
    size_t elem_count;
} buffers[BUFFER_COUNT] = {
    {"count", DDP_DTYPE_I64, 2}, {"mask", DDP_DTYPE_U8, 5},   {"mean", DDP_DTYPE_F64, 2},
    {"steps", DDP_DTYPE_I64, 1}, {"scale", DDP_DTYPE_F16, 3},
};

/* Buffers are broadcast type by type, in the order of the table of types. */
static const struct {
    enum ddp_dtype dtype;
    size_t elem_count;
} chunks[CHUNK_COUNT] = {
    {DDP_DTYPE_F16, 3}, {DDP_DTYPE_F64, 2}, {DDP_DTYPE_I64, 3}, {DDP_DTYPE_U8, 5}};

struct mixed {
    struct ddp_param params[PARAM_COUNT];
    struct ddp_buffer buffers[BUFFER_COUNT];
    uint64_t data[PARAM_COUNT][ELEMS_MAX], grad[PARAM_COUNT][ELEMS_MAX];
    uint64_t buffer[BUFFER_COUNT][ELEMS_MAX];
    struct ddp *ddp;
};

static void put(enum ddp_dtype dtype, void *data, size_t k, float value)
{
    if (dtype == DDP_DTYPE_F32) {
        ((float *)data)[k] = value;
    } else {
        ((uint16_t *)data)[k] =
            dtype == DDP_DTYPE_F16 ? ddp_f16_from_f32(value) : ddp_bf16_from_f32(value);
    }
}

static float get(enum ddp_dtype dtype, const void *data, size_t k)
{
    if (dtype == DDP_DTYPE_F32) {
        return ((const float *)data)[k];
    }
    return dtype == DDP_DTYPE_F16 ? ddp_f16_to_f32(((const uint16_t *)data)[k])
                                  : ddp_bf16_to_f32(((const uint16_t *)data)[k]);
}

static float round_to(enum ddp_dtype dtype, float value)
{
    float stored[1];

    put(dtype, stored, 0, value);
    return get(dtype, stored, 0);
}

/* Representable in each type; a third of it is not. */
static float gradient(uint32_t rank, size_t param, size_t k)
{
    return (float)((int)((rank * 7 + param * 3 + k) % 17) - 8);
}

/* Different bytes on every rank, and more than a double can hold where the type can. */
static void fill_buffer(struct mixed *job, size_t i, uint32_t rank, uint32_t step)
{
    unsigned char *bytes = job->buffers[i].data;

    for (size_t k = 0; k < ddp_buffer_size_bytes(&job->buffers[i]); k++) {
        bytes[k] = (unsigned char)(1 + 40 * rank + 11 * i + 3 * k + step);
    }
}

static void init(struct mixed *job, uint32_t rank)
{
    memset(job, 0, sizeof(*job));
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        job->params[i] = (struct ddp_param){.name = params[i].name,
                                            .dtype = params[i].dtype,
                                            .data = job->data[i],
                                            .grad = job->grad[i],
                                            .elem_count = params[i].elem_count,
                                            .ndim = 1,
                                            .shape = {params[i].elem_count}};
        for (size_t k = 0; k < params[i].elem_count; k++) {
            put(params[i].dtype, job->data[i], k, (float)(100 * rank + 10 * i + k));
        }
    }
    for (size_t i = 0; i < BUFFER_COUNT; i++) {
        job->buffers[i] = (struct ddp_buffer){buffers[i].name, buffers[i].dtype, job->buffer[i],
                                              buffers[i].elem_count};
        fill_buffer(job, i, rank, 0);
    }
}

static ddp_status create(struct world_rank *rank, struct mixed *job,
                         const struct ddp_config *config, struct ddp_err *err)
{
    return ddp_create(&rank->group, rank->device,
                      &(struct ddp_model){job->params, PARAM_COUNT, job->buffers, BUFFER_COUNT},
                      config, &job->ddp, err);
}

static ddp_status backward(struct mixed *job, uint32_t rank)
{
    DDP_TRY(ddp_backward_begin(job->ddp, NULL));
    for (size_t i = PARAM_COUNT; i-- > 0;) {
        for (size_t k = 0; k < params[i].elem_count; k++) {
            put(params[i].dtype, job->grad[i], k, gradient(rank, i, k));
        }
        DDP_TRY(ddp_grad_ready(job->ddp, i));
    }
    return ddp_backward_end(job->ddp);
}

/* Scaled and rounded, then summed in rank order with a rounding each; or the other way round. */
static float emulate(uint32_t active, uint32_t divisor, size_t param, size_t k, bool is_post)
{
    const enum ddp_dtype dtype = params[param].dtype;
    const float factor = (float)(1.0 / (double)divisor);
    float sum = 0;

    for (uint32_t r = 0; r < active; r++) {
        const float local = gradient(r, param, k);
        const float addend = is_post ? local : round_to(dtype, local * factor);

        sum = r == 0 ? addend : round_to(dtype, sum + addend);
    }
    return is_post ? round_to(dtype, sum * factor) : sum;
}

static void check_gradients(const struct mixed *job, uint32_t active, uint32_t divisor,
                            bool is_post)
{
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        for (size_t k = 0; k < params[i].elem_count; k++) {
            CT_CHECK(get(params[i].dtype, job->grad[i], k) ==
                     emulate(active, divisor, i, k, is_post));
        }
    }
}

/* The replica of `root`, as it was filled for `step`. */
static void check_buffers(const struct mixed *job, uint32_t root, uint32_t step)
{
    struct mixed expected;

    init(&expected, root);
    for (size_t i = 0; i < BUFFER_COUNT; i++) {
        fill_buffer(&expected, i, root, step);
        CT_CHECK_BYTES(job->buffers[i].data, expected.buffers[i].data,
                       ddp_buffer_size_bytes(&expected.buffers[i]));
    }
}

static void check_layout(const struct mixed *job)
{
    CT_REQUIRE(ddp_bucket_count(job->ddp) == BUCKET_COUNT);
    for (size_t b = 0; b < BUCKET_COUNT; b++) {
        CT_CHECK_EQ_U64(ddp_bucket_dtype(job->ddp, b), buckets[b].dtype);
        CT_CHECK_EQ_U64(ddp_bucket_elem_count(job->ddp, b), buckets[b].elem_count);
    }
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        CT_CHECK_EQ_U64(ddp_bucket_of_param(job->ddp, i), params[i].bucket);
        CT_CHECK_EQ_U64(ddp_bucket_offset_of_param(job->ddp, i), params[i].offset);
    }
}

/* Operation number seq and those behind it: chunks of buffers, then buckets, each of its type. */
static void check_operations(const struct world_rank *rank, uint64_t seq)
{
    for (uint64_t i = 0; i < CHUNK_COUNT + BUCKET_COUNT; i++) {
        const bool is_chunk = i < CHUNK_COUNT;
        const uint64_t index = is_chunk ? i : i - CHUNK_COUNT;
        const struct ddp_coll_args *args = world_executed(rank->world, seq + i);

        CT_REQUIRE(args != NULL);
        CT_CHECK_EQ_U64(args->role, is_chunk ? DDP_ROLE_BUFFER_SYNC : DDP_ROLE_BUCKET);
        CT_CHECK_EQ_U64(args->index, index);
        CT_CHECK_EQ_U64(args->dtype, is_chunk ? chunks[index].dtype : buckets[index].dtype);
        CT_CHECK_EQ_U64(args->elem_count,
                        is_chunk ? chunks[index].elem_count : buckets[index].elem_count);
    }
}

struct dtype_case {
    bool is_post;
    bool is_loop;
};

static void averages(struct world_rank *rank)
{
    const struct dtype_case *row = rank->arg;
    const struct ddp_config config = {.bucket_cap_bytes = 16,
                                      .first_bucket_cap_bytes = 8,
                                      .gradient_scale = row->is_post ? DDP_GRADIENT_SCALE_POST
                                                                     : DDP_GRADIENT_SCALE_PRE,
                                      .broadcast_buffers = true,
                                      .is_hashing = true};
    const uint32_t size = rank->env.world_size;
    struct ddp_err err = {""};
    struct mixed job, root;

    init(&job, rank->rank);
    init(&root, 0);
    CT_REQUIRE_OK(create(rank, &job, &config, &err));
    check_layout(&job);
    CT_CHECK_BYTES(job.data, root.data, sizeof(root.data));
    for (uint32_t step = 0; step < 3; step++) {
        const uint64_t seq = rank->group.seq + 1;

        for (size_t i = 0; i < BUFFER_COUNT; i++) {
            fill_buffer(&job, i, rank->rank, step);
        }
        CT_REQUIRE_OK(ddp_forward_begin(job.ddp));
        check_buffers(&job, 0, step);
        CT_REQUIRE_OK(backward(&job, rank->rank));
        check_gradients(&job, size, size, row->is_post);
        if (!row->is_loop) {
            check_operations(rank, seq);
        }
    }
    ddp_destroy(job.ddp);
}

/* Parameters of three types, buffers of four: each average is bitwise the emulated one, each buffer
 * rank 0's; on the executor with 2 ranks, whose order of sums is that of the test's collective. */
CT_TEST(ddp_dtype, types_do_not_mix)
{
    for (int i = 0; i < 2; i++) {
        struct dtype_case row = {.is_post = i == 1};

        for (uint32_t size = 1; size <= 3; size++) {
            world_run(&(struct world_config){size, DDP_SEMANTICS_STRICT, 0, averages, &row, false});
            world_run(
                &(struct world_config){size, DDP_SEMANTICS_PYTORCH, 0, averages, &row, false});
        }
        row.is_loop = true;
        world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, averages, &row, true});
    }
}

static void joins(struct world_rank *rank)
{
    const struct ddp_config config = {
        .bucket_cap_bytes = 16, .first_bucket_cap_bytes = 8, .broadcast_buffers = true};
    const struct ddp_join_config join = {.divide_by_initial_world_size = false};
    struct ddp_err err = {""};
    struct mixed job, last;

    init(&job, rank->rank);
    init(&last, 1);
    CT_REQUIRE_OK(create(rank, &job, &config, &err));
    CT_REQUIRE_OK(ddp_join_begin(job.ddp, &join));
    if (rank->rank == 1) {
        CT_REQUIRE_OK(ddp_forward_begin(job.ddp));
        CT_REQUIRE_OK(backward(&job, 0)); /* rank 0's gradients: the only ones in this pass */
        check_gradients(&job, 1, 1, false);
        memcpy(job.data, last.data, sizeof(job.data));
        memcpy(job.buffer, last.buffer, sizeof(job.buffer));
    }
    CT_REQUIRE_OK(ddp_join_end(job.ddp));
    CT_CHECK_BYTES(job.data, last.data, sizeof(job.data));
    CT_CHECK_BYTES(job.buffer, last.buffer, sizeof(job.buffer));
    ddp_destroy(job.ddp);
}

/* A rank without inputs mirrors with zeros of each type, and takes the last one's model, whatever
 * the types in it. */
CT_TEST(ddp_dtype, join_mirrors_every_type)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, joins, NULL, false});
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, joins, NULL, true});
}

static void refuses(struct world_rank *rank)
{
    const enum ddp_dtype dtype = *(const enum ddp_dtype *)rank->arg;
    const struct ddp_config config = {0};
    struct ddp_err err = {""};
    struct mixed job;

    init(&job, rank->rank);
    job.params[4].dtype = dtype;
    CT_CHECK_STATUS(create(rank, &job, &config, &err), DDP_E_UNSUPPORTED);
    CT_CHECK(job.ddp == NULL);
    CT_CHECK(strstr(err.text, "parameter 4 \"e\" is ") != NULL);
}

/* Averages of doubles keep bits that fp32 has not. */
static void doubles(struct world_rank *rank)
{
    const struct ddp_config config = {.gradient_scale =
                                          *(const enum ddp_gradient_scale *)rank->arg};
    const double own[2] = {1.0 + 0x1p-40, 3.0 - 0x1p-50};
    double data[1] = {0.5 + rank->rank}, grad[1] = {own[rank->rank]};
    struct ddp_param param = {.name = "w",
                              .dtype = DDP_DTYPE_F64,
                              .data = data,
                              .grad = grad,
                              .elem_count = 1,
                              .ndim = 1,
                              .shape = {1}};
    struct ddp_err err = {""};
    struct ddp *ddp;

    CT_REQUIRE_OK(ddp_create(&rank->group, rank->device, &(struct ddp_model){&param, 1, NULL, 0},
                             &config, &ddp, &err));
    CT_CHECK(data[0] == 0.5);
    CT_CHECK_OK(ddp_forward_begin(ddp));
    CT_CHECK_OK(ddp_backward_begin(ddp, NULL));
    CT_CHECK_OK(ddp_grad_ready(ddp, 0));
    CT_CHECK_OK(ddp_backward_end(ddp));
    CT_CHECK(grad[0] == own[0] * 0.5 + own[1] * 0.5);
    ddp_destroy(ddp);
}

CT_TEST(ddp_dtype, doubles_are_averaged_as_doubles)
{
    enum ddp_gradient_scale scales[] = {DDP_GRADIENT_SCALE_PRE, DDP_GRADIENT_SCALE_POST};

    for (size_t i = 0; i < 2; i++) {
        world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, doubles, &scales[i], false});
    }
}

/* A parameter whose type holds no average is refused by name. */
CT_TEST(ddp_dtype, parameters_hold_averages)
{
    enum ddp_dtype refused[] = {DDP_DTYPE_I32, DDP_DTYPE_I64, DDP_DTYPE_U8};

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, refuses, &refused[i], false});
        world_run(&(struct world_config){2, DDP_SEMANTICS_PYTORCH, 0, refuses, &refused[i], false});
    }
}

struct verify_case {
    bool is_buffer;
    const char *says;
};

static void differs(struct world_rank *rank)
{
    const struct verify_case *row = rank->arg;
    const struct ddp_config config = {0};
    struct ddp_err err = {""};
    struct mixed job;

    init(&job, rank->rank);
    if (rank->rank == 1 && row->is_buffer) {
        job.buffers[1].dtype = DDP_DTYPE_I32;
    } else if (rank->rank == 1) {
        job.params[1].dtype = DDP_DTYPE_BF16;
    }
    CT_CHECK_STATUS(create(rank, &job, &config, &err), DDP_E_MODEL);
    CT_CHECK_EQ_I64(rank->group.failure.rank, 1);
    if (strstr(err.text, row->says) == NULL) {
        CT_FAIL("rank %u says: %s", rank->rank, err.text);
    }
}

/* Replicas that differ in nothing but a type are told apart before anything is broadcast. */
CT_TEST(ddp_dtype, verification_compares_types)
{
    struct verify_case rows[] = {
        {false, "rank 1 has parameter 1 \"b\" bf16[6], rank 0 has parameter 1 \"b\" f16[6]"},
        {true, "rank 1 has buffer 1 \"mask\" i32[5], rank 0 has buffer 1 \"mask\" u8[5]"}};

    for (size_t i = 0; i < 2; i++) {
        world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, differs, &rows[i], false});
    }
}
