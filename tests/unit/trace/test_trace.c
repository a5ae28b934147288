/* The trace: what is printed reads back to the same trace, and damaged text is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/seam/access.h"
#include "ddpcore/seam/fault_point.h"
#include "harness/trace/event_format.h"
#include "harness/trace/trace.h"
#include "tests/ct.h"

static void add_event(struct harness_trace *trace, uint32_t rank, uint64_t time_ns,
                      enum ddp_event event, uint64_t a0, uint64_t a1)
{
    struct ddp_event_entry ring[1];

    memset(ring, 0, sizeof ring);
    ring[0].index = 1;
    ring[0].time_ns = time_ns;
    ring[0].step = 3;
    ring[0].micro = 1;
    ring[0].phase = DDP_PHASE_BACKWARD;
    ring[0].event = (uint8_t)event;
    ring[0].arg[0] = a0;
    ring[0].arg[1] = a1;
    CT_CHECK_OK(harness_trace_add_ring(trace, rank, ring, 1, 1));
}

/* More than a line of 4 KiB, or a word of bits, would hold. */
enum { PARAMS = 2000 };

static void make_trace(struct harness_trace *trace)
{
    const struct ddp_event_op op = {
        DDP_COLL_ALL_REDUCE, DDP_REDOP_SUM, DDP_DTYPE_F32, DDP_ROLE_BUCKET, 17, 0};
    struct harness_finding finding;
    struct ddp_mem_pool *pool;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    harness_trace_init(trace, ddp_mem_system(), 3, "sim");
    trace->launcher = "mpirun";
    trace->seed = 5;
    add_event(trace, 2, 50, DDP_EVENT_COLL_POST, 7, ddp_event_op_pack(&op));
    add_event(trace, 0, 50, DDP_EVENT_RANK_ERROR, (uint64_t)(int64_t)DDP_E_PEER_DIED,
              (uint64_t)(int64_t)-1);
    add_event(trace, 1, 20, DDP_EVENT_FAULT_FIRED, 0, DDP_FAULT_POINT_BUCKET_LAUNCH);
    add_event(trace, 1, 30, DDP_EVENT_GRAD_READY, 4, 0x0123456789abcdefu);
    harness_finding_init(&finding, ddp_mem_pool_mem(pool), HARNESS_VERDICT_CRASH_SIGNALED,
                         HARNESS_ORACLE_LAUNCHER, HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, 1);
    harness_rank_set_add(&finding.victims, 0);
    harness_rank_set_add(&finding.victims, 2);
    finding.op.is_set = true;
    finding.op.bucket = 1;
    finding.op.seq = 7;
    finding.op.role = DDP_ROLE_BUCKET;
    finding.op.elem_count = 99;
    for (uint32_t param = 2; param < 2 + PARAMS; param++) {
        harness_finding_add_param(&finding, param);
    }
    finding.step = 3;
    finding.phase = DDP_PHASE_BACKWARD;
    (void)snprintf(finding.text, sizeof finding.text,
                   "rank 1 was killed by signal 9 (x=y), text=odd");
    CT_CHECK_OK(harness_trace_add_diagnosis(trace, 60, &finding));
    ddp_mem_pool_destroy(pool);
    trace->ends[0].how = HARNESS_END_EXITED;
    trace->ends[0].code = 1;
    trace->ends[1].how = HARNESS_END_SIGNALED;
    trace->ends[1].code = 9;
    trace->ends[2].how = HARNESS_END_REAPED;
    trace->ends[2].is_stopped = true;
    trace->leak_fd = true;
    (void)snprintf(trace->leak_text, sizeof trace->leak_text, "descriptor 7");
    trace->start_ns = 10;
    trace->end_ns = 70;
    harness_trace_merge(trace);
}

static char *print(const struct harness_trace *trace)
{
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_trace_print(trace, &text);
    CT_CHECK(!text.is_failed);
    return text.data;
}

