/* The trace as text. Stable column order, no process ids outside `#` lines, hashes in hex. */
#include <inttypes.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/trace/event_format.h"
#include "harness/trace/trace.h"

const char *harness_files_name(enum harness_files files)
{
    static const char *const names[HARNESS_FILES_COUNT] = {
        "plan", "program", "schedules", "trees", "checkpoint", "given", "survivors"};

    DDP_ASSERT((unsigned)files < HARNESS_FILES_COUNT);
    return names[files];
}

const char *const harness_end_names[HARNESS_END_HOW_COUNT] = {"none", "exited", "signaled",
                                                              "reaped"};

static size_t digit_count(uint64_t value)
{
    size_t count = 1;

    for (; value >= 10; value /= 10) {
        count++;
    }
    return count;
}

/* " r1#57  ": the rank, and which of its events this is. */
static void print_number(const struct harness_trace_event *event, struct ddp_text *out)
{
    size_t width = digit_count(event->rank) + digit_count(event->entry.index);

    ddp_text_add_str(out, " r", 0);
    ddp_text_add_u64(out, event->rank, 0);
    ddp_text_add_str(out, "#", 0);
    ddp_text_add_u64(out, event->entry.index, 0);
    ddp_text_add_str(out, " ", width < 6 ? 6 - width : 0);
}

void harness_trace_print_event(const struct harness_trace_event *event, struct ddp_text *out)
{
    const struct ddp_event_entry *entry = &event->entry;
    const enum ddp_event id = (enum ddp_event)entry->event;

    ddp_text_add_u64(out, entry->time_ns, 12);
    print_number(event, out);
    ddp_text_add_u64(out, entry->step, 3);
    ddp_text_add_str(out, ".", 0);
    ddp_text_add_u64(out, entry->micro, 0);
    ddp_text_add_str(out, " ", 0);
    ddp_text_add_str(out, ddp_phase_name((enum ddp_phase)entry->phase), 10);
    ddp_text_add_str(out, " ", 0);
    ddp_text_add_str(out, ddp_event_name(id), 16);
    for (unsigned i = 0; ddp_event_arg(id, i)[0] != '\0'; i++) {
        const char *format = ddp_event_arg(id, i);
        /* A process id differs from run to run. */
        bool is_pid = strcmp(format, "u:pid") == 0;

        harness_event_arg_print(format, is_pid ? 0 : entry->arg[i], out);
    }
    ddp_text_add(out, "\n");
}

static void print_set(const char *name, const struct harness_rank_set *set, struct ddp_text *out)
{
    ddp_text_add(out, " %s=", name);
    for (uint32_t i = 0; i < harness_rank_set_count(set); i++) {
        ddp_text_add(out, "%s%" PRIu32, i > 0 ? "," : "", harness_rank_set_at(set, i));
    }
}

/* A word, whatever the program called its communicator: a byte that would end it is %XX. */
static void print_group(const char *name, struct ddp_text *out)
{
    ddp_text_add(out, " group=");
    for (const char *at = name; *at != '\0'; at++) {
        const unsigned byte = (unsigned char)*at;

        ddp_text_add(out, byte <= ' ' || byte == '%' || byte == 0x7f ? "%%%02X" : "%c", byte);
    }
}

void harness_trace_print_diagnosis(uint64_t time_ns, const struct harness_finding *finding,
                                   struct ddp_text *out)
{
    ddp_text_add(out, "%12" PRIu64 " h diagnosis verdict=%s oracle=%s mode=%s", time_ns,
                 harness_verdict_name(finding->verdict), harness_oracle_name(finding->oracle),
                 harness_mode_name(finding->mode));
    print_set("culprit", &finding->culprits, out);
    print_set("victim", &finding->victims, out);
    ddp_text_add(out, " seq=%" PRIu64 " kind=%s role=%s bucket=%" PRId32 " count=%" PRIu64,
                 finding->op.seq, finding->op.is_set ? ddp_coll_kind_name(finding->op.kind) : "-",
                 finding->op.is_set ? ddp_coll_role_name(finding->op.role) : "-",
                 finding->op.bucket, finding->op.elem_count);
    if (finding->guest.comm[0] != '\0') {
        print_group(finding->guest.comm, out);
    }
    ddp_text_add(out, " params=");
    for (uint32_t i = 0; i < finding->params.count; i++) {
        ddp_text_add(out, "%s%" PRIu32, i > 0 ? "," : "", harness_list_at(&finding->params, i));
    }
    ddp_text_add(out,
                 " step=%" PRId32 " micro=%" PRId32 " phase=%s detect=%" PRId64
                 " attribute=%" PRId64 " text=",
                 finding->step, finding->micro,
                 finding->phase >= 0 ? ddp_phase_name((enum ddp_phase)finding->phase) : "-",
                 finding->detect_ns, finding->attribute_ns);
    /* Free text comes last and runs to the end of its line. */
    for (const char *c = finding->text; *c != '\0'; c++) {
        ddp_text_add(out, "%c", *c == '\n' ? ' ' : *c);
    }
    ddp_text_add(out, "\n");
}

