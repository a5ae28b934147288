/* A rank's process, from exec to exit. Its identity comes through the environment. It maps its own
 * recorder and no other memory that it could write, reads the plan from a file, and runs the same
 * code as a rank of the simulator. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "ddpcore/device/device.h"
#include "ddpcore/transport/shm.h"
#include "ddpcore/transport/tcp.h"
#include "harness/inject/inject.h"
#include "harness/inject/stranger.h"
#include "harness/launch/card.h"
#include "harness/launch/lag.h"
#include "harness/launch/mpi.h"
#include "harness/plan/group.h"
#include "harness/proc/env.h"
#include "harness/proc/guard.h"
#include "harness/proc/job.h"
#include "harness/proc/proc.h"
#include "harness/proc/shared.h"
#include "harness/scenario/scenario.h"

_Static_assert(HARNESS_JOB_RANKS_MAX <= DDP_SHM_MEMBERS_MAX, "the ranks of any plan can join");
_Static_assert(HARNESS_TRANSPORT_TCP_RANKS_MAX == DDP_TCP_MEMBERS_MAX, "as lint says");

struct rank_process {
    uint64_t *wanted;
    struct ddp_rendezvous rendezvous;
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ddp_recorder recorder;
    struct harness_scenario scenario;
    struct harness_injector *injector;
    bool is_scenario, is_inject_open;
};

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    uint64_t value = 0;

    return text != NULL && ddp_text_parse_u64(text, &value) == DDP_OK ? value : 0;
}

/* End when the parent (launcher or guard) ends, even if that has happened already. */
static ddp_status follow_parent(struct ddp_err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "PR_SET_PDEATHSIG: %s", strerror(errno));
    }
    if ((uint64_t)getppid() != number_of(HARNESS_PROC_ENV_PARENT)) {
        return ddp_err_set(err, DDP_E_STATE,
                           "whoever started this rank has ended; `rank` is started by "
                           "`ddprove run --driver proc`");
    }
    return DDP_OK;
}

/* Map this rank's recorder, and no other memory that it could write. */
static ddp_status open_recorder(struct rank_process *self, struct ddp_err *err)
{
    const struct ddp_rendezvous *id = &self->rendezvous;
    struct harness_proc_head *head =
        mmap(NULL, sizeof(*head), PROT_READ, MAP_SHARED, HARNESS_PROC_JOB_FD, 0);
    void *storage;
    uint64_t offset;

    if (head == MAP_FAILED) {
        return ddp_err_set(err, DDP_E_SYSTEM, "memory of the job: %s", strerror(errno));
    }
    if (head->magic != HARNESS_PROC_MAGIC || head->world_size != id->world_size ||
        id->rank >= head->world_size) {
        (void)munmap(head, sizeof(*head));
        return ddp_err_set(err, DDP_E_STATE, "descriptor 3 is not this job's memory");
    }
    offset = head->recorder_offset_bytes + id->rank * head->recorder_stride_bytes;
    storage = mmap(NULL, head->recorder_stride_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                   HARNESS_PROC_JOB_FD, (off_t)offset);
    if (storage == MAP_FAILED) {
        (void)munmap(head, sizeof(*head));
        return ddp_err_set(err, DDP_E_SYSTEM, "memory of the recorder: %s", strerror(errno));
    }
    ddp_recorder_init(&self->recorder, storage, head->ring_entry_count, self->env.clock, id->rank,
                      id->world_size, (uint64_t)getpid());
    self->env.recorder = &self->recorder;
    self->idle.polls = &self->recorder.page->polls;
    (void)munmap(head, sizeof(*head));
    (void)close(HARNESS_PROC_JOB_FD);
    return DDP_OK;
}