/* Events are ordered by time, then rank. */
CT_TEST(trace, merge_orders_events)
{
    struct harness_trace trace;

    make_trace(&trace);
    CT_REQUIRE(trace.event_count == 4);
    CT_CHECK_EQ_U64(trace.events[0].entry.time_ns, 20);
    CT_CHECK_EQ_U64(trace.events[1].entry.time_ns, 30);
    CT_CHECK_EQ_U64(trace.events[2].rank, 0);
    CT_CHECK_EQ_U64(trace.events[3].rank, 2);
    harness_trace_fini(&trace);
}

/* Print, parse, print again: the same bytes, so nothing is lost on the way. */
CT_TEST(trace, print_parse_round_trip)
{
    struct harness_trace trace;
    struct harness_trace again;
    struct ddp_err err = {{0}};
    char *first;
    char *second;

    make_trace(&trace);
    first = print(&trace);
    if (harness_trace_parse(ddp_mem_system(), first, &again, &err) != DDP_OK) {
        CT_FAIL("%s in\n%s", err.text, first);
        return;
    }
    second = print(&again);
    CT_CHECK_STR(first, second);
    CT_CHECK_EQ_U64(again.events[3].entry.arg[1], trace.events[3].entry.arg[1]);
    CT_CHECK_EQ_U64(again.diagnoses.items[0].params.count, PARAMS);
    CT_CHECK_STR(again.diagnoses.items[0].text, trace.diagnoses.items[0].text);
    CT_CHECK_EQ_U64(again.diagnoses.items[0].oracle, HARNESS_ORACLE_LAUNCHER);
    CT_CHECK_STR(again.leak_text, "descriptor 7");
    ddp_mem_free(ddp_mem_system(), first);
    ddp_mem_free(ddp_mem_system(), second);
    harness_trace_fini(&again);
    harness_trace_fini(&trace);
}

/* A value that an argument of this form can have. */
static uint64_t any_value(const char *format, uint64_t number)
{
    const struct ddp_event_op op = {
        DDP_COLL_BROADCAST, DDP_REDOP_MAX, DDP_DTYPE_BF16, DDP_ROLE_VERIFY, 3, 2};

    switch (format[0]) {
    case 'i':
    case 's':
        return (uint64_t) - (int64_t)(1 + number % 20);
    case 'o':
        return ddp_event_op_pack(&op);
    case 'p':
        return number % DDP_FAULT_POINT_COUNT;
    case 'a':
        return number % DDP_ACCESS_COUNT;
    case 'k':
        return number % DDP_RANGE_COUNT;
    case 'b':
        return number % 2;
    case 'w':
        return UINT32_MAX - number;
    default:
        return strcmp(format, "u:pid") == 0 ? 0 : UINT64_MAX - number;
    }
}

/* Every kind of event, with every value that its arguments' forms have a name for. */
CT_TEST(trace, every_event_round_trips)
{
    struct harness_trace trace;
    struct harness_trace again;
    struct ddp_err err = {{0}};
    char *text;

    harness_trace_init(&trace, ddp_mem_system(), 1, "proc");
    for (uint64_t number = 0; number < 5; number++) {
        for (unsigned event = 0; event < DDP_EVENT_COUNT; event++) {
            struct ddp_event_entry entry = {.index = 1, .event = (uint8_t)event};

            for (unsigned i = 0; i < 5 && ddp_event_arg((enum ddp_event)event, i)[0] != '\0'; i++) {
                entry.arg[i] = any_value(ddp_event_arg((enum ddp_event)event, i), number + i);
            }
            CT_CHECK_OK(harness_trace_add_ring(&trace, 0, &entry, 1, 1));
            trace.events[trace.event_count - 1].entry.index = trace.event_count;
        }
    }
    harness_trace_merge(&trace);
    text = print(&trace);
    if (harness_trace_parse(ddp_mem_system(), text, &again, &err) != DDP_OK) {
        CT_FAIL("%s in\n%s", err.text, text);
        return;
    }
    CT_CHECK_EQ_U64(again.event_count, trace.event_count);
    for (size_t i = 0; i < again.event_count; i++) {
        CT_CHECK_EQ_U64(again.events[i].entry.event, trace.events[i].entry.event);
        CT_CHECK_BYTES(again.events[i].entry.arg, trace.events[i].entry.arg,
                       sizeof trace.events[i].entry.arg);
    }
    ddp_mem_free(ddp_mem_system(), text);
    harness_trace_fini(&again);
    harness_trace_fini(&trace);
}

