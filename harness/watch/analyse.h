/* From what ranks of a guest show to findings. */
#ifndef HARNESS_WATCH_ANALYSE_H
#define HARNESS_WATCH_ANALYSE_H

#include "harness/watch/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A stop counts after this long: one that ends by itself is no hang. */
#define HARNESS_WATCH_STOP_HOLD_NS UINT64_C(80000000)
/* What a group's members posted differs, and most of them have not posted the same: the others get
 * so long to post theirs, so that it is known who differs from the rest. */
#define HARNESS_WATCH_DIFFER_HOLD_NS UINT64_C(1000000000)
/* A rank that has posted another call than the others, and does not wait, gets so long to post the
 * one that it lacks: then it has taken them in another order. */
#define HARNESS_WATCH_ORDER_HOLD_NS UINT64_C(4000000)
/* The same where it waits in that call, which may end. */
#define HARNESS_WATCH_FIT_HOLD_NS UINT64_C(50000000)
/* A rank has posted the same as the others, in an earlier step: nobody waits for that, and its next
 * call, which a step's computation may stand before, tells what it is. */
#define HARNESS_WATCH_UPDATE_HOLD_NS UINT64_C(1000000000)
/* Who asks whether a request is done counts as waiting for so long after it has. */
#define HARNESS_WATCH_POLL_NS UINT64_C(1000000000)
/* Waits without a way out count after this long: a thread that has made no call yet might come, and
 * a call that not all must come to may be just about to end. */
#define HARNESS_WATCH_CYCLE_HOLD_NS UINT64_C(1500000000)
/* The same where neither can be. */
#define HARNESS_WATCH_SURE_HOLD_NS UINT64_C(20000000)

/* Whom others have waited for in a call for so long is said, though it is no finding; of a rank
 * again after so long. */
#define HARNESS_WATCH_LATE_NS       UINT64_C(1000000000)
#define HARNESS_WATCH_LATE_AGAIN_NS UINT64_C(60000000000)

/* Time in which ranks could not go on for want of a CPU does not count. */
struct harness_watch_limits {
    uint64_t silent_ns; /* others may wait this long for a rank that is in code of its own */
    uint64_t attach_ns; /* a rank may take this long to show itself after the first one has */
    uint64_t still_ns;  /* nothing at all may move for so long, where nobody waits for a rank that
                           does not come; 0: for ever */
};

/* words.c */
/* It ended as ranks end that their launcher ends. */
bool harness_watch_may_be_of_launcher(const struct harness_watch_rank *rank);
/* Of two that ended, the second one by a launcher: the first one's end was seen before, or was not
 * what the launcher asks for first, or it waited for nobody. */
bool harness_watch_ended_before(const struct harness_watch_rank *first,
                                const struct harness_watch_rank *second);

/* So much time has passed since a rank did something: 0 if that was after the look began. */
static inline int64_t harness_watch_since(const struct harness_watch *watch, uint64_t time_ns)
{
    return watch->now_ns > time_ns ? (int64_t)(watch->now_ns - time_ns) : 0;
}

/* Nothing has changed for so long, for which ranks had CPUs. */
static inline uint64_t harness_watch_unchanged_ns(const struct harness_watch *watch)
{
    const uint64_t passed_ns = watch->now_ns - watch->change_ns;

    return passed_ns > watch->starved_ns ? passed_ns - watch->starved_ns : 0;
}

/* Add what is wrong now; nothing in a healthy job. In order of certainty: differences between what
 * members of a group posted, ranks that are gone, stopped ranks, waits without a way out; by a
 * limit of time: a rank that others wait for, one that never showed itself. out->mem: a pool. */
void harness_watch_analyse(struct harness_watch *watch, const struct harness_watch_limits *limits,
                           struct harness_findings *out);

/* where.c */
/* A finding about a rank, where it is. */
void harness_watch_begin(const struct harness_watch *watch, enum harness_verdict verdict,
                         enum harness_mode mode, uint32_t rank, struct harness_findings *out,
                         struct harness_finding *finding);
