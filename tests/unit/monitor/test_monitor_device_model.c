/* The monitor against a model of ranks with devices: every host operation, kernel and collective of
 * a short job gets stuck once, on every rank, and what the words then show has to name it.
 *
 * A rank's host runs through a list of operations; its two streams run through what it enqueued, in
 * order; a collective ends once all ranks' streams are in it. A call that launches one is in
 * progress until the host comes again, and only then marks its end. The model runs until nothing
 * moves. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { LAYERS = 3, HOST_OPS_MAX = 64, ITEMS_MAX = 128 };

enum host_kind {
    HOST_PHASE,
    HOST_KERNEL, /* enqueue a mark and the kernel behind it */
    HOST_IDLE,   /* enqueue the mark behind all */
    HOST_POLL,   /* until compute has drained, without saying so on the page */
    HOST_POST,
    HOST_WAIT
};
struct host_op {
    enum host_kind kind;
    enum ddp_phase phase;
    enum ddp_mark mark;
    uint32_t index; /* layer */
    uint64_t seq;
    uint32_t step;
};

enum item_kind { ITEM_MARK, ITEM_KERNEL, ITEM_AFTER, ITEM_COLLECTIVE };
struct item {
    enum item_kind kind;
    uint64_t word;  /* of a mark */
    uint32_t after; /* length of the compute queue that has to have run */
    uint64_t seq;
    bool is_stuck;
};
struct queue {
    struct item items[ITEMS_MAX];
    uint32_t count, at;
};

enum fault_kind {
    FAULT_NONE,
    FAULT_HOST,         /* place: host operation */
    FAULT_KERNEL,       /* place: n-th compute kernel */
    FAULT_BEFORE,       /* place: n-th collective; the stream is stuck before its mark */
    FAULT_EVERYWHERE,   /* place: n-th collective; it ends on no rank */
    FAULT_KERNEL_OF_ONE /* place: n-th collective; it ends on all other ranks */
};
struct fault {
    enum fault_kind kind;
    uint32_t rank;
    uint32_t place;
};

struct rank {
    struct queue queues[DDP_PROGRESS_STREAM_COUNT];
    uint32_t at, kernel_count;
    uint32_t posted, launched; /* collectives */
    bool is_launching;         /* the call is in progress, the end is not marked */
    uint32_t after[CUT_OPS];   /* length of the compute queue when each was posted */
};
struct model {
    struct cut_job job;
    struct host_op ops[HOST_OPS_MAX];
    uint32_t op_count, world;
    struct rank ranks[CUT_RANKS_MAX];
    struct fault fault;
    bool is_checked; /* the group agrees on the host before each launch */
};

static void add_op(struct model *model, struct host_op op)
{
    DDP_ASSERT(model->op_count < HOST_OPS_MAX);
    model->ops[model->op_count++] = op;
}

static void add_step(struct model *model, uint32_t step)
{
    add_op(model, (struct host_op){.kind = HOST_PHASE, .phase = DDP_PHASE_FORWARD, .step = step});
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        add_op(model,
               (struct host_op){.kind = HOST_KERNEL, .mark = DDP_MARK_FORWARD, .index = layer});
    }
    add_op(model, (struct host_op){.kind = HOST_IDLE});
    if (step == 1) { /* the loss is looked at now and then */
        add_op(model, (struct host_op){.kind = HOST_PHASE, .phase = DDP_PHASE_LOSS, .step = step});
        add_op(model, (struct host_op){.kind = HOST_POLL});
    }
    add_op(model, (struct host_op){.kind = HOST_PHASE, .phase = DDP_PHASE_BACKWARD, .step = step});
    for (uint32_t bucket = 0; bucket < CUT_BUCKETS; bucket++) {
        add_op(model, (struct host_op){.kind = HOST_KERNEL, .mark = DDP_MARK_BACKWARD});
        add_op(model, (struct host_op){.kind = HOST_POST, .seq = cut_seq(step, bucket)});
    }
    add_op(model, (struct host_op){.kind = HOST_IDLE});
    for (uint32_t bucket = 0; bucket < CUT_BUCKETS; bucket++) {
        add_op(model, (struct host_op){.kind = HOST_WAIT, .seq = cut_seq(step, bucket)});
    }
    add_op(model, (struct host_op){.kind = HOST_PHASE, .phase = DDP_PHASE_OPTIMIZER, .step = step});
    add_op(model, (struct host_op){.kind = HOST_KERNEL, .mark = DDP_MARK_OPTIMIZER});
    add_op(model, (struct host_op){.kind = HOST_IDLE});
}

