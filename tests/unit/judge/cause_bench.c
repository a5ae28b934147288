/* The bench for causes. */
#include "tests/unit/judge/cause_bench.h"

#include <string.h>

#include "tests/ct.h"

static void add_event(struct cause_bench *f, uint32_t rank, uint32_t step, enum ddp_event event,
                      uint64_t arg0, uint64_t arg1, uint64_t arg3)
{
    struct harness_trace_event *out = &f->events[f->trace.event_count++];

    CT_REQUIRE(f->trace.event_count <= EVENT_MAX);
    out->rank = rank;
    out->entry.step = step;
    out->entry.event = event;
    out->entry.arg[0] = arg0;
    out->entry.arg[1] = arg1;
    out->entry.arg[3] = arg3;
}

static void set_program(struct cause_bench *f)
{
    static uint32_t params[2][2] = {{3, 2}, {1, 0}};
    static const struct harness_op ops[OP_COUNT] = {
        {.seq = 8, .step = 3, .role = DDP_ROLE_JOIN_PRESENT},
        {.seq = 9, .step = 3, .role = DDP_ROLE_BUFFER_SYNC, .kind = DDP_COLL_BROADCAST},
        {.seq = 10, .step = 3, .role = DDP_ROLE_BUCKET, .index = 0},
        {.seq = 11, .step = 3, .role = DDP_ROLE_BUCKET, .index = 1},
        {.seq = 12, .step = 4, .role = DDP_ROLE_BUCKET, .index = 0},
        {.seq = 13, .step = 4, .role = DDP_ROLE_BUCKET, .index = 1},
    };

    memcpy(f->ops, ops, sizeof ops);
    for (uint32_t b = 0; b < 2; b++) {
        f->buckets[b].params = params[b];
        f->buckets[b].param_count = 2;
        f->buckets[b].elem_count = b == 0 ? 1056 : 2080;
    }
    f->program.ops = f->ops;
    f->program.op_count = OP_COUNT;
    f->program.first.items = f->buckets;
    f->program.first.count = 2;
}

static void set_trace(struct cause_bench *f)
{
    f->trace.world_size = WORLD;
    f->trace.events = f->events;
    for (uint32_t r = 0; r < WORLD; r++) {
        uint64_t last = r == 1 ? 11 : OPEN_SEQ;
        uint64_t done = r == 1 ? 10 : r == 3 ? OPEN_SEQ : 11;

        for (uint64_t seq = FIRST_SEQ; seq <= last; seq++) {
            const struct harness_op *op = &f->ops[seq - FIRST_SEQ];
            const struct ddp_event_op posted = {
                .kind = op->kind, .role = op->role, .index = op->index};
            uint64_t packed = ddp_event_op_pack(&posted);

            add_event(f, r, (uint32_t)op->step, DDP_EVENT_COLL_POST, seq, packed, 0);
            if (seq <= done) {
                add_event(f, r, (uint32_t)op->step, DDP_EVENT_COLL_DONE, seq, packed, DDP_OK);
            }
        }
        if (r != 1) {
            add_event(f, r, 3, DDP_EVENT_LOSS, 0, 0, 0);
            add_event(f, r, 3, DDP_EVENT_GRAD_FINAL, 0, 1, 1);
        }
        if (r == 2) {
            add_event(f, r, 4, DDP_EVENT_DATA_BATCH, 0, 0, 0);
        }
    }
}

void cause_bench_init(struct cause_bench *f)
{
    memset(f, 0, sizeof *f);
    CT_CHECK_OK(ddp_mem_pool_create(&f->pool));
    f->mem = ddp_mem_pool_mem(f->pool);
    set_program(f);
    set_trace(f);
    CT_CHECK_OK(harness_paths_open(f->mem, &f->plan, &f->program, &f->trace, &f->paths));
}

void cause_bench_fini(struct cause_bench *f)
{
    harness_paths_close(&f->paths);
    ddp_mem_pool_destroy(f->pool);
}

struct harness_finding cause_bench_make(const struct cause_bench *f, const struct cause_spec *spec)
{
    struct harness_finding finding;

    harness_finding_init(&finding, f->mem, spec->verdict, spec->oracle, spec->mode);
    for (uint32_t n = 0; n < 32; n++) {
        if (spec->ranks & BIT(n)) {
            harness_rank_set_add(&finding.culprits, n);
        }
        if (spec->victims & BIT(n)) {
            harness_rank_set_add(&finding.victims, n);
        }
        if (spec->params & BIT(n)) {
            harness_finding_add_param(&finding, n);
        }
    }
    finding.is_of_algorithm = spec->oracle == HARNESS_ORACLE_SCHEDULE && spec->ranks == 0;
    finding.step = spec->step;
    finding.status = spec->status;
    if (spec->op.is_set) {
        finding.op = spec->op;
    }
    finding.stage = spec->stage == HARNESS_STAGE_DATA ? -1 : (int32_t)spec->stage;
    return finding;
}

void cause_bench_check(const struct cause_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cause_bench f;
        struct harness_finding a;
        struct harness_finding b;
        const char *words;

        cause_bench_init(&f);
        a = cause_bench_make(&f, &rows[i].a);
        b = cause_bench_make(&f, &rows[i].b);
        words = harness_cause_of(&f.paths, &a, &b);
        if ((words == NULL) != (rows[i].words == NULL) ||
            (words != NULL && strstr(words, rows[i].words) == NULL)) {
            CT_FAIL("%s: %s, expected %s", rows[i].name, words == NULL ? "no cause" : words,
                    rows[i].words == NULL ? "no cause" : rows[i].words);
        }
        CT_CHECK(words == NULL || harness_cause_of(&f.paths, &b, &a) == NULL);
        cause_bench_fini(&f);
    }
}