/* Everybody that is left and waits, other than the culprits, is a victim. */
void harness_watch_add_victims(const struct harness_watch *watch, struct harness_finding *finding);
/* The call that others wait for, or the one that the rank itself is in, or the one in which others
 * have waited for it until that failed. */
void harness_watch_say_where(const struct harness_watch *watch, uint32_t rank,
                             struct harness_finding *finding);

/* endless.c */
/* All members have come to a call, and it does not end: nothing has changed for as long as others
 * may wait. */
void harness_watch_find_endless(const struct harness_watch *watch,
                                const struct harness_watch_limits *limits,
                                struct harness_findings *out);

/* late.c */
/* When a rank was last said to be late, and for which call. Zeroed at first. */
struct harness_watch_late {
    uint64_t said_ns;
    size_t group;
    uint64_t seq;
};
/* Ranks for which others have waited in a call: a sentence for whoever looks on, each rank once for
 * a call, and no finding. False: nothing is to be said. last: [world_size]. mem: a pool. */
bool harness_watch_say_late(const struct harness_watch *watch, struct harness_watch_late *last,
                            struct ddp_mem *mem, struct ddp_text *out);

/* differ.c */
/* Compare what members posted, up to the last call that all of them have posted. */
void harness_watch_find_differences(struct harness_watch *watch, struct harness_findings *out);

/* left_out.c */
/* Some members have the result of a call that needs all of them, and others have not posted it, nor
 * had they when what they posted was read after that result: they left it out. */
void harness_watch_find_left_out(struct harness_watch *watch, struct harness_watch_group *group,
                                 struct harness_findings *out);

/* past.c */
/* What follows a call that is posted as number seq, behind the communicator's earlier ones: what
 * has always followed where most calls before it were the same. NULL: that is not known, or was
 * seen once, and behind another past. *out_steps: how many steps later. */
const struct harness_watch_call *
harness_watch_next_after(const struct harness_watch *watch, const struct harness_watch_group *group,
                         uint64_t seq, const struct harness_watch_call *call, uint32_t *out_steps);
/* The last earlier call like this one, behind a past like that of number seq; 0: there is none. */
uint64_t harness_watch_like_before(const struct harness_watch *watch,
                                   const struct harness_watch_group *group, uint64_t seq,
                                   const struct harness_watch_call *call);
/* So many calls of the past are compared. */
enum { HARNESS_WATCH_CONTEXT_MAX = 64 };
/* Whether a call used to come behind the `length` last calls before `seq`. Of a program that does
 * not repeat itself regularly, what followed once or twice tells nothing, and a rank would be
 * accused. is_step_judged: only so many steps after the call before it as now. */
enum harness_watch_habit {
    HARNESS_WATCH_TOO_NEW, /* these calls were not there often enough to tell */
    HARNESS_WATCH_NEVER,
    HARNESS_WATCH_SELDOM,
    HARNESS_WATCH_HABITUAL
};
enum harness_watch_habit harness_watch_habit_of(const struct harness_watch *watch,
                                                const struct harness_watch_group *group,
                                                uint64_t seq, const struct harness_watch_call *call,
                                                bool is_step_judged, uint32_t length);

/* How many calls like this one each of the last steps before `step` had; 0: not all had as many, or
 * they are too few to tell. *out_made: how many there are in it before `seq`. */
uint32_t harness_watch_usual_in_step(const struct harness_watch *watch,
                                     const struct harness_watch_group *group, uint64_t seq,
                                     const struct harness_watch_call *call, uint32_t step,
                                     uint32_t *out_made);

/* Of a group's calls those that nobody needs any more are given up. */
void harness_watch_forget(struct harness_watch *watch, struct harness_watch_group *group);

