/* Injection: the plan's faults, armed in one rank.
 *
 * The hook asks libfiu, on the point's concrete name; libfiu's external callback counts matches of
 * each fault's trigger and says which fault fires; the hook takes the action after fiu_fail has
 * returned. What an action does to the process is the driver's: a real signal in proc, the end of a
 * fiber in sim. */
#ifndef HARNESS_INJECT_INJECT_H
#define HARNESS_INJECT_INJECT_H

#include "ddpcore/seam/env.h"
#include "ddpcore/store/store.h"
#include "ddpcore/transport/transport.h"
#include "harness/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What only a driver can do to the calling rank. */
struct harness_victim {
    void *context;
    /* End the rank by a signal. Does not return. */
    void (*kill)(void *context, int signal);
    /* End the rank with _exit(code). Does not return. */
    void (*exit)(void *context, int code);
    /* Stop the process; returns once continued, after `ms` (0: never). */
    void (*stop)(void *context, uint64_t ms);
    /* Spend ms in host code (UINT64_MAX: for ever). */
    void (*delay)(void *context, uint64_t ms);
};

struct harness_injector;
/* env: borrowed; its faults and recorder are used. Arms only this rank's faults. */
DDP_MUST_USE ddp_status harness_injector_create(struct ddp_env *env,
                                                const struct harness_plan *plan,
                                                const struct harness_victim *victim,
                                                struct harness_injector **out, struct ddp_err *err);
void harness_injector_destroy(struct harness_injector *injector);
struct ddp_fault_hook *harness_injector_hook(struct harness_injector *injector);

/* The files that the rank is to use in place of these, which are borrowed: themselves, unless a
 * fault of the plan strikes files of this rank. */
struct ddp_files *harness_injector_files(struct harness_injector *injector,
                                         struct ddp_files *files);
/* The memory that the rank is to use, in place of its environment's when the injector was created.
 */
struct ddp_mem *harness_injector_mem(struct harness_injector *injector);
/* The transport that the rank is to use in place of this one, which it takes over: itself, unless a
 * fault of the plan strikes messages that come to this rank. injector may be NULL. Errors: E_NOMEM;
 * it is destroyed then. */
DDP_MUST_USE ddp_status harness_injector_transport(struct harness_injector *injector,
                                                   struct ddp_transport **transport);
/* Who the rank is, from the variables that lookup gives, as faults changed them; records it.
 * Errors: those of ddp_rendezvous_parse. injector may be NULL. */
DDP_MUST_USE ddp_status
harness_injector_identify(const struct harness_injector *injector, struct ddp_env *env,
                          const char *(*lookup)(void *context, const char *name), void *context,
                          struct ddp_rendezvous *out, struct ddp_err *err);
/* What the variable is for this rank: `value`, unless a fault of the plan that has fired changed
 * it. NULL: it is not set. */
const char *harness_injector_variable(const struct harness_injector *injector, const char *name,
                                      const char *value);
/* The library to start the rank's process with, so that its system calls pass libfiu; NULL: the
 * plan has no such fault for the rank, or the library is not installed, and the rank's files ask
 * themselves. */
const char *harness_inject_preload(const struct harness_plan *plan, uint32_t rank);

/* Victim of a real process: kill(getpid()), _exit, raise(SIGSTOP), clock_nanosleep. A stopped
 * process is continued by its launcher: see harness_launch. Static storage. */
const struct harness_victim *harness_victim_process(void);

/* Register every point of the plan with libfiu. Once per process, before the first rank. */
DDP_MUST_USE ddp_status harness_inject_open(const struct harness_plan *plan, struct ddp_err *err);
void harness_inject_close(void);

#ifdef __cplusplus
}
#endif
#endif
