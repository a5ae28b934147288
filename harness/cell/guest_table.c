/* What the ranks of a guest had come to when its record ended, for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/record/record.h"
#include "harness/watch/analyse.h"
#include "harness/watch/names.h"

enum { LAST_CALLS = 4 };

bool harness_stage_is_guest_record(const char *text)
{
    static const char word[] = "ddprove-guest-record ";

    return strncmp(text, word, sizeof word - 1) == 0;
}

static void add_call(const struct harness_watch_group *group, uint64_t seq,
                     const struct harness_watch_call *call, struct ddp_mem *mem,
                     struct ddp_text *out)
{
    struct ddp_text text;

    ddp_text_init(&text, mem);
    harness_watch_print_call(group, seq, call, &text);
    ddp_text_add(out, "%s, step %" PRIu32 "%s", ddp_text_str(&text), call->step,
                 call->is_done ? "" : ", not done");
    ddp_text_fini(&text);
}

/* The last calls of a rank in a communicator, the last one first. */
static void add_calls(const struct harness_watch_group *group, uint32_t rank, unsigned count,
                      struct ddp_mem *mem, struct ddp_text *out)
{
    const struct harness_watch_member *member = &group->members[rank];

    for (uint64_t i = 0; i < count && i < member->call_count; i++) {
        const uint64_t at = member->call_count - 1 - i;

        ddp_text_add(out, "          ");
        add_call(group, member->kept_seq + at, &member->calls[at], mem, out);
        ddp_text_add(out, "\n");
    }
}

/* The innermost calls of a rank of a hang, if they were taken. */
static void add_stack(const struct harness_cell *cell, const char *run_dir, uint32_t rank,
                      struct ddp_text *out)
{
    enum { LINES_MAX = 14 };
    const char *line;
    void *text = NULL;
    size_t size_bytes = 0;
    char name[32];

    (void)snprintf(name, sizeof name, "rank%" PRIu32 ".stack", rank);
    if (harness_stage_read(cell, run_dir, name, &text, &size_bytes, NULL) != DDP_OK) {
        return;
    }
    ddp_text_add(out, "        its stack (%s):\n", name);
    line = text;
    for (int i = 0; i < LINES_MAX && *line != '\0'; i++) {
        const size_t size = strcspn(line, "\n");

        ddp_text_add(out, "          ");
        ddp_text_add_bytes(out, line, size);
        ddp_text_add(out, "\n");
        line += size + (line[size] == '\n');
    }
}

static bool is_blamed(const struct harness_findings *findings, uint32_t rank)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (harness_rank_set_has(&findings->items[i].culprits, rank)) {
            return true;
        }
    }
    return false;
}

static void add_rank(const struct harness_watch *watch, uint32_t rank, unsigned calls,
                     struct ddp_mem *mem, struct ddp_text *out)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    uint32_t fired = 0;

    for (uint32_t f = 0; f < GUEST_FAULTS_MAX; f++) {
        fired += self->fired[f];
    }
    ddp_text_add(out, "      rank %" PRIu32 ": %s", rank, harness_watch_state_name(self->state));
    if (self->state == HARNESS_WATCH_EXITED && self->code >= 0) {
        ddp_text_add(out, " with code %d", self->code);
    } else if (self->state == HARNESS_WATCH_SIGNALED) {
        ddp_text_add(out, " by signal %d", self->code);
    }
    ddp_text_add(out, "%s, %" PRIu64 " steps begun",
                 !self->is_attached  ? ", never showed itself"
                 : self->is_detached ? ", had said that it was done"
                                     : "",
                 self->step_count);
    if (fired > 0) {
        ddp_text_add(out, ", %" PRIu32 " faults fired", fired);
    }
    ddp_text_add(out, "; last calls:\n");
    for (size_t g = 0; g < watch->group_count; g++) {
        add_calls(&watch->groups[g], rank, calls, mem, out);
    }
}

ddp_status harness_stage_print_guest(const struct harness_cell *cell, const char *run_dir,
                                     const char *text, size_t size_bytes,
                                     const struct harness_diagnosis_options *options,
                                     struct ddp_text *out, struct ddp_err *err)
{
    struct harness_watch_record record;

    DDP_TRY(harness_watch_record_parse(cell->mem, text, size_bytes, &record, err));
    ddp_text_add(out, "\n    the ranks when the record ended%s:\n",
                 record.is_ended ? ", after the job was ended for what had been found" : "");
    for (uint32_t r = 0; r < record.watch.world_size; r++) {
        add_rank(&record.watch, r, options->has_events ? LAST_CALLS : 1, cell->mem, out);
        if (options->has_events || is_blamed(&record.findings, r)) {
            add_stack(cell, run_dir, r, out);
        }
    }
    return DDP_OK;
}
