/* What a finding is about: operation, bucket, parameters, ranks. Every oracle fills these in alike.
 */
#ifndef HARNESS_ORACLE_SUBJECT_H
#define HARNESS_ORACLE_SUBJECT_H

#include "harness/oracle/oracle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One check each: adds findings; errors are the harness's own. oracle.def says what they prove. */
#define ORACLE(name)                                                           \
    ddp_status harness_check_##name(const struct harness_emulation *emulation, \
                                    struct harness_findings *out, struct ddp_err *err);
#define SOURCE(name)
#define X(kind, id, name, gives, proves) kind(name)
#include "harness/verdict/oracle.def"
#undef X
#undef SOURCE
#undef ORACLE

/* usage_message.c: a message is lost between two ranks, and neither end is to blame more than the
 * other. Of several, the first that was noticed: it ended the group. */
void harness_usage_blame_ends(const struct harness_emulation *emulation,
                              struct harness_finding *finding);
/* The first message of another operation than was due: who left a part of one out. The finding
 * stays as it is if there was none, or if ranks had posted different operations. */
void harness_usage_blame_displaced(const struct harness_emulation *emulation,
                                   struct harness_finding *finding);
/* That is what it says: this rank, of this operation. */
bool harness_usage_is_absent(const struct harness_emulation *emulation, uint32_t rank,
                             uint64_t seq);
/* The same of this operation or, where messages of operations of one length are taken for each
 * other, of a later one. */
bool harness_usage_is_absent_since(const struct harness_emulation *emulation, uint32_t rank,
                                   uint64_t seq);

/* usage_victims.c: the part of the usage oracle about ranks that ended because of others.
 * Of a time-out at time_ns: the culprits, and their place then. The finding has its operation and,
 * as victims, the ranks that gave up. */
void harness_usage_blame_awaited(const struct harness_emulation *emulation, uint64_t time_ns,
                                 struct harness_finding *finding);
/* After all findings that may say why ranks ended. */
void harness_usage_check_victims(const struct harness_emulation *emulation,
                                 struct harness_findings *out);

/* evaluation.c, of the ledger: every sample is evaluated once, and ranks add up the same. */
DDP_MUST_USE ddp_status harness_check_evaluations(const struct harness_emulation *emulation,
                                                  struct harness_findings *out,
                                                  struct ddp_err *err);

/* The hash that a rank recorded of a subject in a step, by an event that has the subject first and
 * then its hash; 0: none. */
uint64_t harness_subject_hash(const struct harness_emulation *emulation, uint32_t rank,
                              enum ddp_event kind, uint32_t step, uint64_t subject);
/* What was handed out was the emulation's in all steps, and so are the buffers that the rank has at
 * the end (oracle buffers). Else what was wrong is a finding already. */
bool harness_buffers_are_known(const struct harness_emulation *emulation, uint32_t rank);

/* Where ranks wrap their models: models and configurations are compared there, if they are. seq: of
 * that comparison. */
void harness_subject_set_comparison(const struct harness_emulation *emulation, uint64_t seq,
                                    struct harness_finding *finding);
/* survivors.c: the parameters and buffers with which survivors of a loss go on are the emulation's,
 * so that what their passes make of the buffers is known. True where nobody was lost. */
bool harness_survivors_know_buffers(const struct harness_emulation *emulation);
/* Ranks that wrapped models with other buffers, or with other options, than planned (oracle model).
 */
void harness_model_check_buffers(const struct harness_emulation *emulation,
                                 struct harness_findings *out);
void harness_model_check_config(const struct harness_emulation *emulation,
                                struct harness_findings *out);
/* Ranks of which DDP says something else than their job is (job.logging; oracle model). Errors:
 * E_NOMEM. */
DDP_MUST_USE ddp_status harness_model_check_logged(const struct harness_emulation *emulation,
                                                   struct harness_findings *out);
/* What a rank did that reported this status. */
enum harness_verdict harness_usage_verdict_of(ddp_status status);
/* The rank was at its end by then, or before: it closes its connections there. */
bool harness_usage_is_leaving(const struct harness_emulation *emulation, uint32_t rank,
                              uint64_t time_ns);
/* The rank ended with an error of its own, by or soon after time_ns, and lost nobody before: it
 * closed its connections, though it recorded its end only then, and whoever calls it dead is right.
 */
bool harness_usage_gave_up(const struct harness_emulation *emulation, uint32_t rank,
                           uint64_t time_ns);
/* usage_links.c: the part about connections that broke between ranks that live; false: none did.
 * ends: the rank at which the first one broke, and all whom it lost so. */
bool harness_usage_check_links(const struct harness_emulation *emulation,
                               const struct harness_rank_set *victims, struct harness_findings *out,
                               struct harness_rank_set *out_ends);

/* reduction_posted.c: the part of the reduction oracle about job.posts. */
/* Flags of gradients that are not finite. */
void harness_reduction_check_found(const struct harness_emulation *emulation,
                                   struct harness_findings *out);
ddp_status harness_reduction_check_posted(const struct harness_emulation *emulation,
                                          struct harness_findings *out, struct ddp_err *err);

/* What kind of difference it is, as far as its tensors are at hand; CORRUPTED otherwise. */
enum harness_verdict harness_subject_verdict(const struct harness_difference *difference);
/* Step, ranks, operation and parameters of a difference, into a finding. */
void harness_subject_set_difference(const struct harness_emulation *emulation,
                                    const struct harness_difference *difference,
                                    struct harness_finding *finding);
/* As buckets are in the finding's step. */
void harness_subject_set_bucket(const struct harness_emulation *emulation, uint32_t bucket,
                                struct harness_finding *finding);
/* Adds a finding; ranks that did the same in one operation are one finding, in the first one's
 * words. A finding that blames no rank stands alone. */
void harness_subject_merge(const struct harness_finding *finding, struct harness_findings *out);
/* The operation of a coll.post or coll.done, with its bucket, phase and planned step: outside of
 * training, and under join, a rank's step is not the program's. */
void harness_subject_set_posted(const struct harness_emulation *emulation,
                                const struct harness_trace_event *event,
                                struct harness_finding *finding);
/* The same of an operation by number, as some rank posted it. Nothing if no rank did, or seq is 0.
 */
void harness_subject_set_op(const struct harness_emulation *emulation, uint64_t seq,
                            struct harness_finding *finding);
/* The collective that the first of these ranks posted last, unless it was completed; 0: none. */
uint64_t harness_subject_open_seq(const struct harness_emulation *emulation,
                                  const struct harness_rank_set *ranks);
const char *harness_subject_param_name(const struct harness_emulation *emulation, int32_t param);
/* "rank 1", "ranks 1, 2", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more". */
const char *harness_subject_ranks_text(const struct harness_rank_set *ranks, char *text,
                                       size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