/* fit.c */
/* What a rank did that posted another call than was due. */
enum harness_watch_fit {
    HARNESS_WATCH_FIT_UNKNOWN,
    HARNESS_WATCH_FIT_OPEN,     /* its call is a later one: what it posts next will tell */
    HARNESS_WATCH_FIT_LEFT_OUT, /* it left out one call or several */
    HARNESS_WATCH_FIT_REPLACED  /* it posted this in place of the one that was due */
};
/* wrong: the rank; right: one that posted what was due. */
enum harness_watch_fit harness_watch_fit_of(const struct harness_watch *watch,
                                            const struct harness_watch_group *group, uint64_t seq,
                                            uint32_t wrong, uint32_t right);

/* alike.c */
/* The same call, in whatever step. Bytes are of any type of that size. */
bool harness_watch_is_alike(const struct harness_watch_call *a, const struct harness_watch_call *b);
/* Their buckets hold the same parameters in the same order, as far as both have told what they
 * hold: a sum over two lists of as many elements is neither's. */
bool harness_watch_holds_same(const struct harness_watch_call *a,
                              const struct harness_watch_call *b);
/* The first thing in which two calls differ that are not the same. */
enum harness_verdict harness_watch_difference_of(const struct harness_watch_call *wrong,
                                                 const struct harness_watch_call *right);

/* launch.c */
/* The longest that anybody has waited for this rank. */
uint64_t harness_watch_waited_for_ns(const struct harness_watch *watch, uint32_t rank);
/* Others have waited for the rank for longer than the limit, in which it had a CPU. */
bool harness_watch_is_overdue(const struct harness_watch *watch,
                              const struct harness_watch_limits *limits, uint32_t rank);
/* The rank has made no call yet, and another one that is overdue has not shown itself, which this
 * one has, or its process at least: it may be waiting for that one. */
bool harness_watch_is_before_start(const struct harness_watch *watch,
                                   const struct harness_watch_limits *limits, uint32_t rank);
/* Processes that were started with variables that do not fit the job. */
void harness_watch_find_launch(const struct harness_watch *watch, struct harness_findings *out);
/* By the limit of time: ranks that have not shown themselves, so that no other one comes to its
 * first call. */
void harness_watch_find_absent(const struct harness_watch *watch,
                               const struct harness_watch_limits *limits,
                               struct harness_findings *out);

/* ends.c */
/* It ended by an error of its own inside a call that members had posted differently, or after it:
 * its library refused that. */
bool harness_watch_is_refused(const struct harness_watch *watch, uint32_t rank);

/* Some members wait in a call, and most others are done without it, as they said themselves: the
 * former have made one call too many. */
void harness_watch_find_extra(struct harness_watch *watch, struct harness_findings *out);

/* Of a rank that is done while others wait for it: as many are done as wait, for the one call that
 * comes next, in the same step. Either it left that out, or they made one too many. others: they.
 */
bool harness_watch_is_either(const struct harness_watch *watch, uint32_t rank,
                             struct harness_rank_set *others);

/* gave_up.c */
/* The rank ended by an error, since a call of its failed for want of ranks that did not come, and
 * that is not because one of them crashed or waits itself. */
bool harness_watch_has_given_up(const struct harness_watch *watch, uint32_t rank);
/* These ranks that did not come. */
void harness_watch_find_given_up(const struct harness_watch *watch, struct harness_findings *out);

/* blocked.c */
/* How far a rank is with a call. Of calls that threads make, a post begins them. */
enum harness_watch_reach {
    HARNESS_WATCH_NOWHERE,
    HARNESS_WATCH_POSTED,
    HARNESS_WATCH_LAUNCHED, /* given to the device, which has not come to it */
    HARNESS_WATCH_BEGUN,    /* or the device does not show */
    HARNESS_WATCH_DONE
};
enum harness_watch_reach harness_watch_reach_of(const struct harness_watch *watch, uint32_t rank,
                                                size_t group, uint64_t seq);
/* The rank's device has come to a call and to others that were launched together with it, on the
 * same stream; in which of them it is does not show. The first one of its waits from `from` on that
 * is for such a call, and that a member is sure to lack, so that the device may be in that one;
 * wait_count: there is none. */
