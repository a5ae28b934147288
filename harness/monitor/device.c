/* Hangs of devices, from progress words: a compute kernel that does not end, a collective that does
 * not start, or one that does not end. Work that looks stuck may always be running still, so
 * nothing here is provable: no word may have moved for the budget of the host's phase.
 *
 * The three are tried in the order in which one can hold up the next. Compute waits for nothing, so
 * if the compute stream is busy, its own rank is the culprit. A collective waits for its rank's
 * compute, and for nothing else until it starts; so if it does not start and compute is drained,
 * its own rank is the culprit. A collective that has started waits for its peers; it is evidence
 * only if every peer has posted it and none is held up by something else, and then no single rank
 * can be named. */
#include "ddpcore/base/clock.h"
#include "harness/monitor/draft.h"
#include "harness/monitor/graph.h"
#include "harness/monitor/position.h"
#include "harness/monitor/rules.h"

/* The host waits inside a collective, and enqueues nothing more. */
static bool is_host_waiting(const struct harness_cut *cut, uint32_t rank)
{
    return harness_graph_is_waiting(cut, rank) && cut->pages[rank].wait_kind == DDP_WAIT_COLLECTIVE;
}

/* Neither the rank nor its device has shown progress for longer than the budget. Ranks at the store
 * are left out: they wait for others, whatever their devices do. */
static bool is_still(const struct harness_view *view, uint32_t rank)
{
    const struct harness_cut *cut = view->cut;

    return cut->pages[rank].wait_kind != DDP_WAIT_STORE &&
           harness_graph_silent_ns(cut, rank) >
               harness_monitor_budget_ns(view->plan, harness_graph_phase(cut, rank));
}

static bool is_inside(const struct harness_position *position)
{
    return position->is_known && position->comm >= HARNESS_COMM_INSIDE &&
           position->seq > position->seq_ended;
}

/* Work on the compute stream does not end. If no mark follows that work, it shows only in a
 * collective that waits for the compute stream and does not start. */
static bool is_compute_stuck(const struct harness_view *view, uint32_t rank,
                             const struct harness_position *position)
{
    return position->is_known && is_still(view, rank) &&
           (position->compute == HARNESS_COMPUTE_BUSY ||
            (position->compute == HARNESS_COMPUTE_OPEN && position->comm == HARNESS_COMM_BEFORE));
}

/* Ranks whose compute is stuck. Ranks that are also inside a collective count only if the compute
 * of some other rank is not stuck: if all are stuck, the collective is the likelier cause. */
static void find_stuck(const struct harness_view *view, bool is_explained,
                       struct harness_rank_set *out)
{
    const struct harness_cut *cut = view->cut;
    struct harness_rank_set inside = harness_rank_set_in(view->mem);
    bool has_other = false;

    *out = harness_rank_set_in(view->mem);
    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct harness_position position = harness_position_of(cut, r);

        if (!is_compute_stuck(view, r, &position)) {
            has_other = has_other || position.is_known;
        } else if (is_inside(&position)) {
            harness_rank_set_add(&inside, r);
        } else {
            harness_rank_set_add(out, r);
        }
    }
    if (harness_rank_set_is_empty(out) && has_other && !is_explained) {
        *out = inside;
    }
}

/* The first collective that some rank's device is inside of, or 0. */
static uint64_t first_inside(const struct harness_cut *cut)
{
    uint64_t first = 0;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct harness_position position = harness_position_of(cut, r);

        if (is_inside(&position) && (first == 0 || position.seq < first)) {
            first = position.seq;
        }
    }
    return first;
}

/* The collective that this rank's device does not start although its compute is not stuck; 0 if
 * there is none. The collective may also be posted and never enqueued, while others are inside it.
 */
static uint64_t seq_not_launched(const struct harness_view *view, uint32_t rank, uint64_t inside)
{
    const struct harness_position position = harness_position_of(view->cut, rank);
    /* Ranks agree before they enqueue: it has not heard from all of them yet. */
    const bool is_agreeing = view->cut->pages[rank].wait_peer != 0;

    if (!position.is_known || !is_still(view, rank)) {
        return 0;
    }
    if (position.comm == HARNESS_COMM_BEFORE) {
        return position.seq;
    }
    return position.comm == HARNESS_COMM_IDLE && is_host_waiting(view->cut, rank) && !is_agreeing &&
                   inside > position.seq_ended && view->cut->pages[rank].seq_posted >= inside
               ? inside
               : 0;
}

