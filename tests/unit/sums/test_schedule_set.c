/* The interpreter and the prover of dumped schedules, on hand-written good and bad ones. */
#include <stdio.h>
#include <string.h>

#include "harness/sums/arith.h"
#include "harness/sums/schedule_set.h"
#include "tests/ct.h"

struct fixture {
    struct ddp_mem_pool *pool;
    struct harness_schedules schedules;
    struct harness_findings findings;
};

static bool open_fixture(struct fixture *f, const char *const *bodies, unsigned size,
                         const char *header)
{
    struct ddp_mem *mem;
    struct ddp_err err;

    if (ddp_mem_pool_create(&f->pool) != DDP_OK) {
        return false;
    }
    mem = ddp_mem_pool_mem(f->pool);
    harness_schedules_init(&f->schedules, mem);
    harness_findings_init(&f->findings, mem);
    for (unsigned r = 0; r < size; r++) {
        char text[1024];
        struct harness_schedule schedule;

        (void)snprintf(text, sizeof(text), "schedule 1 %s rank=%u size=%u\n%s", header, r, size,
                       bodies[r]);
        if (harness_schedule_parse(mem, text, &schedule, &err) != DDP_OK ||
            harness_schedules_add(&f->schedules, &schedule, &err) != DDP_OK) {
            CT_FAIL("%s", err.text);
            return false;
        }
    }
    return harness_schedules_order(&f->schedules) == DDP_OK;
}

#define HEADER "kind=all_reduce algorithm=test count=4 dtype=f32 root=0 in_place=1"

static enum harness_verdict prove(const char *const *bodies, unsigned size, const char *header)
{
    struct fixture f;
    enum harness_verdict verdict = HARNESS_VERDICT_NONE;

    if (!open_fixture(&f, bodies, size, header)) {
        return HARNESS_VERDICT_COUNT;
    }
    CT_CHECK_OK(harness_schedule_set_prove(&f.schedules.sets[0], &f.findings));
    if (f.findings.count > 0) {
        verdict = f.findings.items[0].verdict;
    }
    ddp_mem_pool_destroy(f.pool);
    return verdict;
}

#define CHECK_VERDICT(bodies, size, name) \
    CT_CHECK_STR(harness_verdict_name(prove((bodies), (size), HEADER)), (name))