uint32_t harness_watch_next_before(const struct harness_watch *watch, uint32_t rank,
                                   const struct harness_watch_wait *wait, uint32_t from);
/* Some thread or stream of the rank waits. */
bool harness_watch_is_waiting(const struct harness_watch *watch, uint32_t rank);
/* What keeps a rank from going on is others: a thread waits, or a stream for a rank that is missing
 * from its call. A stream alone keeps no thread from posting. */
bool harness_watch_is_kept(const struct harness_watch *watch, uint32_t rank);
/* `rank` waits for a call that `other` is a member of and has not posted, or whose device has not
 * come to it; with out != NULL, for which. */
bool harness_watch_needs(const struct harness_watch *watch, uint32_t rank, uint32_t other,
                         struct harness_watch_wait *out);
/* The same of the calls of one group. */
bool harness_watch_needs_in(const struct harness_watch *watch, uint32_t rank, uint32_t other,
                            size_t group, struct harness_watch_wait *out);
/* Some rank waits for this one, or did when it ended, which was not before this one's own end. A
 * rank that could not show all of its communicators is not missed in one that it did not show. */
bool harness_watch_is_needed(const struct harness_watch *watch, uint32_t rank,
                             struct harness_watch_wait *out);
/* All members are known and have come to the call: have posted it, and of a device's it is seen
 * that it has come to it. */
bool harness_watch_is_complete(const struct harness_watch *watch,
                               const struct harness_watch_wait *wait);
/* The call waits for this rank to come to it. */
bool harness_watch_is_missing(const struct harness_watch *watch,
                              const struct harness_watch_wait *wait, uint32_t other);
/* Whoever waits needs this member: in a call of neighbours they need their neighbours, of which one
 * that is only sent to is not needed before all others have come. */
bool harness_watch_is_near(const struct harness_watch *watch, const struct harness_watch_wait *wait,
                           uint32_t other);
/* So many members have shown that they are in the group. */
uint64_t harness_watch_count_known(const struct harness_watch *watch,
                                   const struct harness_watch_group *group);
/* So many members have come to the call that a wait is in. */
uint64_t harness_watch_count_come(const struct harness_watch *watch,
                                  const struct harness_watch_wait *wait);
/* The process has ended. */
bool harness_watch_is_gone(const struct harness_watch *watch, uint32_t rank);

/* stuck.c */
/* Add the ranks that no rank can set free any more: all of their threads wait, and each for one of
 * these, or a stream does. is_presumed: threads that show no wait count as waiting for those of the
 * rank that do, and for its streams. */
void harness_watch_find_stuck(const struct harness_watch *watch, bool is_presumed,
                              struct harness_rank_set *out);
/* Of such ranks: no other thread of theirs can come, they have no device, and none of their calls
 * can end before all its members have come to it. */
bool harness_watch_is_sure(const struct harness_watch *watch, const struct harness_rank_set *stuck);
/* Of ranks that hold each other, those that some other one of them waits for. The rest wait too,
 * and could all go on if these did. */
void harness_watch_find_circle(const struct harness_watch *watch,
                               const struct harness_rank_set *stuck, struct harness_rank_set *out);

/* circle.c */
/* Of ranks that hold each other: those that are to blame. Those that strayed, if the past says so;
 * else those that lack a call in which more than half of all wait, unless they may themselves be
 * held up by one of these: such a one waits in a call that half of its members have come to.
 * Nothing is added if there is no telling. *out: the call that they have not come to. */
void harness_watch_find_strays(struct harness_watch *watch, const struct harness_rank_set *stuck,
                               struct harness_rank_set *strays, struct harness_watch_wait *out);

/* camp.c */
struct harness_watch_camp {
    const struct harness_watch_call *call;
    uint32_t rank; /* its first member */
    uint32_t count;
};
/* They post, hold and belong to the same; of a pair's messages each has steps of its own. */
bool harness_watch_is_same(const struct harness_watch_group *group,
                           const struct harness_watch_call *a, const struct harness_watch_call *b);
