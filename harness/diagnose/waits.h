/* Inside of who waits for whom. */
#ifndef HARNESS_DIAGNOSE_WAITS_H
#define HARNESS_DIAGNOSE_WAITS_H

#include "harness/diagnose/front.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_diag_waits {
    struct harness_diag_evidence *evidence;
    struct harness_diag_answer *answer;
    struct harness_diag_front *fronts; /* of each group */
    bool *is_waiting;                  /* of each rank below world */
    uint32_t world;
};

/* Each adds what it finds to the answer, and returns whether it found something. */
bool harness_diag_name_silent(struct harness_diag_waits *waits, size_t g);
bool harness_diag_name_circle(struct harness_diag_waits *waits);
bool harness_diag_name_not_launched(struct harness_diag_waits *waits, size_t g);
bool harness_diag_name_by_stacks(struct harness_diag_waits *waits);

/* Evidence, as lines of a finding: where a member is, in or before call seq; where the members of a
 * group are, which also makes those ahead its victims; what else is known of a rank; whose last
 * call is not what its own past leads one to expect, who becomes a suspect. */
void harness_diag_say_member(struct harness_diag_evidence *evidence,
                             const struct harness_diag_group *group,
                             const struct harness_diag_member *member, int64_t seq,
                             struct harness_diag_finding *out);
void harness_diag_say_members(struct harness_diag_waits *waits, size_t g,
                              struct harness_diag_finding *out);
void harness_diag_say_notes(struct harness_diag_evidence *evidence, uint32_t rank,
                            struct harness_diag_finding *out);
void harness_diag_say_odd(struct harness_diag_evidence *evidence,
                          const struct harness_diag_group *group, struct harness_diag_finding *out);
/* Something says that those who are ahead are still waiting. */
bool harness_diag_is_told(const struct harness_diag_evidence *evidence,
                          const struct harness_diag_group *group,
                          const struct harness_diag_front *front);
/* Gloo records no messages: a rank that waits for one looks as if it did something else. */
bool harness_diag_is_silent_on_messages(const struct harness_diag_waits *waits);
/* What kind of hang it is that its culprits have not come, and how sure that is. */
void harness_diag_choose_hang(struct harness_diag_waits *waits, size_t g,
                              struct harness_diag_finding *out);

#ifdef __cplusplus
}
#endif
#endif
