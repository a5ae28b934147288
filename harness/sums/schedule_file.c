/* Purpose: read what ranks wrote down of their schedules into sets.
 * Idea: a file holds one schedule behind the other, in the order in which they were first used, and
 * a line "end" closes each one. What has none is the last, and was being written when its rank died
 * or its disk was full: it was never used, and is left out. */
#include <string.h>

#include "harness/sums/schedule_set.h"
#include "harness/sums/schedule_text.h"

/* Where the line "end" begins; NULL: there is none. */
static const char *find_end(const char *text)
{
    const char *line = text;

    while (line != NULL && strncmp(line, "end\n", 4) != 0) {
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return line;
}

/* A schedule that a rank forgot and made again is there twice. One in place takes the place of one
 * that is not, and the other way round: the sets do not tell them apart, and what they add up is
 * the same. Any other is a second one of the rank. */
static ddp_status take_schedule(struct harness_schedules *schedules,
                                struct harness_schedule *schedule, struct ddp_err *err)
{
    struct harness_schedule *known = harness_schedules_member(schedules, schedule);

    if (known == NULL) {
        return harness_schedules_add(schedules, schedule, err);
    }
    if (known->is_in_place == schedule->is_in_place &&
        !harness_schedule_is_equal(known, schedule)) {
        return ddp_err_set(err, DDP_E_INVALID, "rank %u has two different schedules for it",
                           schedule->rank);
    }
    harness_schedule_fini(known);
    *known = *schedule;
    return DDP_OK;
}

static ddp_status read_schedule(struct harness_schedules *schedules, const char *text,
                                size_t size_bytes, struct ddp_err *err)
{
    struct harness_schedule schedule;
    char *copy = ddp_mem_array(schedules->mem, size_bytes + 1, 1);
    ddp_status status;

    if (copy == NULL) {
        return DDP_E_NOMEM;
    }
    memcpy(copy, text, size_bytes);
    status = harness_schedule_parse(schedules->mem, copy, &schedule, err);
    ddp_mem_free(schedules->mem, copy);
    DDP_TRY(status);
    status = take_schedule(schedules, &schedule, err);
    if (status != DDP_OK) {
        harness_schedule_fini(&schedule);
    }
    return status;
}

ddp_status harness_schedules_read(struct harness_schedules *schedules, const char *text,
                                  struct ddp_err *err)
{
    const char *end;

    for (size_t number = 1; (end = find_end(text)) != NULL; number++) {
        ddp_status status = read_schedule(schedules, text, (size_t)(end - text), err);

        if (status != DDP_OK) {
            return ddp_err_wrap(err, status, "schedule %zu", number);
        }
        text = end + 4;
    }
    return DDP_OK;
}

static ddp_status take_text(void *context, const char *text, struct ddp_err *err)
{
    return harness_schedules_read(context, text, err);
}

ddp_status harness_schedules_load(struct harness_schedules *schedules, struct ddp_files *files,
                                  const char *folder, struct ddp_err *err)
{
    DDP_TRY(ddp_files_each_text(files, folder, ".txt", schedules->mem, take_text, schedules, err));
    return harness_schedules_order(schedules);
}