/* A two-rank ring in halves is proven right and sums what it should. */
CT_TEST(oracle_schedule, ring_of_two_is_right)
{
    const char *const bodies[] = {"0 round=0 send peer=1 src=out:0+2 deps=\n"
                                  "1 round=0 recv_reduce peer=1 dst=out:2+2 deps=\n"
                                  "2 round=1 send peer=1 src=out:2+2 deps=1\n"
                                  "3 round=1 recv peer=1 dst=out:0+2 deps=0\n",
                                  "0 round=0 send peer=0 src=out:2+2 deps=\n"
                                  "1 round=0 recv_reduce peer=0 dst=out:0+2 deps=\n"
                                  "2 round=1 send peer=0 src=out:0+2 deps=1\n"
                                  "3 round=1 recv peer=0 dst=out:2+2 deps=0\n"};
    float data[2][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
    const float sum[4] = {11, 22, 33, 44};
    void *const buffers[2] = {data[0], data[1]};
    struct fixture f;

    CHECK_VERDICT(bodies, 2, "NONE");
    CT_REQUIRE(open_fixture(&f, bodies, 2, HEADER));
    CT_CHECK_OK(harness_schedule_set_run(&f.schedules.sets[0], buffers, buffers));
    CT_CHECK_BYTES(data[0], sum, sizeof(sum));
    CT_CHECK_BYTES(data[1], sum, sizeof(sum));
    ddp_mem_pool_destroy(f.pool);
}

/* A plain receive where a reduction belongs loses the receiver's own contribution. */
CT_TEST(oracle_schedule, lost_contribution_is_proven)
{
    const char *const bodies[] = {"0 round=0 recv peer=1 dst=out:0+4 deps=\n"
                                  "1 round=1 send peer=1 src=out:0+4 deps=0\n",
                                  "0 round=0 send peer=0 src=out:0+4 deps=\n"
                                  "1 round=1 recv peer=0 dst=out:0+4 deps=0\n"};

    CHECK_VERDICT(bodies, 2, "VALUE.LOST");
}

/* The last element left out is found although the first three are right. */
CT_TEST(oracle_schedule, lost_tail_is_proven)
{
    const char *const bodies[] = {"0 round=0 recv_reduce peer=1 dst=out:0+3 deps=\n"
                                  "1 round=1 send peer=1 src=out:0+4 deps=0\n",
                                  "0 round=0 send peer=0 src=out:0+3 deps=\n"
                                  "1 round=1 recv peer=0 dst=out:0+4 deps=0\n"};

    CHECK_VERDICT(bodies, 2, "VALUE.LOST");
}

/* A contribution sent and added twice is doubled. */
CT_TEST(oracle_schedule, doubled_contribution_is_proven)
{
    const char *const bodies[] = {"0 round=0 recv_reduce peer=1 dst=out:0+4 deps=\n"
                                  "1 round=0 recv_reduce peer=1 dst=out:0+4 deps=0\n"
                                  "2 round=1 send peer=1 src=out:0+4 deps=1\n",
                                  "0 round=0 send peer=0 src=out:0+4 deps=\n"
                                  "1 round=0 send peer=0 src=out:0+4 deps=\n"
                                  "2 round=1 recv peer=0 dst=out:0+4 deps=0,1\n"};

    CHECK_VERDICT(bodies, 2, "VALUE.DUPLICATED");
}

/* Elements added to others of another place are shifted. */
CT_TEST(oracle_schedule, displaced_sum_is_proven)
{
    const char *const bodies[] = {"0 round=0 recv_reduce peer=1 dst=out:0+2 deps=\n"
                                  "1 round=1 send peer=1 src=out:0+4 deps=0\n",
                                  "0 round=0 send peer=0 src=out:2+2 deps=\n"
                                  "1 round=1 recv peer=0 dst=out:0+4 deps=0\n"};

    CHECK_VERDICT(bodies, 2, "VALUE.SHIFTED");
}

/* Two ranks that both receive before they send wait for ever. */
CT_TEST(oracle_schedule, deadlock_is_a_cycle)
{
    const char *const bodies[] = {"0 round=0 recv_reduce peer=1 dst=out:0+4 deps=\n"
                                  "1 round=1 send peer=1 src=out:0+4 deps=0\n",
                                  "0 round=0 recv_reduce peer=0 dst=out:0+4 deps=\n"
                                  "1 round=1 send peer=0 src=out:0+4 deps=0\n"};

    CHECK_VERDICT(bodies, 2, "HANG.CYCLE");
}

/* Overwriting a range that a send still lends is a race, although it may come out right. */
CT_TEST(oracle_schedule, write_to_a_lent_range_is_refused)
{
    const char *const bodies[] = {"0 round=0 recv_reduce peer=1 dst=out:0+4 deps=\n"
                                  "1 round=1 send peer=1 src=out:0+4 deps=0\n",
                                  "0 round=0 send peer=0 src=out:0+4 deps=\n"
                                  "1 round=1 recv peer=0 dst=out:0+4 deps=\n"};

    CHECK_VERDICT(bodies, 2, "VALUE.CORRUPTED");
}

/* A message of three elements cannot be taken as four. */
CT_TEST(oracle_schedule, lengths_must_agree)
{
    const char *const bodies[] = {"0 round=0 recv_reduce peer=1 dst=out:0+4 deps=\n"
                                  "1 round=1 send peer=1 src=out:0+4 deps=0\n",
                                  "0 round=0 send peer=0 src=out:0+3 deps=\n"
                                  "1 round=1 recv peer=0 dst=out:0+4 deps=0\n"};

    CHECK_VERDICT(bodies, 2, "MISMATCH.COUNT");
}

/* A broadcast must bring the root's data everywhere. */
CT_TEST(oracle_schedule, broadcast_from_the_wrong_rank_is_found)
{
    const char *const right[] = {"0 round=0 send peer=1 src=out:0+4 deps=\n",
                                 "0 round=0 recv peer=0 dst=out:0+4 deps=\n"};
    const char *const wrong[] = {"0 round=0 recv peer=1 dst=out:0+4 deps=\n",
                                 "0 round=0 send peer=0 src=out:0+4 deps=\n"};
    const char *header = "kind=broadcast algorithm=test count=4 dtype=f32 root=0 in_place=1";

    CT_CHECK_STR(harness_verdict_name(prove(right, 2, header)), "NONE");
    CT_CHECK(prove(wrong, 2, header) != HARNESS_VERDICT_NONE);
}

/* A copy may travel in a type that holds all its numbers, and in no other. */
#define HALVES(type)                                            \
    {                                                           \
        "scratch 0 dtype=" type " count=4\n"                    \
        "0 round=0 convert dst=s0:0+4 src=out:0+4 deps=\n"      \
        "1 round=0 send peer=1 src=s0:0+4 deps=0\n"             \
        "2 round=0 convert dst=out:0+4 src=s0:0+4 deps=0\n",    \
            "scratch 0 dtype=" type " count=4\n"                \
            "0 round=0 recv peer=0 dst=s0:0+4 deps=\n"          \
            "1 round=0 convert dst=out:0+4 src=s0:0+4 deps=0\n" \
    }

CT_TEST(oracle_schedule, copy_that_loses_bits_is_found)
{
    const char *const narrow[] = HALVES("bf16");
    const char *const wide[] = HALVES("f32");

    CT_CHECK_STR(harness_verdict_name(prove(narrow, 2,
                                            "kind=broadcast algorithm=test count=4 dtype=f32 "
                                            "root=0 in_place=1")),
                 "VALUE.LOST");
    CT_CHECK_STR(harness_verdict_name(prove(wide, 2,
                                            "kind=broadcast algorithm=test count=4 dtype=bf16 "
                                            "root=0 in_place=1")),
                 "NONE");
}

/* So may what is added: rank 0 adds what rank 1 sends as f16, and both take the sum from there. */
#define ADDED(type)                                               \
    {                                                             \
        "scratch 0 dtype=" type " count=4\n"                      \
        "0 round=0 convert dst=s0:0+4 src=out:0+4 deps=\n"        \
        "1 round=0 recv_reduce peer=1 dst=s0:0+4 deps=0\n"        \
        "2 round=1 send peer=1 src=s0:0+4 deps=1\n"               \
        "3 round=1 convert dst=out:0+4 src=s0:0+4 deps=1\n",      \
            "scratch 0 dtype=" type " count=4\n"                  \
            "0 round=0 convert dst=s0:0+4 src=out:0+4 deps=\n"    \
            "1 round=0 send peer=0 src=s0:0+4 deps=0\n"           \
            "2 round=1 recv peer=0 dst=s0:0+4 deps=1\n"           \
            "3 round=1 convert dst=out:0+4 src=s0:0+4 deps=0,2\n" \
    }

CT_TEST(oracle_schedule, sum_in_a_narrower_type_is_found)
{
    const char *const narrow[] = ADDED("f16");
    const char *const wide[] = ADDED("f64");
    const char *header = "kind=all_reduce algorithm=test count=4 dtype=f32 root=0 in_place=1";

    CT_CHECK_STR(harness_verdict_name(prove(narrow, 2, header)), "VALUE.LOST");
    CT_CHECK_STR(harness_verdict_name(prove(wide, 2, header)), "NONE");
}

/* In place, a rank's input of an all-gather is its own block of the output. */
CT_TEST(oracle_schedule, input_of_a_gather_is_its_block)
{
    const char *const named[] = {"0 round=0 send peer=1 src=in:0+4 deps=\n"
                                 "1 round=0 recv peer=1 dst=out:4+4 deps=\n",
                                 "0 round=0 send peer=0 src=in:0+4 deps=\n"
                                 "1 round=0 recv peer=0 dst=out:0+4 deps=\n"};
    const char *const head[] = {"0 round=0 send peer=1 src=out:0+4 deps=\n"
                                "1 round=0 recv peer=1 dst=out:4+4 deps=\n",
                                "0 round=0 send peer=0 src=out:0+4 deps=\n"
                                "1 round=0 recv peer=0 dst=out:0+4 deps=0\n"};
    const char *header = "kind=all_gather algorithm=test count=4 dtype=f32 root=0 in_place=1";

    CT_CHECK_STR(harness_verdict_name(prove(named, 2, header)), "NONE");
    CT_CHECK_STR(harness_verdict_name(prove(head, 2, header)), "VALUE.LOST");
}

/* Text that contradicts itself is refused with its line. */
CT_TEST(oracle_schedule, broken_text_is_refused)
{
    static const char *const texts[] = {
        "",
        "schedule 2 kind=all_reduce rank=0 size=1 count=4 dtype=f32 root=0 in_place=1\n",
        "schedule 1 kind=nothing rank=0 size=1 count=4 dtype=f32 root=0 in_place=1\n",
        "schedule 1 kind=all_reduce rank=2 size=2 count=4 dtype=f32 root=0 in_place=1\n",
        "schedule 1 kind=all_reduce rank=0 size=2 count=4 dtype=f32 root=0 in_place=1\n"
        "0 round=0 send peer=1 src=out:2+3 deps=\n",
        "schedule 1 kind=all_reduce rank=0 size=2 count=4 dtype=f32 root=0 in_place=1\n"
        "0 round=0 send peer=0 src=out:0+4 deps=\n",
        "schedule 1 kind=all_reduce rank=0 size=2 count=4 dtype=f32 root=0 in_place=1\n"
        "0 round=0 send peer=1 src=out:0+4 deps=0\n",
        "schedule 1 kind=all_reduce rank=0 size=2 count=4 dtype=f32 root=0 in_place=1\n"
        "0 round=0 send peer=1 src=s0:0+4 deps=\n",
        "schedule 1 kind=all_reduce rank=0 size=2 count=4 dtype=f32 root=0 in_place=1\n"
        "0 round=0 copy src=out:0+2 dst=out:2+1 deps=\n",
        "schedule 1 kind=all_gather rank=0 size=4 count=1000000000000000000 dtype=f32 root=0 "
        "in_place=1\n",
        "schedule 1 kind=all_gather rank=0 size=2 count=4 dtype=f32 root=0 in_place=1\n"
        "0 round=0 send peer=1 src=in:0+5 deps=\n",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct harness_schedule schedule;
        struct ddp_err err = {""};

        CT_CHECK_STATUS(harness_schedule_parse(ddp_mem_system(), texts[i], &schedule, &err),
                        DDP_E_PARSE);
        CT_CHECK(err.text[0] != '\0');
    }
}

#define ALONE(in_place, name)                    \
    "schedule 1 kind=all_reduce algorithm=" name \
    " rank=0 size=1 count=4 dtype=f32 root=0 in_place=" in_place "\n"
#define COPY "0 round=0 copy src=in:0+4 dst=out:0+4 deps=\n"

/* A file holds schedules one behind the other. A last one that was not finished is left out, one
 * that was made again is the same, and a different one of the same rank is refused. */
CT_TEST(oracle_schedule, file_of_several)
{
    static const struct {
        const char *text;
        size_t set_count;
        ddp_status status;
        const char *says;
    } cases[] = {
        {"", 0, DDP_OK, ""},
        {ALONE("1", "a") "end\n" ALONE("0", "b") COPY "end\n", 2, DDP_OK, ""},
        {ALONE("1", "a") "end\n" ALONE("0", "b") COPY, 1, DDP_OK, ""},
        {ALONE("1", "a") "end\n" ALONE("0", "b") COPY "en", 1, DDP_OK, ""},
        {ALONE("1", "a") "end\nsched", 1, DDP_OK, ""},
        {ALONE("1", "a") "end\n" ALONE("1", "a") "end\n", 1, DDP_OK, ""},
        {ALONE("1", "a") "end\n" ALONE("0", "a") COPY "end\n", 1, DDP_OK, ""},
        {ALONE("0", "a") COPY "end\n" ALONE("0", "a") "end\n", 1, DDP_E_INVALID,
         "schedule 2: rank 0 has two different schedules for it"},
        {ALONE("1", "a") "end\nend\n", 1, DDP_E_PARSE, "schedule 2: the schedule is empty"},
        {ALONE("1", "a") "end\n" COPY "end\n", 1, DDP_E_PARSE, "schedule 2: line 1: "},
        {ALONE("1", "a") ALONE("1", "b") "end\n", 0, DDP_E_PARSE, "schedule 1: line 2: "},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct harness_schedules schedules;
        struct ddp_err err = {""};

        harness_schedules_init(&schedules, ddp_mem_system());
        CT_CHECK_STATUS(harness_schedules_read(&schedules, cases[i].text, &err), cases[i].status);
        CT_CHECK(strncmp(err.text, cases[i].says, strlen(cases[i].says)) == 0);
        CT_CHECK_EQ_U64(schedules.set_count, cases[i].set_count);
        CT_CHECK_OK(harness_schedules_order(&schedules));
        harness_schedules_fini(&schedules);
    }
}

/* The judge's 16-bit floats agree with the core's on every bit pattern, both ways. */
CT_TEST(oracle_arith, sixteen_bit_floats_round_like_the_cores)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float half = harness_arith_f16_decode((uint16_t)bits);
        float brain = harness_arith_bf16_decode((uint16_t)bits);
        float core = ddp_f16_to_f32((uint16_t)bits);

        if (half == half) {
            CT_REQUIRE(memcmp(&half, &core, sizeof(core)) == 0);
            CT_REQUIRE(harness_arith_f16_encode(half) == bits);
            CT_REQUIRE(harness_arith_f16_encode(half * 1.00037f) ==
                       ddp_f16_from_f32(half * 1.00037f));
        }
        if (brain == brain) {
            CT_REQUIRE(harness_arith_bf16_encode(brain) == bits);
            CT_REQUIRE(harness_arith_bf16_encode(brain * 1.0037f) ==
                       ddp_bf16_from_f32(brain * 1.0037f));
            CT_REQUIRE(harness_arith_f16_encode(brain * 1.1f) == ddp_f16_from_f32(brain * 1.1f));
        }
    }
}