static void find_not_launched(const struct harness_view *view, struct harness_rank_set *out)
{
    uint64_t inside = first_inside(view->cut);

    *out = harness_rank_set_in(view->mem);
    for (uint32_t r = 0; r < view->cut->world_size; r++) {
        if (seq_not_launched(view, r, inside) != 0) {
            harness_rank_set_add(out, r);
        }
    }
}

/* Where a rank is with respect to a collective that has started somewhere and does not end. */
enum part {
    PART_INSIDE,  /* its device is inside */
    PART_OPEN,    /* its device is inside or past it: the host has not marked the end yet */
    PART_ENDED,   /* for this rank the collective has ended */
    PART_UNKNOWN, /* its host waits inside it, and its device shows no words */
    PART_OTHER    /* it may still be on its way there, so that nothing can be concluded */
};

static enum part part_of(const struct harness_view *view, uint32_t rank, uint64_t seq)
{
    const struct harness_cut *cut = view->cut;
    const struct harness_position position = harness_position_of(cut, rank);

    if (cut->pages[rank].seq_posted < seq) {
        return PART_OTHER;
    }
    if (cut->pages[rank].seq_done >= seq || (position.is_known && position.seq_ended >= seq)) {
        return PART_ENDED;
    }
    if (!is_still(view, rank)) {
        return PART_OTHER;
    }
    if (!position.is_known) {
        return is_host_waiting(cut, rank) ? PART_UNKNOWN : PART_OTHER;
    }
    if (!is_inside(&position)) {
        return PART_OTHER;
    }
    return position.comm == HARNESS_COMM_OPEN && !is_host_waiting(cut, rank) ? PART_OPEN
                                                                             : PART_INSIDE;
}

/* All ranks are in one group. Sequence numbers of two groups cannot be compared. */
static bool is_one_group(const struct harness_cut *cut)
{
    for (uint32_t r = 1; r < cut->world_size; r++) {
        if (cut->is_page_valid[r] && cut->is_page_valid[0] &&
            cut->pages[r].comm != cut->pages[0].comm) {
            return false;
        }
    }
    return true;
}

/* Victims of a device: ranks that wait, and ranks whose device is inside a collective. */
static void set_victims(const struct harness_view *view, struct harness_finding *finding)
{
    const struct harness_cut *cut = view->cut;

    harness_rank_set_clear(&finding->victims);
    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct harness_position position = harness_position_of(cut, r);

        if (!harness_rank_set_has(&finding->culprits, r) &&
            (harness_graph_is_waiting(cut, r) || is_inside(&position))) {
            harness_rank_set_add(&finding->victims, r);
        }
    }
}

/* The culprit that has been silent for longest. */
static uint32_t first_of(const struct harness_cut *cut, const struct harness_rank_set *set)
{
    uint32_t first = cut->world_size;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_rank_set_has(set, r) &&
            (first == cut->world_size ||
             harness_graph_silent_ns(cut, r) > harness_graph_silent_ns(cut, first))) {
            first = r;
        }
    }
    DDP_ASSERT(first < cut->world_size);
    return first;
}

static uint32_t begin(const struct harness_view *view, enum harness_verdict verdict,
                      const struct harness_rank_set *culprits, struct harness_finding *out)
{
    uint32_t first = first_of(view->cut, culprits);

    harness_draft_begin(view, verdict, HARNESS_MODE_BUDGET, first, out);
    out->culprits = *culprits;
    set_victims(view, out);
    return first;
}

/* How long a probe's sum may show no mark: the ranks give up by their time-out, and nobody could
 * tell afterwards who held them up. */
static uint64_t probe_limit_ns(const struct harness_view *view)
{
    uint64_t budget_ns = harness_monitor_budget_ns(view->plan, DDP_PHASE_PROBE);
    uint64_t timeout_ns = view->plan->job.timeout_ns;

    return timeout_ns > 0 && timeout_ns / 4 * 3 < budget_ns ? timeout_ns / 4 * 3 : budget_ns;
}

