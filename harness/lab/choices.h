/* A run's choices as a number in a mixed radix: counted up from run to run, or drawn. Internal. */
#ifndef HARNESS_LAB_CHOICES_H
#define HARNESS_LAB_CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/prng.h"

enum { HARNESS_LAB_CHOICES_MAX = 512 };

struct harness_lab_choices {
    uint16_t choice[HARNESS_LAB_CHOICES_MAX], width[HARNESS_LAB_CHOICES_MAX];
    size_t count;
    struct ddp_prng *drawn; /* NULL: they are counted up */
};

/* One of `width`, as the run has it; the first one behind the most that are kept. */
size_t harness_lab_choose(struct harness_lab_choices *choices, size_t width);
/* The next run's choices; false: that was the last. */
bool harness_lab_count_up(struct harness_lab_choices *choices);

#endif
