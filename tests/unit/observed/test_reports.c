/* What the guest library reports of models and samples, by processes that use it, and what is made
 * of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/observed/observed.h"
#include "harness/watch/arena.h"
#include "tests/ct.h"

enum { RANKS = 2, COUNT = 100, STEPS = 3 };

enum fault {
    NOTHING,
    TWICE_LR,    /* all ranks */
    LEFT_ALONE,  /* all ranks */
    NO_GRADIENT, /* and it changes */
    NO_OPTIONS,
    OF_DOUBLES,
    OF_DEVICE, /* memory that the host cannot read */
    NO_BEGIN,
    OTHER_NAME, /* one rank */
    ONE_ELEMENT /* one rank, behind the update */
};

struct outcome {
    size_t count;
    enum harness_verdict verdict;
    struct harness_watch_accounts accounts;
};

static float weight[COUNT], gradient[COUNT], momentum[COUNT];

static void backward(uint64_t step)
{
    for (int i = 0; i < COUNT; i++) {
        gradient[i] = (float)(i % 7) - 3 + (float)step;
    }
}

static void update(enum fault fault, uint64_t step)
{
    for (int i = 0; i < COUNT && fault != LEFT_ALONE; i++) {
        momentum[i] = step == 0 ? gradient[i] : 0.9F * momentum[i] + gradient[i];
        weight[i] -= (fault == TWICE_LR ? 0.2F : 0.1F) * momentum[i];
    }
}