static ddp_status read_plan(struct rank_process *self, struct ddp_err *err)
{
    const char *path = getenv("DDPROVE_PLAN");
    void *text;
    size_t size_bytes;
    ddp_status status;

    if (path == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "DDPROVE_PLAN is not set");
    }
    DDP_TRY(self->env.files->ops->read_all(self->env.files, path, self->env.mem, &text, &size_bytes,
                                           err));
    status = harness_scenario_parse(text, size_bytes, path, NULL, 0, &self->scenario, err);
    ddp_mem_free(self->env.mem, text);
    DDP_TRY(status);
    self->is_scenario = true;
    if (self->scenario.plan_count != 1) {
        return ddp_err_set(err, DDP_E_INVALID, "%s has %zu cells; a plan has one", path,
                           self->scenario.plan_count);
    }
    return DDP_OK;
}

static ddp_status open_store(void *context, struct ddp_env *env, uint64_t deadline_ns,
                             struct ddp_store **out, struct ddp_err *err)
{
    struct rank_process *self = context;
    ddp_status status;

    DDP_TRY(harness_injector_identify(self->injector, env, harness_proc_env_lookup, NULL,
                                      &self->rendezvous, err));
    ddp_recorder_wait_begin(env->recorder, DDP_WAIT_STORE, 0);
    status = ddp_rendezvous_store(env, &self->rendezvous, deadline_ns, out, err);
    ddp_recorder_wait_end(env->recorder);
    return status;
}

static ddp_status open_shm(const struct harness_rank_members *members, struct ddp_env *env,
                           struct ddp_store *store, uint64_t deadline_ns,
                           struct ddp_transport **out, struct ddp_err *err)
{
    const struct ddp_shm_config config = {.group_name = members->name,
                                          .member = members->member,
                                          .member_count = members->count,
                                          .member_rank = members->ranks};

    return ddp_shm_create(env, store, &config, deadline_ns, out, err);
}

/* A rank listens where this host reaches the rendezvous from, and nowhere else. */
static ddp_status open_tcp(const struct rank_process *self,
                           const struct harness_rank_members *members, struct ddp_env *env,
                           struct ddp_store *store, uint64_t deadline_ns,
                           struct ddp_transport **out, struct ddp_err *err)
{
    char address[64];
    const struct ddp_tcp_config config = {.group_name = members->name,
                                          .member = members->member,
                                          .member_count = members->count,
                                          .member_rank = members->ranks,
                                          .address = address};

    DDP_TRY(ddp_tcp_local_address(self->rendezvous.master_addr, self->rendezvous.master_port,
                                  address, sizeof address, err));
    return ddp_tcp_create(env, store, &config, deadline_ns, out, err);
}

static ddp_status open_members(void *context, struct ddp_env *env, struct ddp_store *store,
                               const struct harness_rank_members *members, uint64_t deadline_ns,
                               struct ddp_transport **out, struct ddp_err *err)
{
    const struct rank_process *self = context;
    ddp_status status;

    /* Returns once all ranks have attached: a rank in here waits for those that are not. */
    ddp_recorder_wait_begin(env->recorder, DDP_WAIT_STORE, 0);
    status = self->scenario.plans[0].job.transport == HARNESS_TRANSPORT_TCP
                 ? open_tcp(self, members, env, store, deadline_ns, out, err)
                 : open_shm(members, env, store, deadline_ns, out, err);
    ddp_recorder_wait_end(env->recorder);
    return status == DDP_OK ? harness_injector_transport(self->injector, out) : status;
}

static ddp_status open_transport(void *context, struct ddp_env *env, struct ddp_store *store,
                                 uint64_t deadline_ns, struct ddp_transport **out,
                                 struct ddp_err *err)
{
    const struct rank_process *self = context;
    const struct harness_rank_members world = {"world", self->rendezvous.rank,
                                               self->rendezvous.world_size, NULL};

    return open_members(context, env, store, &world, deadline_ns, out, err);
}

