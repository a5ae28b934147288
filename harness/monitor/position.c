/* From progress words to a position. ddpcore/seam/progress.h describes the marks. */
#include "harness/monitor/position.h"

#include <stdio.h>

#include "harness/monitor/graph.h"
#include "harness/plan/op_text.h"

/* A mark holds a sequence number modulo 65536. The full number is the largest that fits and is not
 * above seq_posted. */
static uint64_t seq_of(uint64_t word, uint64_t seq_posted)
{
    uint64_t seq = (seq_posted & ~UINT64_C(0xffff)) | ddp_mark_index(word);

    return seq > seq_posted && seq > 0xffffu ? seq - 0x10000u : seq;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void set_comm(const struct ddp_progress_words *words, const struct ddp_page *page,
                     struct harness_position *out)
{
    out->seq_ended = page->seq_done;
    if (ddp_mark_kind(words->reached) == DDP_MARK_COLL) {
        out->comm = words->reached == words->enqueued ? HARNESS_COMM_OPEN : HARNESS_COMM_INSIDE;
        out->seq = seq_of(words->reached, page->seq_posted);
        out->seq_ended = later(out->seq_ended, out->seq > 0 ? out->seq - 1 : 0);
        return;
    }
    if (ddp_mark_kind(words->reached) == DDP_MARK_COLL_END) {
        out->seq_ended = later(out->seq_ended, seq_of(words->reached, page->seq_posted));
    }
    if (words->reached != words->enqueued) {
        out->comm = HARNESS_COMM_BEFORE;
        /* Collectives without marks (not on this stream) have ended for the host. */
        out->seq = out->seq_ended + 1;
    }
}

struct harness_position harness_position_of(const struct harness_cut *cut, uint32_t rank)
{
    struct harness_position out = {0};
    const struct ddp_progress_words *compute;

    if (cut->progress == NULL || cut->progress[rank].is_mapped == 0 ||
        cut->processes[rank].state != HARNESS_PROCESS_RUNNING || harness_graph_is_over(cut, rank)) {
        return out;
    }
    DDP_ASSERT(cut->is_page_valid[rank]); /* words of a rank without a page are not read */
    compute = &cut->progress[rank].stream[DDP_PROGRESS_COMPUTE];
    out.is_known = true;
    out.compute_reached = compute->reached;
    out.compute_enqueued = compute->enqueued;
    if (compute->reached != compute->enqueued) {
        out.compute = HARNESS_COMPUTE_BUSY;
    } else if (ddp_mark_kind(compute->reached) != DDP_MARK_IDLE) {
        out.compute = HARNESS_COMPUTE_OPEN;
    }
    set_comm(&cut->progress[rank].stream[DDP_PROGRESS_COMM], &cut->pages[rank], &out);
    out.rounds_left = out.comm == HARNESS_COMM_OPEN ? cut->progress[rank].rounds_left : 0;
    return out;
}

bool harness_position_is_working(const struct harness_position *position)
{
    return position->is_known &&
           (position->compute != HARNESS_COMPUTE_DRAINED || position->comm != HARNESS_COMM_IDLE);
}

void harness_position_name_mark(uint64_t word, char out[HARNESS_MARK_TEXT_BYTES])
{
    enum ddp_mark kind = ddp_mark_kind(word);

    if (word == 0) {
        (void)snprintf(out, HARNESS_MARK_TEXT_BYTES, "the start");
    } else if (kind == DDP_MARK_FORWARD) {
        (void)snprintf(out, HARNESS_MARK_TEXT_BYTES, "forward layer %u", ddp_mark_index(word));
    } else {
        (void)snprintf(out, HARNESS_MARK_TEXT_BYTES, "%s", ddp_mark_name(kind));
    }
}

static void say_compute(const struct harness_position *position, struct ddp_text *out)
{
    char name[HARNESS_MARK_TEXT_BYTES];
    uint64_t reached = ddp_mark_count(position->compute_reached);
    uint64_t enqueued = ddp_mark_count(position->compute_enqueued);

    harness_position_name_mark(position->compute_reached, name);
    if (position->compute == HARNESS_COMPUTE_BUSY &&
        ddp_mark_kind(position->compute_reached) == DDP_MARK_IDLE) {
        harness_position_name_mark(position->compute_enqueued, name);
        ddp_text_add(out, "compute before %s (mark %llu of %llu): not ended", name,
                     (unsigned long long)reached, (unsigned long long)enqueued);
        return;
    }
    switch (position->compute) {
    case HARNESS_COMPUTE_DRAINED:
        ddp_text_add(out, "compute idle (mark %llu)", (unsigned long long)reached);
        return;
    case HARNESS_COMPUTE_OPEN:
        ddp_text_add(out, "compute in %s or behind it (mark %llu, the last)", name,
                     (unsigned long long)reached);
        return;
    case HARNESS_COMPUTE_BUSY:
        ddp_text_add(out, "compute in %s (mark %llu of %llu): started, not ended", name,
                     (unsigned long long)reached, (unsigned long long)enqueued);
        return;
    }
}

void harness_position_say(const struct harness_program *program,
                          const struct harness_position *position, struct ddp_text *out)
{
    say_compute(position, out);
    if (position->comm == HARNESS_COMM_IDLE) {
        ddp_text_add(out, "; comm idle");
        return;
    }
    ddp_text_add(out, "; comm %s ", position->comm == HARNESS_COMM_BEFORE ? "before" : "in");
    harness_op_text_add_planned(program, position->seq, out);
    ddp_text_add(out, "%s",
                 position->comm == HARNESS_COMM_BEFORE   ? ": enqueued, not started"
                 : position->comm == HARNESS_COMM_INSIDE ? ": started, not ended"
                                                         : ": started, its end not yet marked");
    if (position->rounds_left != 0) {
        ddp_text_add(out, ", %llu of its rounds not enqueued",
                     (unsigned long long)position->rounds_left);
    }
}