/* A trace cut anywhere is refused: its seal is missing or a line is malformed. */
CT_TEST(trace, every_truncation_is_refused)
{
    struct harness_trace trace;
    struct harness_trace again;
    size_t refused = 0;
    size_t size;
    char *text;

    make_trace(&trace);
    text = print(&trace);
    size = strlen(text);
    /* The last newline is no loss. */
    for (size_t cut = 0; cut + 1 < size; cut++) {
        char *copy = strndup(text, cut);

        if (harness_trace_parse(ddp_mem_system(), copy, &again, NULL) == DDP_OK) {
            CT_FAIL("a trace cut at byte %zu of %zu was accepted", cut, size);
            harness_trace_fini(&again);
        } else {
            refused++;
        }
        free(copy);
    }
    CT_CHECK(refused > 100);
    ddp_mem_free(ddp_mem_system(), text);
    harness_trace_fini(&trace);
}

/* The lines of a text: where each begins, and where the last one ends. */
enum { LINES_MAX = 64 };
static size_t find_lines(const char *text, const char *begin[LINES_MAX + 1])
{
    size_t count = 0;

    begin[0] = text;
    while (begin[count][0] != '\0') {
        DDP_ASSERT(count < LINES_MAX);
        begin[count + 1] = strchr(begin[count], '\n') + 1;
        count++;
    }
    return count;
}

enum damage { DELETED, DOUBLED, SWAPPED, ALTERED, DAMAGE_COUNT };

/* The text with line `at` damaged. */
static char *damage_line(const char *const *begin, size_t count, size_t at, enum damage damage)
{
    size_t size = (size_t)(begin[count] - begin[0]);
    size_t length = (size_t)(begin[at + 1] - begin[at]);
    size_t before = (size_t)(begin[at] - begin[0]);
    char *out = calloc(2 * size + 1, 1);

    memcpy(out, begin[0], before);
    switch (damage) {
    case DELETED:
        memcpy(out + before, begin[at + 1], size - before - length);
        break;
    case DOUBLED:
        memcpy(out + before, begin[at], length);
        memcpy(out + before + length, begin[at], size - before);
        break;
    case SWAPPED:
        if (at + 1 < count) {
            size_t next = (size_t)(begin[at + 2] - begin[at + 1]);

            memcpy(out + before, begin[at + 1], next);
            memcpy(out + before + next, begin[at], length);
            memcpy(out + before + next + length, begin[at + 2], size - before - next - length);
        }
        break;
    default: /* its last character is another one */
        memcpy(out + before, begin[at], size - before);
        out[before + length - 2] ^= 1;
        break;
    }
    return out;
}

/* Whatever happens to whichever line: the trace is refused. */
CT_TEST(trace, every_damaged_line_is_refused)
{
    const char *begin[LINES_MAX + 1];
    struct harness_trace trace;
    struct harness_trace again;
    size_t count;
    char *text;
    char *line;

    make_trace(&trace);
    add_event(&trace, 1, 80, DDP_EVENT_LOSS, 1, 0);
    add_event(&trace, 1, 90, DDP_EVENT_LOSS, 2, 0);
    trace.files[HARNESS_FILES_PLAN] = (struct harness_trace_files){1, 10, 7};
    harness_trace_merge(&trace);
    text = print(&trace);
    line = strstr(text, "# "); /* a comment may go */
    CT_REQUIRE(line != NULL);
    memmove(line, strchr(line, '\n') + 1, strlen(strchr(line, '\n')));
    count = find_lines(text, begin);
    CT_CHECK(count > 10);
    for (size_t at = 0; at < count; at++) {
        for (unsigned damage = 0; damage < DAMAGE_COUNT; damage++) {
            char *copy = damage_line(begin, count, at, (enum damage)damage);
            ddp_status status = harness_trace_parse(ddp_mem_system(), copy, &again, NULL);

            if (status == DDP_OK) {
                CT_FAIL("damage %u of line %zu was accepted:\n%s", damage, at + 1, copy);
                harness_trace_fini(&again);
            }
            free(copy);
        }
    }
    ddp_mem_free(ddp_mem_system(), text);
    harness_trace_fini(&trace);
}

