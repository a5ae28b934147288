/* Progress words. Each has one writer and only grows, so two equal readings of all of them are one
 * moment's. A word's `reached` is read before its `enqueued`, which was published first: whoever
 * sees a mark reached sees it enqueued too. The rounds that are left are read last: between two
 * equal marks they only go down, and are those of the marks that were read. */
#include "ddpcore/seam/progress.h"

#include <stddef.h>

enum { PROGRESS_READ_ATTEMPTS = 64 };

_Static_assert(sizeof(struct ddp_progress) <= DDP_PROGRESS_SIZE_BYTES, "the words are one page");
_Static_assert(DDP_MARK_COUNT <= 256, "a kind is one byte of a word");

const char *ddp_mark_name(enum ddp_mark mark)
{
    static const char *const names[DDP_MARK_COUNT] = {"idle",      "forward",    "backward",
                                                      "optimizer", "collective", "collective end"};

    return (unsigned)mark < DDP_MARK_COUNT ? names[mark] : "?";
}

void ddp_progress_set_mapped(struct ddp_progress *progress, bool is_mapped)
{
    __atomic_store_n(&progress->is_mapped, is_mapped ? 1u : 0u, __ATOMIC_RELEASE);
}

uint64_t ddp_progress_next(struct ddp_progress *progress, enum ddp_progress_stream stream,
                           enum ddp_mark mark, uint64_t index)
{
    uint64_t *enqueued;
    uint64_t word;

    if (progress == NULL) {
        return 0;
    }
    DDP_ASSERT((unsigned)stream < DDP_PROGRESS_STREAM_COUNT && (unsigned)mark < DDP_MARK_COUNT);
    enqueued = &progress->stream[stream].enqueued;
    word =
        ddp_mark_pack(ddp_mark_count(__atomic_load_n(enqueued, __ATOMIC_RELAXED)) + 1, mark, index);
    DDP_ASSERT(word > __atomic_load_n(enqueued, __ATOMIC_RELAXED)); /* words only grow */
    __atomic_store_n(enqueued, word, __ATOMIC_RELEASE);
    return word;
}

void ddp_progress_set_rounds(struct ddp_progress *progress, uint64_t rounds_left)
{
    if (progress != NULL) {
        __atomic_store_n(&progress->rounds_left, rounds_left, __ATOMIC_RELEASE);
    }
}

static void load(const struct ddp_progress *from, struct ddp_progress *to)
{
    to->is_mapped = __atomic_load_n(&from->is_mapped, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < DDP_PROGRESS_STREAM_COUNT; i++) {
        to->stream[i].reached = __atomic_load_n(&from->stream[i].reached, __ATOMIC_ACQUIRE);
        to->stream[i].enqueued = __atomic_load_n(&from->stream[i].enqueued, __ATOMIC_ACQUIRE);
    }
    to->rounds_left = __atomic_load_n(&from->rounds_left, __ATOMIC_ACQUIRE);
}

bool ddp_progress_is_equal(const struct ddp_progress *a, const struct ddp_progress *b)
{
    bool is_equal = a->is_mapped == b->is_mapped && a->rounds_left == b->rounds_left;

    for (unsigned i = 0; i < DDP_PROGRESS_STREAM_COUNT; i++) {
        is_equal = is_equal && a->stream[i].reached == b->stream[i].reached &&
                   a->stream[i].enqueued == b->stream[i].enqueued;
    }
    return is_equal;
}

bool ddp_progress_read(const struct ddp_progress *progress, struct ddp_progress *out)
{
    struct ddp_progress again;

    load(progress, out);
    for (int attempt = 0; attempt < PROGRESS_READ_ATTEMPTS; attempt++) {
        load(progress, &again);
        if (ddp_progress_is_equal(out, &again)) {
            return true;
        }
        *out = again;
    }
    return false;
}