/* The operation comes last: its parameters may fill the rest of the text. */
static void finish(const struct harness_view *view, uint32_t rank, const char *op_is,
                   struct harness_finding *finding, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    enum ddp_phase phase = harness_graph_phase(cut, rank);
    uint64_t budget_ns = phase == DDP_PHASE_PROBE ? probe_limit_ns(view)
                                                  : harness_monitor_budget_ns(view->plan, phase);

    harness_draft_add(finding, "; no mark for %llu ms (budget %llu ms, host in %s)",
                      (unsigned long long)(harness_graph_silent_ns(cut, rank) / DDP_NS_PER_MS),
                      (unsigned long long)(budget_ns / DDP_NS_PER_MS), ddp_phase_name(phase));
    harness_draft_add_victims(finding);
    if (finding->op.is_set) {
        harness_draft_add(finding, "; %s: ", op_is);
        harness_draft_add_op(view, finding);
    }
    harness_findings_add(out, finding);
}

/* The step and phase of the device's work. The host may have left them: it runs ahead by less than
 * a step. */
static void set_place(const struct harness_position *position, struct harness_finding *finding)
{
    bool is_host_before =
        finding->phase >= (int32_t)DDP_PHASE_DATA && finding->phase <= (int32_t)DDP_PHASE_LOSS;

    switch (ddp_mark_kind(position->compute_reached)) {
    case DDP_MARK_FORWARD:
        finding->phase = DDP_PHASE_FORWARD;
        return;
    case DDP_MARK_BACKWARD:
        finding->phase = DDP_PHASE_BACKWARD;
        if (is_host_before && finding->micro > 0) {
            finding->micro--;
        } else if (is_host_before && finding->step > 0) {
            finding->step--;
            finding->micro = -1;
        }
        return;
    case DDP_MARK_OPTIMIZER:
        finding->phase = DDP_PHASE_OPTIMIZER;
        if (is_host_before && finding->step > 0) {
            finding->step--;
            finding->micro = -1;
        }
        return;
    default:
        return;
    }
}

static void say_kernel(const struct harness_position *position, uint32_t rank,
                       struct harness_finding *finding)
{
    char name[HARNESS_MARK_TEXT_BYTES];

    if (ddp_mark_kind(position->compute_reached) == DDP_MARK_IDLE) {
        harness_position_name_mark(position->compute_enqueued, name);
        harness_draft_add(finding, "GPU work before the mark of %s on rank %u does not end", name,
                          rank);
        return;
    }
    harness_position_name_mark(position->compute_reached, name);
    harness_draft_add(finding, "GPU kernel of %s on rank %u started, not ended", name, rank);
    if (position->compute == HARNESS_COMPUTE_OPEN) {
        harness_draft_add(finding, " (no mark behind it)");
    }
}

static void add_compute(const struct harness_view *view, const struct harness_rank_set *culprits,
                        struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    struct harness_finding finding;
    uint32_t first = begin(view, HARNESS_VERDICT_HANG_DEVICE_COMPUTE, culprits, &finding);
    struct harness_position position = harness_position_of(cut, first);
    uint64_t owed = harness_graph_seq_owed(cut, first);

    set_place(&position, &finding);
    say_kernel(&position, first, &finding);
    harness_draft_add_place(&finding);
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (r != first && harness_rank_set_has(culprits, r)) {
            const struct harness_position other = harness_position_of(cut, r);

            harness_draft_add(&finding, "; ");
            say_kernel(&other, r, &finding);
        }
    }
    harness_draft_set_planned(view, position.comm != HARNESS_COMM_IDLE ? position.seq : owed,
                              &finding);
    finish(view, first,
           position.comm == HARNESS_COMM_BEFORE   ? "enqueued, not started"
           : position.comm >= HARNESS_COMM_INSIDE ? "started"
                                                  : "not yet posted",
           &finding, out);
}

static void add_not_launched(const struct harness_view *view,
                             const struct harness_rank_set *culprits, struct harness_findings *out)
{
    struct harness_finding finding;
    uint32_t first = begin(view, HARNESS_VERDICT_HANG_NOT_LAUNCHED, culprits, &finding);
    struct harness_position position = harness_position_of(view->cut, first);

    harness_draft_set_planned(view, seq_not_launched(view, first, first_inside(view->cut)),
                              &finding);
    harness_draft_add_ranks(&finding, culprits);
    if (position.comm == HARNESS_COMM_BEFORE) {
        harness_draft_add(&finding, " enqueued a collective that does not start");
        harness_draft_add_place(&finding);
        harness_draft_add(&finding,
                          ", though compute is done: earlier work of the communication stream "
                          "does not end, or an event that it waits for never comes");
    } else {
        harness_draft_add(&finding, " posted a collective and never enqueued it on the device");
        harness_draft_add_place(&finding);
    }
    finish(view, first, "not started", &finding, out);
}