/* What is missing is said, by rank and number. */
CT_TEST(trace, a_missing_event_is_named)
{
    struct harness_trace trace;
    struct harness_trace again;
    struct ddp_err err = {{0}};
    char *text;
    char *line;

    make_trace(&trace);
    text = print(&trace);
    line = strstr(text, "          20 r1#1");
    CT_REQUIRE(line != NULL);
    memmove(line, strchr(line, '\n') + 1, strlen(strchr(line, '\n')));
    CT_CHECK_STATUS(harness_trace_parse(ddp_mem_system(), text, &again, &err), DDP_E_CORRUPT);
    CT_CHECK_STR(err.text, "line 3 is event 2 of rank 1 where event 1 is due: lines are missing, "
                           "doubled or out of order");
    ddp_mem_free(ddp_mem_system(), text);
    harness_trace_fini(&trace);
}

/* Bad lines are refused with their place. */
CT_TEST(trace, bad_lines_are_refused)
{
    static const char *const bad[] = {
        "",
        "nonsense\n",
        "ddprove-trace 1 driver=sim world=1 launcher=own seed=0\n",
        "ddprove-trace 2 driver=sim world=0 launcher=own seed=0\n",
        "ddprove-trace 2 driver=sim world=1\n",
        "ddprove-trace 2 driver=guess world=1 launcher=own seed=0\n",
        "ddprove-trace 2 driver=proc world=1 launcher=srun seed=0\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=-1\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 r9#1 0.0 data loss "
        "bits=0000000000000000\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 r0#1 0 data loss "
        "bits=0000000000000000\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 r0#1 0.0 lunch loss "
        "bits=0000000000000000\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 r0#1 0.0 data toss "
        "bits=0000000000000000\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 r0#1 0.0 data loss bits=12\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 r0#1 0.0 data device.name "
        "kind=nest index=0 "
        "allocation=0 offset=0 bytes=4\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 r0#1 0.0 data device.access "
        "stream=0 allocation=0 "
        "offset=0 bytes=4 access=3\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 r0 0.0 data loss "
        "bits=0000000000000000\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h end rank=0 how=exited code=0 "
        "stopped=0\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h files name=letters count=1 "
        "bytes=1 digest=0000000000000000\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h seal\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h end rank=3 how=exited code=0 "
        "stopped=0\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h end rank=0 how=bored code=0 "
        "stopped=0\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h diagnosis verdict=NO.SUCH "
        "oracle=monitor "
        "mode=provable phase=-\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h diagnosis verdict=SLOW.DATA "
        "oracle=monitor "
        "mode=budget "
        "phase=-\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h diagnosis verdict=HANG.HOST "
        "oracle=monitor "
        "mode=guess "
        "phase=-\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h diagnosis verdict=HANG.HOST "
        "oracle=guess "
        "mode=budget "
        "phase=-\n",
        "ddprove-trace 2 driver=sim world=1 launcher=own seed=0\n 1 h finish start=0 lost=0\n",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct harness_trace trace;
        struct ddp_err err = {{0}};

        CT_CHECK_STATUS(harness_trace_parse(ddp_mem_system(), bad[i], &trace, &err), DDP_E_PARSE);
        CT_CHECK(strchr(err.text, ':') != NULL);
    }
}

/* Firings are counted per fault, and the first one's time is kept. */
CT_TEST(trace, counts_firings)
{
    struct harness_trace trace;
    uint32_t count = 9;

    make_trace(&trace);
    CT_CHECK_EQ_U64(harness_trace_fired_ns(&trace, 0, &count), 20);
    CT_CHECK_EQ_U64(count, 1);
    CT_CHECK_EQ_U64(harness_trace_fired_ns(&trace, 1, &count), 0);
    CT_CHECK_EQ_U64(count, 0);
    harness_trace_fini(&trace);
}

