/* An algorithm that crashes, or does not end, is named; the program goes on. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/schedule/schedule.h"
#include "harness/coll/guarded.h"
#include "tests/ct.h"

static void emit_well(struct ddp_schedule *schedule)
{
    schedule->status = DDP_E_UNSUPPORTED;
}

static ddp_status guarded(void (*emit)(struct ddp_schedule *), struct ddp_schedule *schedule,
                          struct ddp_err *err)
{
    const struct ddp_algorithm algorithm = {.name = "mine", .emit = emit};

    memset(schedule, 0, sizeof *schedule);
    return harness_coll_guarded_emit(&algorithm, schedule, 50, err);
}

CT_TEST(coll_guarded, what_ends_has_its_own_status)
{
    struct ddp_schedule schedule;
    struct ddp_err err = {{0}};

    CT_CHECK(guarded(emit_well, &schedule, &err) == DDP_OK);
    CT_CHECK(schedule.status == DDP_E_UNSUPPORTED);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void emit_abort(struct ddp_schedule *schedule)
{
    (void)schedule;
    abort();
}

static void emit_fault(struct ddp_schedule *schedule)
{
    (void)schedule;
    (void)raise(SIGSEGV);
}

static int deep(volatile int level)
{
    volatile char use[1024];

    use[0] = (char)level;
    return level < 0 ? use[0] : deep(level + 1) + use[0];
}

static void emit_too_deep(struct ddp_schedule *schedule)
{
    schedule->status = deep(1) == 0 ? DDP_OK : DDP_E_INVALID;
}

static void emit_for_ever(struct ddp_schedule *schedule)
{
    for (;;) {
        ((volatile struct ddp_schedule *)schedule)->status = DDP_OK;
    }
}

CT_TEST(coll_guarded, a_crash_is_the_algorithms)
{
    static const struct {
        void (*emit)(struct ddp_schedule *schedule);
        const char *says;
    } cases[] = {{emit_abort, "mine crashes: Aborted"},
                 {emit_fault, "mine crashes: Segmentation fault"},
                 {emit_too_deep, "mine crashes: Segmentation fault"},
                 {emit_for_ever, "mine does not end"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ddp_schedule schedule;
        struct ddp_err err = {{0}};
        struct sigaction left;

        CT_CHECK(guarded(cases[i].emit, &schedule, &err) == DDP_E_INVALID);
        CT_CHECK(strcmp(err.text, cases[i].says) == 0);
        CT_CHECK(sigaction(SIGSEGV, NULL, &left) == 0 && left.sa_handler == SIG_DFL);
    }
}
#endif
