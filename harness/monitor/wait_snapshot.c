/* Cuts as text, one for each verdict among the conclusions. */
#include "harness/monitor/wait_snapshot.h"

#include "ddpcore/base/clock.h"

_Static_assert(HARNESS_VERDICT_COUNT <= 128, "a bit for every verdict");

void harness_wait_snapshot_init(struct harness_wait_snapshot *snapshot, uint64_t start_ns)
{
    snapshot->start_ns = start_ns;
}

/* Whether it is the first of this verdict. */
static bool take_kind(struct harness_wait_snapshot *snapshot, enum harness_verdict verdict)
{
    uint64_t bit = UINT64_C(1) << (verdict % 64);
    bool is_new = (snapshot->taken[verdict / 64] & bit) == 0;

    snapshot->taken[verdict / 64] |= bit;
    return is_new;
}

/* "HANG.NOT_JOINED (budget) 12.345 ms after the start: rank 1 ...", and the cut. */
static void add_cut(struct harness_wait_snapshot *snapshot, const struct harness_plan *plan,
                    const struct harness_program *program, const struct harness_cut *cut,
                    const struct harness_finding *finding)
{
    struct ddp_text text;

    DDP_ASSERT(snapshot->size_bytes < HARNESS_WAIT_SNAPSHOT_BYTES_MAX);
    DDP_ASSERT(cut->now_ns >= snapshot->start_ns);
    ddp_text_init_fixed(&text, snapshot->text + snapshot->size_bytes,
                        HARNESS_WAIT_SNAPSHOT_BYTES_MAX - snapshot->size_bytes);
    ddp_text_add(&text, "%s (%s) %.3f ms after the start: %s\n",
                 harness_verdict_name(finding->verdict), harness_mode_name(finding->mode),
                 (double)(cut->now_ns - snapshot->start_ns) / (double)DDP_NS_PER_MS, finding->text);
    harness_cut_print(plan, program, cut, &finding->culprits, &text);
    if (text.is_failed) {
        snapshot->left_out_count++;
        return;
    }
    __atomic_store_n(&snapshot->size_bytes, snapshot->size_bytes + text.size_bytes,
                     __ATOMIC_RELEASE);
}

void harness_wait_snapshot_take(struct harness_wait_snapshot *snapshot,
                                const struct harness_plan *plan,
                                const struct harness_program *program,
                                const struct harness_cut *cut,
                                const struct harness_conclusions *conclusions)
{
    for (size_t i = 0; i < conclusions->reported.count; i++) {
        const struct harness_conclusion *reported = &conclusions->reported.items[i];

        if (reported->time_ns == cut->now_ns && take_kind(snapshot, reported->finding.verdict)) {
            add_cut(snapshot, plan, program, cut, &reported->finding);
        }
    }
}

void harness_wait_snapshot_print(const struct harness_wait_snapshot *snapshot, struct ddp_text *out)
{
    uint64_t size_bytes = __atomic_load_n(&snapshot->size_bytes, __ATOMIC_ACQUIRE);

    ddp_text_add_bytes(out, snapshot->text, (size_t)size_bytes);
    if (snapshot->left_out_count > 0) {
        ddp_text_add(out, "... no room for %llu more conclusions\n",
                     (unsigned long long)snapshot->left_out_count);
    }
}