/* The members' camps at a call. out: [world_size]. *out_posted: how many have posted it. */
uint32_t harness_watch_find_camps(const struct harness_watch *watch,
                                  const struct harness_watch_group *group, uint64_t seq,
                                  struct harness_watch_camp *out, uint64_t *out_posted);
/* Index of the right camp; count: nobody can say. */
uint32_t harness_watch_pick_right(const struct harness_watch *watch,
                                  const struct harness_watch_group *group, uint64_t seq,
                                  const struct harness_watch_camp *camps, uint32_t count);
/* A communicator that was split from another one together with this one, and of which all earlier
 * calls were like this one's, has not posted its call of this number: it may tell who is right. */
bool harness_watch_may_siblings_tell(const struct harness_watch *watch,
                                     const struct harness_watch_group *group, uint64_t seq);

/* peers.c */
/* Of a circle among ranks that hold each other: the one that left out a call which all others
 * posted behind the same calls, or posted one where others went on as it used to do. False: there
 * is no telling. *out: that call. */
bool harness_watch_find_odd(struct harness_watch *watch, const struct harness_rank_set *stuck,
                            const struct harness_rank_set *circle, uint32_t *out_rank,
                            struct harness_watch_wait *out);

/* unsent.c */
/* A rank that took part in fewer messages than it always did before such a call. */
struct harness_watch_unsent {
    uint32_t rank;
    struct harness_watch_wait behind; /* the call */
    uint32_t messages, usual;
};
/* Of ranks that hold each other, one of which waits for another one's message: the one rank that
 * has left a message out, as its own past shows. False: there is no telling. */
bool harness_watch_find_unsent(struct harness_watch *watch, const struct harness_rank_set *stuck,
                               struct harness_watch_unsent *out);

/* history.c */
/* Of ranks that hold each other: those that went another way than all their past, in place of a
 * call that others wait for; where the past says nothing, than all other ranks (peers.c). *out: the
 * first one's call. */
void harness_watch_find_strayed(struct harness_watch *watch, const struct harness_rank_set *stuck,
                                struct harness_rank_set *strays, struct harness_watch_wait *out);

/* ends.c */
/* What the rank's end is called; NONE: it has not ended, might end, or was taken along. */
enum harness_verdict harness_watch_crash_of(const struct harness_watch *watch, uint32_t rank);

/* words.c */
/* "all_reduce 7 of world (1,024 f32, sum, bucket 2)" */
void harness_watch_print_call(const struct harness_watch_group *group, uint64_t seq,
                              const struct harness_watch_call *call, struct ddp_text *out);
/* What a finding about a call needs: the operation, the step and the phase. call: NULL if nobody
 * has posted it. */
void harness_watch_set_op(const struct harness_watch_group *group, uint64_t seq,
                          const struct harness_watch_call *call, struct harness_finding *finding);
/* Append to a finding's sentence. */
void harness_watch_say(struct harness_finding *finding, const char *format, ...) DDP_PRINTF(2, 3);
/* The same of a call, as it is printed. */
void harness_watch_say_call(const struct harness_watch *watch,
                            const struct harness_watch_group *group, uint64_t seq,
                            const struct harness_watch_call *call, struct harness_finding *finding);
/* Where two buckets differ in what they hold. */
void harness_watch_say_lists(struct harness_finding *finding,
                             const struct harness_watch_list *wrong,
                             const struct harness_watch_list *right);
/* A member's call with this number, whoever posted it first; NULL: nobody has. */
const struct harness_watch_call *harness_watch_any_call(const struct harness_watch *watch,
                                                        const struct harness_watch_group *group,
                                                        uint64_t seq);
/* When the first one of the members posted it; 0: nobody has. A rank posts in order, so of two
 * calls that a rank makes one after the other the first one has the smaller time, if whoever posts
 * the second one posts the first one too; the time of any one member tells nothing of that. */
uint64_t harness_watch_first_posted_ns(const struct harness_watch *watch,
                                       const struct harness_watch_group *group, uint64_t seq);

#ifdef __cplusplus
}
#endif
#endif