static ddp_status open_process(struct rank_process *self, struct ddp_err *err)
{
    const struct harness_plan *plan;

    DDP_TRY(follow_parent(err));
    DDP_TRY(ddp_rendezvous_parse(harness_proc_env_lookup, NULL, &self->rendezvous, err));
    ddp_env_init_process(&self->env, &self->idle, self->rendezvous.rank,
                         self->rendezvous.world_size);
    DDP_TRY(open_recorder(self, err));
    DDP_TRY(read_plan(self, err));
    plan = &self->scenario.plans[0];
    if (plan->job.slow_after_ms > 0) {
        self->recorder.starved_ns = harness_lag_self_ns;
    }
    if (plan->job.ranks != self->rendezvous.world_size) {
        return ddp_err_set(err, DDP_E_INVALID, "the plan has %u ranks, WORLD_SIZE is %u",
                           plan->job.ranks, self->rendezvous.world_size);
    }
    DDP_TRY(ddp_blas_open(NULL, err));
    DDP_TRY(harness_inject_open(plan, err));
    self->is_inject_open = true;
    DDP_TRY(
        harness_injector_create(&self->env, plan, harness_victim_process(), &self->injector, err));
    self->env.faults = harness_injector_hook(self->injector);
    self->env.files = harness_injector_files(self->injector, self->env.files);
    self->env.mem = harness_injector_mem(self->injector);
    return DDP_OK;
}

/* The tensors to keep, if this run is a replay. */
static ddp_status read_wanted(struct rank_process *self, struct harness_rank_options *options,
                              struct ddp_err *err)
{
    const char *path = getenv("DDPROVE_WANTED");

    if (path == NULL || path[0] == '\0') {
        return DDP_OK;
    }
    DDP_TRY(harness_wanted_read(path, self->env.mem, &self->wanted, &options->wanted_count, err));
    options->wanted = self->wanted;
    return DDP_OK;
}

static void close_process(struct rank_process *self)
{
    if (self->wanted != NULL) {
        ddp_mem_free(self->env.mem, self->wanted);
    }
    if (self->injector != NULL) {
        harness_injector_destroy(self->injector);
    }
    if (self->is_inject_open) {
        harness_inject_close();
    }
    if (self->is_scenario) {
        harness_scenario_fini(&self->scenario);
    }
}

/* Those of strangers that a fault let come are not the rank's. */
static uint64_t count_descriptors(void)
{
    harness_strangers_leave();
    return harness_proc_audit_descriptors();
}

static int rank_main(void)
{
    struct rank_process self = {.injector = NULL};
    const char *checkpoint = getenv("DDPROVE_CHECKPOINT");
    struct harness_rank_options options = {
        .is_hashing = number_of("DDPROVE_HASHING") != 0,
        .is_restoring = number_of("DDPROVE_RESTORING") != 0,
        .run_dir = getenv("DDPROVE_RUN_DIR"),
        .checkpoint_path = checkpoint != NULL && checkpoint[0] != '\0' ? checkpoint : NULL,
        .program_hash = number_of("DDPROVE_PROGRAM_HASH"),
        .is_fast = number_of("DDPROVE_FAST") != 0,
        .has_threads = true};
    const struct harness_rank_wiring wiring = {&self, open_store, open_transport, open_members,
                                               count_descriptors};
    struct ddp_err err = {""};
    ddp_status status = open_process(&self, &err);

    if (status == DDP_OK) {
        status = harness_card_prepare(&self.scenario.plans[0], &self.rendezvous, &options, &err);
    }
    if (status == DDP_OK) {
        status = read_wanted(&self, &options, &err);
    }
    if (status == DDP_OK) {
        options.mpi_path = harness_mpi_path();
        status = harness_rank_run(&self.env, &self.scenario.plans[0], &options, &wiring, &err);
    } else if (self.env.recorder != NULL) {
        /* A rank that cannot start records its end too. */
        ddp_recorder_end(self.env.recorder, status, 0);
    }
    if (status != DDP_OK) {
        (void)fprintf(stderr, "rank %u: %s: %s\n", self.rendezvous.rank, ddp_status_name(status),
                      err.text[0] != '\0' ? err.text : ddp_status_text(status));
    }
    close_process(&self);
    return status == DDP_OK ? 0 : 1;
}

int harness_proc_rank_main(void)
{
    const char *guard = getenv(HARNESS_PROC_ENV_GUARD);

    return guard != NULL && guard[0] != '\0' ? harness_proc_guard_main() : rank_main();
}