static void model_init(struct model *model, uint32_t world, bool is_checked, struct fault fault)
{
    memset(model, 0, sizeof(*model));
    model->is_checked = is_checked;
    model->world = world;
    model->fault = fault;
    cut_init(&model->job, world);
    model->job.cut.progress = model->job.progress;
    model->job.cut.progress_ns = model->job.progress_ns;
    for (uint32_t r = 0; r < world; r++) {
        model->job.progress[r].is_mapped = 1;
        cut_host(&model->job, r, DDP_PHASE_FORWARD, CUT_LATE_MS);
        /* What came before the first step went another way. */
        cut_post(&model->job, r, cut_seq(0, 0) - 1);
        model->job.pages[r].seq_done = cut_seq(0, 0) - 1;
        model->job.pages[r].step = 0;
    }
    for (uint32_t step = 0; step < CUT_STEPS; step++) {
        add_step(model, step);
    }
    add_op(model,
           (struct host_op){.kind = HOST_PHASE, .phase = DDP_PHASE_TEARDOWN, .step = CUT_STEPS});
    add_op(model, (struct host_op){.kind = HOST_POST, .seq = CUT_OPS});
    add_op(model, (struct host_op){.kind = HOST_WAIT, .seq = CUT_OPS});
}

static bool has_fault(const struct model *model, enum fault_kind kind, uint32_t rank,
                      uint32_t place)
{
    return model->fault.kind == kind && model->fault.place == place &&
           (kind == FAULT_EVERYWHERE || model->fault.rank == rank);
}

static void push(struct queue *queue, struct item item)
{
    DDP_ASSERT(queue->count < ITEMS_MAX);
    queue->items[queue->count++] = item;
}

static void push_mark(struct model *model, uint32_t rank, enum ddp_progress_stream stream,
                      enum ddp_mark mark, uint64_t index)
{
    push(&model->ranks[rank].queues[stream],
         (struct item){.kind = ITEM_MARK,
                       .word = ddp_progress_next(&model->job.progress[rank], stream, mark, index)});
}

static void launch(struct model *model, uint32_t rank, uint64_t seq, uint32_t after)
{
    struct rank *self = &model->ranks[rank];
    struct queue *comm = &self->queues[DDP_PROGRESS_COMM];
    uint32_t place = self->launched;

    push(comm, (struct item){.kind = ITEM_AFTER,
                             .after = after,
                             .is_stuck = has_fault(model, FAULT_BEFORE, rank, place)});
    push_mark(model, rank, DDP_PROGRESS_COMM, DDP_MARK_COLL, seq);
    push(comm, (struct item){.kind = ITEM_COLLECTIVE,
                             .seq = seq,
                             .is_stuck = has_fault(model, FAULT_EVERYWHERE, rank, place) ||
                                         has_fault(model, FAULT_KERNEL_OF_ONE, rank, place)});
    self->is_launching = true;
}

/* End the launch in progress, then begin the next of what was posted; if the group agrees before
 * each launch, once all have posted it. */
static void drive(struct model *model, uint32_t rank)
{
    struct rank *self = &model->ranks[rank];
    uint64_t seq = cut_seq(0, 0) + self->launched;

    if (self->is_launching) {
        push_mark(model, rank, DDP_PROGRESS_COMM, DDP_MARK_COLL_END, seq++);
        self->is_launching = false;
        self->launched++;
    }
    if (self->launched == self->posted) {
        return;
    }
    for (uint32_t r = 0; model->is_checked && r < model->world; r++) {
        if (model->job.pages[r].seq_posted < seq) {
            return;
        }
    }
    launch(model, rank, seq, self->after[self->launched]);
}

static void post(struct model *model, uint32_t rank, uint64_t seq)
{
    struct rank *self = &model->ranks[rank];
    struct ddp_page *page = &model->job.pages[rank];
    uint64_t done = page->seq_done;

    cut_post(&model->job, rank, seq);
    page->seq_done = done;
    self->after[self->posted++] = self->queues[DDP_PROGRESS_COMPUTE].count;
}

/* The rank's communication stream is inside seq or past it. */
static bool has_started(const struct model *model, uint32_t rank, uint64_t seq)
{
    const struct queue *comm = &model->ranks[rank].queues[DDP_PROGRESS_COMM];

    for (uint32_t i = 0; i <= comm->at && i < comm->count; i++) {
        if (comm->items[i].kind == ITEM_COLLECTIVE && comm->items[i].seq == seq) {
            return true;
        }
    }
    return false;
}

static bool has_ended(const struct model *model, uint32_t rank, uint64_t seq)
{
    const struct queue *comm = &model->ranks[rank].queues[DDP_PROGRESS_COMM];

    for (uint32_t i = 0; i < comm->at; i++) {
        if (comm->items[i].kind == ITEM_COLLECTIVE && comm->items[i].seq == seq) {
            return true;
        }
    }
    return false;
}

