/* See the header. */
#include "harness/lab/choices.h"

size_t harness_lab_choose(struct harness_lab_choices *choices, size_t width)
{
    size_t at = choices->count;

    if (at >= (size_t)HARNESS_LAB_CHOICES_MAX) {
        return 0;
    }
    choices->count++;
    if (choices->drawn != NULL) {
        choices->choice[at] = (uint16_t)ddp_prng_below(choices->drawn, width);
    }
    choices->width[at] = (uint16_t)width;
    return choices->choice[at];
}

bool harness_lab_count_up(struct harness_lab_choices *choices)
{
    while (choices->count > 0) {
        size_t last = choices->count - 1;

        if (choices->choice[last] + 1u < choices->width[last]) {
            choices->choice[last]++;
            return true;
        }
        choices->choice[last] = 0;
        choices->count--;
    }
    return false;
}