/* Floats of 16 and 32 bits as fp64, exactly; an update of another type than fp32 is refused. */
CT_TEST(oracle_arith, widening_is_exact)
{
    const uint16_t brain[2] = {0x3f81, 0xc000}; /* 1 + 2^-7, -2 */
    const uint16_t half[2] = {0x3c01, 0x0001};  /* 1 + 2^-10, 2^-24 */
    const float single[2] = {0x1.000002p0f, -0x1p-149f};
    const struct ref_optimizer_config config = {.kind = REF_OPTIMIZER_SGD, .lr = 1.0f};
    void *const slots[2] = {NULL, NULL};
    uint16_t param[2] = {0x3f80, 0x3f80};
    double out[2];

    harness_arith_widen(out, brain, DDP_DTYPE_BF16, 2);
    CT_CHECK(out[0] == 1.0 + 0x1p-7 && out[1] == -2.0);
    harness_arith_widen(out, half, DDP_DTYPE_F16, 2);
    CT_CHECK(out[0] == 1.0 + 0x1p-10 && out[1] == 0x1p-24);
    harness_arith_widen(out, single, DDP_DTYPE_F32, 2);
    CT_CHECK(out[0] == 1.0 + 0x1p-23 && out[1] == -0x1p-149);
    CT_CHECK_STATUS(harness_arith_update(&config, 0, DDP_DTYPE_BF16, param, brain, slots, 2),
                    DDP_E_UNSUPPORTED);
    CT_CHECK_EQ_U64(param[0], 0x3f80);
}

/* Sums of bf16 round once per addition. */
CT_TEST(oracle_arith, bf16_sum_rounds_to_even)
{
    uint16_t a[2] = {0x3f80, 0x3f81};       /* 1, 1 + 2^-7 */
    const uint16_t b[2] = {0x3b80, 0x3b80}; /* 2^-8: half a spacing */

    CT_CHECK_OK(harness_arith_add(a, b, 2, DDP_DTYPE_BF16));
    CT_CHECK_EQ_U64(a[0], 0x3f80);
    CT_CHECK_EQ_U64(a[1], 0x3f82);
}