/* The digest of what was printed since `from`, line by line, goes on. */
static void seal(const struct ddp_text *out, size_t from, uint64_t *digest)
{
    while (from < out->size_bytes) {
        const char *newline = memchr(out->data + from, '\n', out->size_bytes - from);
        size_t size_bytes =
            newline == NULL ? out->size_bytes - from : (size_t)(newline - (out->data + from));

        if (size_bytes > 0 && out->data[from] != '#') {
            *digest = ddp_hash_bytes(out->data + from, size_bytes, *digest);
        }
        from += size_bytes + 1;
    }
}

static void print_header(const struct harness_trace *trace, struct ddp_text *out)
{
    ddp_text_add(out, "ddprove-trace 2 driver=%s world=%" PRIu32 " launcher=%s seed=%" PRIu64 "\n",
                 trace->driver, trace->world_size, trace->launcher, trace->seed);
    ddp_text_add(out, "# time_ns rank step.micro phase event arguments\n");
}

static void print_ends(const struct harness_trace *trace, const uint64_t *digest,
                       struct ddp_text *out)
{
    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        const struct harness_rank_end *end = &trace->ends[rank];

        ddp_text_add(out,
                     "%12" PRIu64 " h end rank=%" PRIu32
                     " how=%s code=%d stopped=%d events=%" PRIu64 " digest=%016" PRIx64 "\n",
                     end->time_ns, rank, harness_end_names[end->how], end->code,
                     end->is_stopped ? 1 : 0, end->event_count, digest[rank]);
    }
}

/* What the harness itself has to say: everything behind the ranks' events. */
static void print_own(const struct harness_trace *trace, struct ddp_text *out)
{
    for (size_t i = 0; i < trace->diagnoses.count; i++) {
        harness_trace_print_diagnosis(trace->diagnosis_time_ns[i], &trace->diagnoses.items[i], out);
    }
    for (unsigned i = 0; i < HARNESS_FILES_COUNT; i++) {
        const struct harness_trace_files *files = &trace->files[i];

        if (files->count > 0) {
            ddp_text_add(out,
                         "%12" PRIu64 " h files name=%s count=%" PRIu64 " bytes=%" PRIu64
                         " digest=%016" PRIx64 "\n",
                         trace->end_ns, harness_files_name((enum harness_files)i), files->count,
                         files->size_bytes, files->digest);
        }
    }
    ddp_text_add(out,
                 "%12" PRIu64 " h finish start=%" PRIu64 " lost=%" PRIu64
                 " leak_process=%d leak_shm=%d leak_fd=%d text=%s\n",
                 trace->end_ns, trace->start_ns, trace->lost_count, trace->leak_process ? 1 : 0,
                 trace->leak_shm ? 1 : 0, trace->leak_fd ? 1 : 0, trace->leak_text);
}

void harness_trace_print(const struct harness_trace *trace, struct ddp_text *out)
{
    uint64_t *digest = ddp_mem_array(out->mem, trace->world_size, sizeof *digest);
    uint64_t own_digest = 0;
    size_t from = out->size_bytes;

    if (digest == NULL) {
        out->is_failed = true;
        return;
    }
    print_header(trace, out);
    seal(out, from, &own_digest);
    for (size_t i = 0; i < trace->event_count; i++) {
        from = out->size_bytes;
        harness_trace_print_event(&trace->events[i], out);
        seal(out, from, &digest[trace->events[i].rank]);
    }
    from = out->size_bytes;
    print_ends(trace, digest, out);
    print_own(trace, out);
    seal(out, from, &own_digest);
    ddp_text_add(out, "%12" PRIu64 " h seal digest=%016" PRIx64 "\n", trace->end_ns, own_digest);
    ddp_mem_free(out->mem, digest);
}

void harness_trace_print_ranks(const struct harness_trace *trace, struct ddp_text *out)
{
    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        print_header(trace, &out[rank]);
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct harness_trace_event *event = &trace->events[i];

        DDP_ASSERT(event->rank < trace->world_size);
        harness_trace_print_event(event, &out[event->rank]);
    }
}
