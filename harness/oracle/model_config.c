/* Purpose: every rank wrapped its model with the options of the plan.
 * Idea: strict ranks compare options with each other, and of two camps of equal size neither can
 * know that it is wrong; PyTorch's ranks compare none. Each records its own (ddp.config), and the
 * plan says what they should be. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/seam/option.h"
#include "harness/oracle/subject.h"
#include "harness/plan/bucket.h"
#include "harness/plan/names.h"
#include "harness/plan/program.h"

/* The event's arguments. */
enum { CAP, FIRST_CAP, OPTIONS, HOOK, BUILD, ARG_COUNT };

static const struct {
    const char *name, *set, *unset;
} options[DDP_OPTION_COUNT] = {
#define X(id, name, set, unset) [id] = {name, set, unset},
    DDP_OPTION_TABLE(X)
#undef X
};

/* Mixed precision is recorded as the hook that it takes the place of: the types of passes and of
 * sums. */
enum { MIXED_BYTES = 24 };

static void name_mixed(enum ddp_dtype param, enum ddp_dtype reduce, char out[MIXED_BYTES])
{
    (void)snprintf(out, MIXED_BYTES, "mixed %s/%s", ddp_dtype_name(param), ddp_dtype_name(reduce));
}

static void list_planned(const struct harness_job *job, uint64_t out[ARG_COUNT])
{
    const bool is_set[DDP_OPTION_COUNT] = {
        [DDP_OPTION_SEMANTICS] = job->semantics == HARNESS_SEMANTICS_PYTORCH,
        [DDP_OPTION_BUCKET_ORDER] = job->bucket_order == HARNESS_BUCKET_ORDER_PYTORCH,
        [DDP_OPTION_GRADIENT_SCALE] = job->gradient_scale == HARNESS_GRADIENT_SCALE_POST,
        [DDP_OPTION_FIND_UNUSED] = job->find_unused_parameters && !job->static_graph,
        [DDP_OPTION_STATIC_GRAPH] = job->static_graph,
        [DDP_OPTION_BROADCAST_BUFFERS] = job->broadcast_buffers,
        [DDP_OPTION_BUCKET_VIEW] = job->gradient_as_bucket_view};
    size_t first_cap_bytes, cap_bytes;

    harness_bucket_caps(job, &first_cap_bytes, &cap_bytes);
    memset(out, 0, ARG_COUNT * sizeof(out[0]));
    out[CAP] = cap_bytes;
    out[FIRST_CAP] = first_cap_bytes;
    for (unsigned i = 0; i < DDP_OPTION_COUNT; i++) {
        out[OPTIONS] |= (uint64_t)is_set[i] << i;
    }
    if (job->mixed_precision.is_set) {
        char mixed[MIXED_BYTES];

        name_mixed(harness_mixed_params(job), harness_mixed_reduce(job), mixed);
        out[HOOK] = ddp_hash_text(mixed);
    } else {
        out[HOOK] = job->hook == HARNESS_HOOK_NONE
                        ? 0
                        : ddp_hash_text(harness_names_of(HARNESS_NAMES_HOOKS, (int)job->hook));
    }
}

/* What the rank recorded; NULL: nothing. */
static const uint64_t *recorded(const struct harness_emulation *e, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_DDP_CONFIG, &count);

    return count == 0 ? NULL : list[0]->entry.arg;
}

static bool is_same(const uint64_t *a, const uint64_t *b)
{
    return memcmp(a, b, ARG_COUNT * sizeof(a[0])) == 0;
}

static const char *name_of_hook(uint64_t hash, char *text, size_t size_bytes)
{
    for (int i = HARNESS_HOOK_NONE + 1; i < HARNESS_HOOK_COUNT && hash != 0; i++) {
        const char *name = harness_names_of(HARNESS_NAMES_HOOKS, i);

        if (ddp_hash_text(name) == hash) {
            return name;
        }
    }
    for (int i = 0; i < DDP_DTYPE_COUNT * DDP_DTYPE_COUNT; i++) {
        name_mixed((enum ddp_dtype)(i / DDP_DTYPE_COUNT), (enum ddp_dtype)(i % DDP_DTYPE_COUNT),
                   text);
        if (ddp_hash_text(text) == hash) {
            return text;
        }
    }
    (void)snprintf(text, size_bytes, hash == 0 ? "none" : "one that is not known (%016" PRIx64 ")",
                   hash);
    return text;
}

/* The first option that differs. */
static void say_option(const uint64_t *own, const uint64_t *planned, char *text, size_t size_bytes)
{
    static const char *const numbers[ARG_COUNT] = {
        [CAP] = "bucket_cap_bytes", [FIRST_CAP] = "first_bucket_cap_bytes", [BUILD] = "build_id"};
    const uint64_t bits = own[OPTIONS] ^ planned[OPTIONS];
    char one[64], other[64];

    for (int i = 0; i < ARG_COUNT; i++) {
        if (own[i] != planned[i] && numbers[i] != NULL) {
            (void)snprintf(text, size_bytes, "%s is %" PRIu64 ", and %" PRIu64, numbers[i], own[i],
                           planned[i]);
            return;
        }
    }
    for (unsigned i = 0; i < DDP_OPTION_COUNT; i++) {
        if ((bits >> i & 1) != 0) {
            const bool is_set = (own[OPTIONS] >> i & 1) != 0;

            (void)snprintf(text, size_bytes, "%s is %s, and %s", options[i].name,
                           is_set ? options[i].set : options[i].unset,
                           is_set ? options[i].unset : options[i].set);
            return;
        }
    }
    if (own[HOOK] != planned[HOOK]) {
        (void)snprintf(text, size_bytes, "hook is %s, and %s",
                       name_of_hook(own[HOOK], one, sizeof one),
                       name_of_hook(planned[HOOK], other, sizeof other));
        return;
    }
    (void)snprintf(text, size_bytes, "options are %016" PRIx64 ", and %016" PRIx64, own[OPTIONS],
                   planned[OPTIONS]);
}

/* Ranks that are configured alike are one finding. */
void harness_model_check_config(const struct harness_emulation *e, struct harness_findings *out)
{
    uint64_t planned[ARG_COUNT];

    list_planned(&e->input->plan->job, planned);
    for (uint32_t r = 0; r < e->world; r++) {
        const uint64_t *own = recorded(e, r);
        struct harness_finding finding;
        char option[160], ranks[96];
        bool is_listed = false;

        if (own == NULL || is_same(own, planned)) {
            continue;
        }
        harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_MODEL,
                             HARNESS_ORACLE_MODEL, HARNESS_MODE_PROVABLE);
        for (uint32_t q = 0; q < e->world; q++) {
            const uint64_t *other = recorded(e, q);

            if (other != NULL && is_same(own, other)) {
                is_listed = is_listed || q < r;
                harness_rank_set_add(&finding.culprits, q);
            }
        }
        if (is_listed) {
            continue;
        }
        harness_subject_set_comparison(e, 1, &finding);
        say_option(own, planned, option, sizeof option);
        (void)snprintf(finding.text, sizeof finding.text, "%s: option %s in the plan's job",
                       harness_subject_ranks_text(&finding.culprits, ranks, sizeof ranks), option);
        harness_findings_add(out, &finding);
    }
}