/* In a process of its own. */
static int be_rank(uint32_t rank, enum fault fault)
{
    const struct ddprove_guest_optimizer optimizer = {
        .size_bytes = sizeof optimizer, .kind = DDPROVE_GUEST_SGD, .lr = 0.1, .momentum = 0.9};
    struct ddprove_guest_tensor tensor = {.size_bytes = sizeof tensor,
                                          .dtype = fault == OF_DOUBLES ? DDPROVE_GUEST_F64
                                                                       : DDPROVE_GUEST_F32,
                                          .elem_count = fault == OF_DOUBLES ? COUNT / 2 : COUNT,
                                          .name = fault == OTHER_NAME && rank == 1 ? "w" : "weight",
                                          .data = weight,
                                          .gradient = fault == NO_GRADIENT ? NULL : gradient,
                                          .state = {momentum, NULL},
                                          .optimizer = fault == NO_OPTIONS ? NULL : &optimizer};
    const struct ddprove_guest_epoch epoch = {.size_bytes = sizeof epoch, .sample_count = 12};

    if (fault == OF_DEVICE) {
        tensor.data = mmap(NULL, 1 << 12, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (ddprove_guest_attach((int)rank, RANKS) == 0) {
        return 1;
    }
    ddprove_guest_epoch(&epoch);
    for (uint64_t step = 0; step < STEPS; step++) {
        const uint64_t samples[] = {4 * step + 2 * rank, 4 * step + 2 * rank + 1};

        ddprove_guest_step(step);
        ddprove_guest_batch(samples, 2);
        backward(step);
        tensor.update_count = step;
        if (fault != NO_BEGIN) {
            ddprove_guest_update_begin(&tensor, 1);
        }
        update(fault, step);
        if (fault == ONE_ELEMENT && rank == 1 && step == 1) {
            weight[7] += 1;
        }
        ddprove_guest_updated(&tensor, 1);
    }
    ddprove_guest_epoch(NULL);
    ddprove_guest_detach();
    return 0;
}

static void judge(const struct harness_watch_arena *arena, struct outcome *out)
{
    struct harness_watch watch;
    struct harness_findings findings;
    struct harness_findings earlier;
    struct harness_observed *observed = NULL;
    struct ddp_mem_pool *pool;

    memset(out, 0, sizeof *out);
    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    CT_REQUIRE(harness_watch_init(&watch, ddp_mem_pool_mem(pool), arena->head) == DDP_OK);
    CT_REQUIRE_OK(harness_observed_create(&watch, &observed));
    harness_findings_init(&findings, ddp_mem_pool_mem(pool));
    harness_findings_init(&earlier, ddp_mem_pool_mem(pool));
    harness_watch_read(&watch, 1);
    harness_observed_end(observed);
    harness_observed_judge(observed, &earlier, &findings);
    harness_observed_account(observed, &out->accounts);
    CT_CHECK(!harness_observed_is_failed(observed));
    out->count = findings.count;
    out->verdict = findings.count > 0 ? findings.items[0].verdict : HARNESS_VERDICT_NONE;
    harness_observed_destroy(observed);
    harness_watch_fini(&watch);
    ddp_mem_pool_destroy(pool);
}

static struct outcome run(enum fault fault)
{
    struct harness_watch_arena arena;
    struct ddp_err err = {{0}};
    struct outcome outcome = {0};
    char folder[] = "/tmp/reports.XXXXXX";
    pid_t pids[RANKS];

    CT_CHECK(mkdtemp(folder) != NULL);
    CT_CHECK(harness_watch_arena_create(RANKS, 1024, &arena, &err) == DDP_OK);
    arena.head->is_observed = 1;
    arena.head->keep_first = 1;
    arena.head->keep_end = STEPS;
    (void)snprintf(arena.head->keep_folder, sizeof arena.head->keep_folder, "%s", folder);
    (void)setenv(GUEST_ARENA_VARIABLE, arena.where, 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            _exit(be_rank(r, fault));
        }
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        int status = 1;

        CT_CHECK(waitpid(pids[r], &status, 0) == pids[r] && status == 0);
    }
    judge(&arena, &outcome);
    harness_watch_arena_destroy(&arena);
    CT_CHECK(ddp_files_remove_tree(folder, &err) == DDP_OK);
    return outcome;
}

CT_TEST(reports, a_good_program)
{
    const struct outcome got = run(NOTHING);

    CT_CHECK_EQ_U64(got.count, 0);
    CT_CHECK_EQ_U64(got.accounts.of[HARNESS_ORACLE_REPLICAS].judged, STEPS);
    CT_CHECK_EQ_U64(got.accounts.of[HARNESS_ORACLE_LEDGER].judged, STEPS);
    /* two steps were kept, on two ranks */
    CT_CHECK_EQ_U64(got.accounts.of[HARNESS_ORACLE_UPDATE].judged, 4);
    CT_CHECK_EQ_U64(got.accounts.of[HARNESS_ORACLE_UPDATE].bitwise, 4);
}

CT_TEST(reports, what_is_wrong)
{
    static const struct {
        enum fault fault;
        enum harness_verdict verdict;
    } rows[] = {{TWICE_LR, HARNESS_VERDICT_VALUE_SCALED},
                {LEFT_ALONE, HARNESS_VERDICT_VALUE_STALE},
                {NO_GRADIENT, HARNESS_VERDICT_VALUE_CORRUPTED},
                {OTHER_NAME, HARNESS_VERDICT_MISMATCH_MODEL},
                {ONE_ELEMENT, HARNESS_VERDICT_VALUE_CORRUPTED}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct outcome got = run(rows[i].fault);

        CT_CHECK(got.count > 0);
        CT_CHECK_STR(harness_verdict_name(got.verdict), harness_verdict_name(rows[i].verdict));
    }
}

CT_TEST(reports, what_is_not_judged)
{
    static const struct {
        enum fault fault;
        const char *why;
    } rows[] = {{NO_OPTIONS, "the program's options, gradients or states were not shown"},
                {OF_DOUBLES, "of an optimizer or a type that is not worked out again"},
                {OF_DEVICE, "the program's options, gradients or states were not shown"},
                {NO_BEGIN, "no update's data were kept"}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct outcome got = run(rows[i].fault);

        CT_CHECK_EQ_U64(got.count, 0);
        CT_CHECK_EQ_U64(got.accounts.of[HARNESS_ORACLE_UPDATE].judged, 0);
        CT_CHECK_STR(harness_watch_lack_of(&got.accounts, HARNESS_ORACLE_UPDATE), rows[i].why);
        /* Equal hashes of nothing are no equal models. */
        CT_CHECK_EQ_U64(got.accounts.of[HARNESS_ORACLE_REPLICAS].judged,
                        rows[i].fault == OF_DEVICE ? 0 : STEPS);
    }
}