static bool may_run(const struct model *model, uint32_t rank, const struct item *item)
{
    if (item->is_stuck) {
        return false;
    }
    if (item->kind == ITEM_AFTER) {
        return model->ranks[rank].queues[DDP_PROGRESS_COMPUTE].at >= item->after;
    }
    for (uint32_t r = 0; item->kind == ITEM_COLLECTIVE && r < model->world; r++) {
        if (!has_started(model, r, item->seq)) {
            return false;
        }
    }
    return true;
}

static bool run_stream(struct model *model, uint32_t rank, enum ddp_progress_stream stream)
{
    struct queue *queue = &model->ranks[rank].queues[stream];
    const struct item *item = &queue->items[queue->at];

    if (queue->at == queue->count || !may_run(model, rank, item)) {
        return false;
    }
    if (item->kind == ITEM_MARK) {
        model->job.progress[rank].stream[stream].reached = item->word;
    }
    queue->at++;
    return true;
}

/* The host's next operation; false: it is stuck, waits or has ended. */
static bool run_host(struct model *model, uint32_t rank)
{
    struct rank *self = &model->ranks[rank];
    struct queue *compute = &self->queues[DDP_PROGRESS_COMPUTE];
    struct ddp_page *page = &model->job.pages[rank];
    const struct host_op *op = &model->ops[self->at];

    if (self->at == model->op_count || has_fault(model, FAULT_HOST, rank, self->at)) {
        return false;
    }
    drive(model, rank);
    switch (op->kind) {
    case HOST_PHASE:
        page->phase = (uint64_t)op->phase;
        page->step = op->step;
        break;
    case HOST_KERNEL:
        push_mark(model, rank, DDP_PROGRESS_COMPUTE, op->mark, op->index);
        push(compute,
             (struct item){.kind = ITEM_KERNEL,
                           .is_stuck = has_fault(model, FAULT_KERNEL, rank, self->kernel_count)});
        self->kernel_count++;
        break;
    case HOST_IDLE:
        push_mark(model, rank, DDP_PROGRESS_COMPUTE, DDP_MARK_IDLE, 0);
        break;
    case HOST_POLL:
        if (compute->at < compute->count) {
            return false;
        }
        break;
    case HOST_POST:
        post(model, rank, op->seq);
        drive(model, rank);
        break;
    case HOST_WAIT:
        if (!has_ended(model, rank, op->seq)) {
            cut_wait(&model->job, rank, op->seq, -1);
            return false;
        }
        page->wait_kind = DDP_WAIT_NONE;
        page->wait_seq = 0;
        page->seq_done = op->seq;
        break;
    }
    self->at++;
    return true;
}

/* Until nothing moves; then long enough for every budget, teardown's too. */
static void run(struct model *model)
{
    bool has_moved = true;

    while (has_moved) {
        has_moved = false;
        for (uint32_t r = 0; r < model->world; r++) {
            has_moved = run_host(model, r) || has_moved;
            has_moved = run_stream(model, r, DDP_PROGRESS_COMPUTE) || has_moved;
            has_moved = run_stream(model, r, DDP_PROGRESS_COMM) || has_moved;
        }
    }
    for (uint32_t r = 0; r < model->world; r++) {
        cut_still(&model->job, r, 6000);
        if (model->ranks[r].at == model->op_count) {
            cut_end(&model->job, r, DDP_OK);
        }
    }
}

static uint32_t kernel_count(void)
{
    return CUT_STEPS * (LAYERS + CUT_BUCKETS + 1);
}

static uint32_t place_count(const struct model *model, enum fault_kind kind)
{
    switch (kind) {
    case FAULT_HOST:
        return model->op_count;
    case FAULT_KERNEL:
        return kernel_count();
    case FAULT_BEFORE:
    case FAULT_EVERYWHERE:
    case FAULT_KERNEL_OF_ONE:
        return CUT_STEPS * CUT_BUCKETS + 1;
    case FAULT_NONE:
        break;
    }
    return 1;
}

static bool is_host_hang(enum harness_verdict verdict)
{
    return verdict == HARNESS_VERDICT_HANG_NOT_JOINED || verdict == HARNESS_VERDICT_HANG_HOST ||
           verdict == HARNESS_VERDICT_HANG_TEARDOWN;
}