/* An entry that no rank writes on purpose is counted as lost. */
CT_TEST(trace, meaningless_entries_are_counted)
{
    struct harness_trace trace;
    struct ddp_event_entry ring[7];

    memset(ring, 0, sizeof ring);
    for (uint32_t i = 0; i < 7; i++) {
        ring[i].index = i + 1;
        ring[i].event = DDP_EVENT_LOSS;
        ring[i].arg[0] = 7;
    }
    ring[0].event = DDP_EVENT_COUNT;
    ring[2].phase = DDP_PHASE_COUNT;
    ring[3].arg[1] = 1; /* a loss has one argument */
    ring[4].arg[0] = (uint64_t)UINT32_MAX + 1;
    ring[5].event = DDP_EVENT_GRAD_FINAL;
    ring[5].arg[2] = 2; /* neither that there is a gradient nor that there is none */
    ring[6].event = DDP_EVENT_PARAM_UPDATED; /* without a hash */
    harness_trace_init(&trace, ddp_mem_system(), 1, "sim");
    CT_CHECK_OK(harness_trace_add_ring(&trace, 0, ring, 7, 7));
    CT_CHECK_EQ_U64(trace.lost_count, 6);
    CT_CHECK_EQ_U64(trace.event_count, 1);
    harness_trace_fini(&trace);
}

/* A diagnosis that calls a rank dead which ended by itself blames nobody. */
CT_TEST(trace, a_diagnosis_is_refuted_by_ends)
{
    static const struct {
        enum harness_verdict verdict;
        enum harness_end_how how;
        bool is_kept;
    } cases[] = {
        {HARNESS_VERDICT_CRASH_SIGNALED, HARNESS_END_SIGNALED, true},
        {HARNESS_VERDICT_CRASH_SIGNALED, HARNESS_END_REAPED, true},
        {HARNESS_VERDICT_CRASH_SIGNALED, HARNESS_END_EXITED, false},
        {HARNESS_VERDICT_CRASH_SIGNALED, HARNESS_END_NONE, false},
        {HARNESS_VERDICT_CRASH_EXITED, HARNESS_END_EXITED, true},
        {HARNESS_VERDICT_CRASH_EXITED, HARNESS_END_SIGNALED, false},
        {HARNESS_VERDICT_HANG_STOPPED, HARNESS_END_EXITED, true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct harness_trace trace;

        make_trace(&trace);
        trace.diagnoses.items[0].verdict = cases[i].verdict;
        trace.ends[1].how = cases[i].how;
        harness_trace_refute(&trace);
        CT_CHECK_EQ_U64(trace.diagnoses.count, cases[i].is_kept ? 1 : 0);
        CT_CHECK_EQ_U64(trace.refuted_count, cases[i].is_kept ? 0 : 1);
        harness_trace_fini(&trace);
    }
}

/* An entry that was overwritten is counted as lost, not read. */
CT_TEST(trace, lost_entries_are_counted)
{
    struct harness_trace trace;
    struct ddp_event_entry ring[2];

    memset(ring, 0, sizeof ring);
    ring[0].index = 3; /* entry 1 was overwritten by entry 3 */
    ring[1].index = 2;
    harness_trace_init(&trace, ddp_mem_system(), 1, "sim");
    CT_CHECK_OK(harness_trace_add_ring(&trace, 0, ring, 2, 3));
    CT_CHECK_EQ_U64(trace.lost_count, 1);
    CT_CHECK_EQ_U64(trace.event_count, 2);
    harness_trace_fini(&trace);
}

CT_TEST(trace, a_status_without_a_name_is_a_number)
{
    char data[64];
    struct ddp_text text;
    uint64_t value = 0;

    ddp_text_init_fixed(&text, data, sizeof data);
    harness_event_arg_print("s:status", (uint32_t)-77777, &text);
    CT_CHECK_STR(ddp_text_str(&text), " status=-77777");
    CT_REQUIRE_OK(harness_event_arg_parse("s:status", "-77777", &value));
    CT_CHECK((int32_t)(uint32_t)value == -77777);
    CT_CHECK(harness_event_arg_parse("s:status", "0", &value) != DDP_OK); /* it has one */
    CT_CHECK(harness_event_arg_parse("s:status", "9999999999", &value) != DDP_OK);
    CT_CHECK(harness_event_arg_parse("s:status", "ODD", &value) != DDP_OK);
}
