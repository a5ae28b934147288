/* How far the members of a group are. */
#ifndef HARNESS_DIAGNOSE_FRONT_H
#define HARNESS_DIAGNOSE_FRONT_H

#include "harness/diagnose/answer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is known of a group's present call. */
struct harness_diag_front {
    int64_t seq; /* the first call that some member lacks; 0: none is lacked */
    size_t present, ahead, behind, absent;
    int64_t
        stuck; /* all have posted it, nobody's is done, and none lacks an earlier one; 0: none */
    bool is_pending; /* somebody's call at seq, or the last one, is written down as not done */
};

struct harness_diag_front harness_diag_front(const struct harness_diag_group *group);
/* Whether the member's lack of seq is a fact. */
bool harness_diag_is_behind(const struct harness_diag_group *group,
                            const struct harness_diag_member *member, int64_t seq);
/* The member lacks seq in its record alone: another one has done that call, which takes all of
 * them, or its record was written before the others posted it. */
bool harness_diag_is_stale(const struct harness_diag_group *group,
                           const struct harness_diag_member *member, int64_t seq);
/* Its last call here is written down as not done. */
bool harness_diag_is_pending(const struct harness_diag_member *member);
/* In this group the rank has posted a call that somebody lacks, or may lack. */
bool harness_diag_waits_here(const struct harness_diag_group *group,
                             const struct harness_diag_front *front,
                             const struct harness_diag_member *member);
/* A message that is not done, and that its peer has not met; NULL: there is none. */
const struct harness_diag_call *harness_diag_open_message(const struct harness_diag_group *group,
                                                          const struct harness_diag_member *member,
                                                          uint32_t *peer);
bool harness_diag_has_note(const struct harness_diag_evidence *evidence, uint32_t rank,
                           enum harness_diag_note_kind kind);

#ifdef __cplusplus
}
#endif
#endif