static void say_part(const struct harness_rank_set *set, const char *what,
                     struct harness_finding *finding)
{
    if (!harness_rank_set_is_empty(set)) {
        harness_draft_add(finding, "%s", what);
        harness_draft_add_ranks(finding, set);
    }
}

/* A collective that every rank has reached, and that does not end. If all that is missing are marks
 * that hosts have not set, or if a host has not enqueued all of its rounds, those hosts are silent,
 * which is another rule's finding. */
static void find_comm(const struct harness_view *view, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    uint64_t seq = first_inside(cut);
    struct harness_rank_set parts[PART_OTHER];
    struct harness_rank_set culprits = harness_rank_set_in(view->mem);
    struct harness_finding finding;
    uint32_t first;

    if (seq == 0 || !is_one_group(cut)) {
        return;
    }
    for (unsigned i = 0; i < PART_OTHER; i++) {
        parts[i] = harness_rank_set_in(view->mem);
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        enum part part = part_of(view, r, seq);

        if (part == PART_OTHER || harness_rounds_is_owing(cut, r)) {
            return;
        }
        harness_rank_set_add(&parts[part], r);
        if (part != PART_ENDED) {
            harness_rank_set_add(&culprits, r);
        }
    }
    if (harness_rank_set_is_empty(&parts[PART_INSIDE])) {
        return;
    }
    first = begin(view, HARNESS_VERDICT_HANG_DEVICE_COMM, &culprits, &finding);
    harness_draft_set_planned(view, seq, &finding);
    say_part(&parts[PART_INSIDE], "a collective started and does not end on ", &finding);
    harness_draft_add_place(&finding);
    say_part(&parts[PART_OPEN], ", its end not marked on ", &finding);
    say_part(&parts[PART_ENDED], ", ended on ", &finding);
    say_part(&parts[PART_UNKNOWN], ", unknown on ", &finding);
    if (harness_rank_set_count(&culprits) > 1) {
        harness_draft_add(&finding, "; which rank or link holds it up is not known");
    }
    finish(view, first, "not ended", &finding, out);
}

/* All ranks measure in which order the library adds, and nothing moves. Probes are not posted: of
 * them only the devices know. */
static bool find_probe(const struct harness_view *view, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    struct harness_rank_set before = harness_rank_set_in(view->mem);
    struct harness_rank_set inside = harness_rank_set_in(view->mem);
    struct harness_finding finding;
    uint32_t first;
    bool is_before;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct harness_position position = harness_position_of(cut, r);

        if (!position.is_known || harness_graph_phase(cut, r) != DDP_PHASE_PROBE ||
            position.comm == HARNESS_COMM_IDLE ||
            harness_graph_silent_ns(cut, r) <= probe_limit_ns(view)) {
            return false;
        }
        harness_rank_set_add(position.comm == HARNESS_COMM_BEFORE ? &before : &inside, r);
    }
    is_before = !harness_rank_set_is_empty(&before);
    first = begin(view,
                  is_before ? HARNESS_VERDICT_HANG_NOT_LAUNCHED : HARNESS_VERDICT_HANG_DEVICE_COMM,
                  is_before ? &before : &inside, &finding);
    say_part(is_before ? &before : &inside,
             is_before ? "a probe's sum does not start on " : "a probe's sum does not end on ",
             &finding);
    harness_draft_add_place(&finding);
    if (harness_rank_set_count(&finding.culprits) > 1) {
        harness_draft_add(&finding, "; which rank or link holds it up is not known");
    }
    finish(view, first, "", &finding, out);
    return true;
}

void harness_device_find(const struct harness_view *view, bool is_explained,
                         struct harness_findings *out)
{
    struct harness_rank_set culprits;

    if (!view->cut->is_stable) {
        return;
    }
    if (!is_explained && find_probe(view, out)) {
        return;
    }
    find_stuck(view, is_explained, &culprits);
    if (!harness_rank_set_is_empty(&culprits)) {
        add_compute(view, &culprits, out);
        return;
    }
    if (is_explained) {
        return;
    }
    find_not_launched(view, &culprits);
    if (!harness_rank_set_is_empty(&culprits)) {
        add_not_launched(view, &culprits, out);
        return;
    }
    find_comm(view, out);
}