static void check(struct model *model)
{
    static const enum harness_verdict verdicts[] = {
        [FAULT_KERNEL] = HARNESS_VERDICT_HANG_DEVICE_COMPUTE,
        [FAULT_BEFORE] = HARNESS_VERDICT_HANG_NOT_LAUNCHED,
        [FAULT_EVERYWHERE] = HARNESS_VERDICT_HANG_DEVICE_COMM,
        [FAULT_KERNEL_OF_ONE] = HARNESS_VERDICT_HANG_DEVICE_COMM};
    const struct fault *fault = &model->fault;
    const struct harness_finding *finding;

    cut_analyse(&model->job);
    if (model->job.findings.count != 1) {
        CT_FAIL("world %u%s, fault %d on rank %u at %u: %zu findings", model->world,
                model->is_checked ? " checked" : "", fault->kind, fault->rank, fault->place,
                model->job.findings.count);
        return;
    }
    finding = &model->job.findings.items[0];
    if (fault->kind == FAULT_HOST ? !is_host_hang(finding->verdict)
                                  : finding->verdict != verdicts[fault->kind]) {
        CT_FAIL("world %u%s, fault %d on rank %u at %u: %s: %s", model->world,
                model->is_checked ? " checked" : "", fault->kind, fault->rank, fault->place,
                harness_verdict_name(finding->verdict), finding->text);
    }
    if (fault->kind == FAULT_EVERYWHERE) {
        CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), model->world);
    } else {
        cut_check_culprit(finding, fault->rank);
    }
    if (fault->kind >= FAULT_BEFORE) {
        CT_CHECK_EQ_U64(finding->op.seq, cut_seq(0, 0) + fault->place);
    }
    for (uint32_t r = 0; r < model->world; r++) {
        CT_CHECK(!harness_rank_set_has(&finding->culprits, r) ||
                 !harness_rank_set_has(&finding->victims, r));
    }
}

/* Without a fault the model runs to its end without a finding. */
CT_TEST(monitor_device_model, ends_without_a_fault)
{
    for (uint32_t world = 1; world <= 4; world++) {
        struct model model;

        model_init(&model, world, world % 2 == 0, (struct fault){FAULT_NONE, 0, 0});
        run(&model);
        for (uint32_t r = 0; r < world; r++) {
            CT_CHECK(model.job.pages[r].end_status == 1);
        }
        cut_check_silent(&model.job, "no fault");
        cut_fini(&model.job);
    }
}

/* Every fault of a world, one model each, run to its end. */
static void for_each_fault(uint32_t world, bool is_checked, void (*look)(struct model *model))
{
    for (int kind = FAULT_HOST; kind <= FAULT_KERNEL_OF_ONE; kind++) {
        uint32_t places = 1;

        for (uint32_t i = 0; i < places * world; i++) {
            struct model model;

            model_init(&model, world, is_checked,
                       (struct fault){(enum fault_kind)kind, i % world, i / world});
            places = place_count(&model, (enum fault_kind)kind);
            run(&model);
            look(&model);
            cut_fini(&model.job);
        }
    }
}

/* Whatever gets stuck, on whichever rank, is named: one finding, the right verdict and culprit. */
CT_TEST(monitor_device_model, names_whatever_gets_stuck)
{
    for (uint32_t world = 1; world <= 4; world++) {
        for_each_fault(world, false, check);
        for_each_fault(world, true, check);
    }
}

static void check_within_budget(struct model *model)
{
    for (uint32_t r = 0; r < model->world; r++) {
        cut_still(&model->job, r, CUT_LATE_MS - 1);
    }
    cut_check_silent(&model->job, "within the budget");
}

/* The same moments within the budget: no finding. */
CT_TEST(monitor_device_model, keeps_silent_within_the_budget)
{
    for_each_fault(3, false, check_within_budget);
    for_each_fault(3, true, check_within_budget);
}

/* Without words, a stuck kernel behind a wait, a collective that does not start and one that does
 * not end give the same finding; only the words distinguish them. */
CT_TEST(monitor_device_model, cannot_tell_them_apart_without_words)
{
    enum { WORLD = 3, RANK = 1, COLLECTIVE = 2 };
    /* Step 1, first bucket: its kernel is the first of backward, after that step's forward. */
    static const struct fault faults[] = {{FAULT_KERNEL, RANK, LAYERS + CUT_BUCKETS + 1 + LAYERS},
                                          {FAULT_BEFORE, RANK, COLLECTIVE},
                                          {FAULT_EVERYWHERE, RANK, COLLECTIVE}};
    enum { FAULT_COUNT = sizeof(faults) / sizeof(faults[0]) };
    struct harness_finding with[FAULT_COUNT];
    struct harness_finding without[FAULT_COUNT];

    for (size_t i = 0; i < FAULT_COUNT; i++) {
        struct model model;

        model_init(&model, WORLD, false, faults[i]);
        run(&model);
        check(&model);
        with[i] = model.job.findings.items[0];
        model.job.cut.progress = NULL;
        cut_analyse(&model.job);
        CT_REQUIRE(model.job.findings.count == 1);
        without[i] = model.job.findings.items[0];
        cut_fini(&model.job);
        for (size_t k = 0; k < i; k++) {
            CT_CHECK_STR(without[i].text, without[k].text);
            CT_CHECK_EQ_U64(without[i].verdict, without[k].verdict);
            CT_CHECK(with[i].verdict != with[k].verdict);
        }
    }
}
