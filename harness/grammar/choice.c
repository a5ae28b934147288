/* Choices: keys of the job that are a bool or one of a list of names. They are drawn as their row
 * of key.def says, so that a new one is part of campaigns without a line here. */
#include <string.h>

#include "harness/grammar/draw.h"

/* The struct that keeps a section of the job; NULL: its keys are no choices of the job. */
static void *kept_of(struct harness_plan *plan, enum harness_section section)
{
    switch (section) {
    case HARNESS_SECTION_JOB:
        return &plan->job;
    case HARNESS_SECTION_OPTIMIZER:
        return &plan->job.optimizer;
    case HARNESS_SECTION_JOIN:
        return &plan->job.join;
    case HARNESS_SECTION_MIXED:
        return &plan->job.mixed_precision;
    case HARNESS_SECTION_RESTORE:
        return &plan->restore;
    default:
        return NULL;
    }
}

static size_t count_names(enum harness_names list)
{
    size_t count = 0;

    while (harness_names_at(list, count, NULL) != NULL) {
        count++;
    }
    return count;
}

bool harness_draw_is_choice(const struct harness_key *key)
{
    struct harness_plan plan;

    /* What means something beside one choice alone is drawn with that choice, if at all. */
    if (kept_of(&plan, key->section) == NULL || harness_key_is_chosen(key)) {
        return false;
    }
    return key->type == HARNESS_KEY_BOOL ||
           (key->type == HARNESS_KEY_NAME && count_names((enum harness_names)key->of) > 1);
}

void harness_draw_choice(struct harness_draw *draw, const struct harness_key *key)
{
    void *member = (char *)kept_of(draw->plan, key->section) + key->offset;
    int value = 0;

    DDP_ASSERT(harness_draw_is_choice(key));
    if (key->type == HARNESS_KEY_BOOL) {
        *(bool *)member = harness_draw_chance(draw, 50);
        return;
    }
    (void)harness_names_at((enum harness_names)key->of,
                           harness_draw_below(draw, count_names((enum harness_names)key->of)),
                           &value);
    if (key->size_bytes == sizeof(bool)) {
        *(bool *)member = value != 0;
    } else {
        DDP_ASSERT(key->size_bytes == sizeof value);
        memcpy(member, &value, sizeof value);
    }
}
