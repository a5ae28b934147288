/* Purpose: every rank wrapped a model with the buffers of the plan's.
 * Idea: as with parameters, ranks can only compare with each other, PyTorch's compare no buffers at
 * all, and two ranks that differ are both right in their own eyes. Each records its buffers
 * (buffer.shape), and the plan says what they should be. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/evidence/evidence.h"
#include "harness/oracle/subject.h"

/* The event's arguments. */
enum { BUFFER, DTYPE, COUNT, NAME, ARG_COUNT };

/* The first buffer of a rank that the plan's model does not have so. */
struct other {
    bool is_set;
    uint64_t buffer;
    const uint64_t *own; /* the event's arguments; NULL: the rank does not have the buffer */
};

static bool is_planned(const struct harness_emulation *e, const uint64_t *arg)
{
    const struct harness_layout_item *item =
        arg[BUFFER] < e->buffers.count ? &e->buffers.items[arg[BUFFER]] : NULL;

    return item != NULL && arg[DTYPE] == (uint64_t)item->dtype && arg[COUNT] == item->elem_count &&
           arg[NAME] == ddp_hash_text(item->name);
}

/* The rank recorded so many buffers, and has no more. Buckets are recorded behind all buffers: of a
 * rank without any of them it is not known which buffers it has. */
static bool is_whole(const struct harness_emulation *e, uint32_t rank, size_t buffer_count)
{
    size_t count = 0;

    (void)harness_index_list(&e->index, rank, DDP_EVENT_BUCKET_PARAM, &count);
    return count > 0 && !harness_evidence_has_buffer(e, rank, buffer_count);
}

static struct other find_other(const struct harness_emulation *e, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_BUFFER_SHAPE, &count);

    for (size_t i = 0; i < count; i++) {
        if (!is_planned(e, list[i]->entry.arg)) {
            return (struct other){true, list[i]->entry.arg[BUFFER], list[i]->entry.arg};
        }
    }
    return count < e->buffers.count && is_whole(e, rank, count) ? (struct other){true, count, NULL}
                                                                : (struct other){.is_set = false};
}

static bool is_same(const struct other *a, const struct other *b)
{
    return a->is_set && b->is_set && a->buffer == b->buffer &&
           (a->own == NULL) == (b->own == NULL) &&
           (a->own == NULL || memcmp(a->own, b->own, ARG_COUNT * sizeof(*a->own)) == 0);
}

/* "f32[3]"; numbers that no type has are shown as they are. */
static void say_shape(uint64_t dtype, uint64_t count, char *text, size_t size_bytes)
{
    if (dtype < DDP_DTYPE_COUNT) {
        (void)snprintf(text, size_bytes, "%s[%" PRIu64 "]", ddp_dtype_name((enum ddp_dtype)dtype),
                       count);
    } else {
        (void)snprintf(text, size_bytes, "of type %" PRIu64 ", [%" PRIu64 "]", dtype, count);
    }
}

static void describe(const struct harness_emulation *e, const struct other *other,
                     struct harness_finding *finding)
{
    const struct harness_layout_item *item =
        other->buffer < e->buffers.count ? &e->buffers.items[other->buffer] : NULL;
    char own[64] = "missing";
    char planned[64] = "missing";
    char ranks[96];
    bool is_renamed;

    if (other->own != NULL) {
        say_shape(other->own[DTYPE], other->own[COUNT], own, sizeof own);
    }
    if (item != NULL) {
        say_shape((uint64_t)item->dtype, item->elem_count, planned, sizeof planned);
    }
    is_renamed = strcmp(own, planned) == 0;
    (void)snprintf(finding->text, sizeof finding->text,
                   "%s: buffer %" PRIu64 " (%s) is %s%s, and %s%s in the plan's model",
                   harness_subject_ranks_text(&finding->culprits, ranks, sizeof ranks),
                   other->buffer, item == NULL ? "?" : item->name, own,
                   is_renamed ? " of another name" : "", planned, is_renamed ? " of this one" : "");
}

/* Ranks that have the same other buffers are one finding. */
void harness_model_check_buffers(const struct harness_emulation *e, struct harness_findings *out)
{
    for (uint32_t r = 0; r < e->world; r++) {
        const struct other other = find_other(e, r);
        struct harness_finding finding;
        bool is_listed = false;

        if (!other.is_set) {
            continue;
        }
        harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_MODEL,
                             HARNESS_ORACLE_MODEL, HARNESS_MODE_PROVABLE);
        for (uint32_t q = 0; q < e->world; q++) {
            const struct other same = find_other(e, q);

            if (is_same(&other, &same)) {
                is_listed = is_listed || q < r;
                harness_rank_set_add(&finding.culprits, q);
            }
        }
        if (is_listed) {
            continue;
        }
        harness_subject_set_comparison(e, 1, &finding);
        describe(e, &other, &finding);
        harness_findings_add(out, &finding);
    }
}
