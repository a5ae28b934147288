/* One update of one element, worked out again. Pure. */
#ifndef HARNESS_OBSERVED_OPTIMIZER_H
#define HARNESS_OBSERVED_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As the program told them (ddprove_guest.h). */
struct observed_options {
    bool is_there;
    uint32_t kind; /* enum ddprove_guest_optimizer_kind */
    bool is_nesterov;
    double lr, decay;
    double first, second; /* momentum and dampening, or the betas */
    double eps;
    uint64_t updates; /* that came before */
};

enum { OBSERVED_STATES = 2 };

/* What an element becomes: the parameter, and the optimizer's state. */
struct observed_element {
    float plain;         /* in fp32, written down as PyTorch documents it */
    double exact, bound; /* in fp64; how far another order of fp32 operations may come from it */
};

/* How many states the optimizer has; it may keep fewer. */
unsigned observed_state_count(const struct observed_options *options);
/* The kind is one that can be worked out, with numbers that make sense. */
bool observed_is_known(const struct observed_options *options);
/* out: [1 + OBSERVED_STATES], the parameter first. */
void observed_replay(const struct observed_options *options, float param, float gradient,
                     const float state[OBSERVED_STATES], struct observed_element *out);

#ifdef __cplusplus
}
#endif
#endif
