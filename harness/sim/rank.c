/* A simulated rank: its environment, and the ways it can end. A rank that is killed is never
 * resumed; its end of the network is closed while its memory still exists, then the memory is
 * freed. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "harness/plan/group.h"
#include "harness/sim/job.h"

/* Where ranks are told that the store is. */
#define MASTER_ADDR      "127.0.0.1"
#define MASTER_PORT      19500
#define MASTER_PORT_TEXT "19500"

static struct harness_sim_actor *actor_of(struct harness_sim_rank *rank)
{
    return &rank->sim->scheduler.actors[rank->rank];
}

static uint64_t now_ns(const struct harness_sim_rank *rank)
{
    return rank->sim->scheduler.clock.time_ns;
}

static uint64_t after_ms(const struct harness_sim_rank *rank, uint64_t ms)
{
    uint64_t now = now_ns(rank);

    return ms >= (DDP_DEADLINE_NEVER - now) / DDP_NS_PER_MS ? DDP_DEADLINE_NEVER
                                                            : now + ms * DDP_NS_PER_MS;
}

static void set_process(struct harness_sim_rank *rank, enum harness_process_state state, int code)
{
    rank->process =
        (struct harness_process){.state = state, .code = code, .since_ns = now_ns(rank)};
}

static void vanish(struct harness_sim_rank *rank, enum harness_process_state state,
                   enum harness_end_how how, int code)
{
    set_process(rank, state, code);
    rank->end = (struct harness_rank_end){.how = how, .code = code, .time_ns = now_ns(rank)};
    rank->is_vanished = true;
    harness_sim_actor_halt(actor_of(rank));
}

void harness_sim_rank_crash(struct harness_sim_rank *rank, int signal_number)
{
    rank->has_crashed = true;
    vanish(rank, HARNESS_PROCESS_SIGNALED, HARNESS_END_SIGNALED, signal_number);
    __builtin_unreachable();
}

void harness_sim_rank_leave(struct harness_sim_rank *rank)
{
    harness_sim_actor_halt(actor_of(rank));
}

static void victim_kill(void *context, int signal_number)
{
    vanish(context, HARNESS_PROCESS_SIGNALED, HARNESS_END_SIGNALED, signal_number);
}

static void victim_exit(void *context, int code)
{
    vanish(context, HARNESS_PROCESS_EXITED, HARNESS_END_EXITED, code);
}

static void victim_stop(void *context, uint64_t ms)
{
    struct harness_sim_rank *rank = context;

    set_process(rank, HARNESS_PROCESS_STOPPED, SIGSTOP);
    harness_sim_actor_sleep(actor_of(rank), ms == 0 ? DDP_DEADLINE_NEVER : after_ms(rank, ms));
    set_process(rank, HARNESS_PROCESS_RUNNING, 0);
}

static void victim_delay(void *context, uint64_t ms)
{
    struct harness_sim_rank *rank = context;

    harness_sim_actor_sleep(actor_of(rank), after_ms(rank, ms));
}

/* The variables of the simulated launcher, which are torchrun's. */
static const char *lookup(void *context, const char *name)
{
    struct harness_sim_rank *rank = context;

    if (strcmp(name, "RANK") == 0 || strcmp(name, "LOCAL_RANK") == 0) {
        return rank->rank_text;
    }
    if (strcmp(name, "WORLD_SIZE") == 0) {
        return rank->size_text;
    }
    if (strcmp(name, "MASTER_ADDR") == 0) {
        return MASTER_ADDR;
    }
    if (strcmp(name, "MASTER_PORT") == 0) {
        return MASTER_PORT_TEXT;
    }
    return strcmp(name, "TORCHELASTIC_USE_AGENT_STORE") == 0 ? "True" : NULL;
}

/* Only the launcher's store can be reached. A rank that is to host one finds its port taken, or
 * nobody comes; any other one tries until its time is up. */
static ddp_status reach_store(struct harness_sim_rank *rank, uint64_t deadline_ns,
                              struct ddp_err *err)
{
    const struct ddp_rendezvous *told = &rank->told;
    bool is_there = strcmp(told->master_addr, MASTER_ADDR) == 0 && told->master_port == MASTER_PORT;

    if (is_there && told->rank == 0 && !told->is_agent_store) {
        return ddp_err_set(err, DDP_E_IO, "port %u of %s is taken", told->master_port,
                           told->master_addr);
    }
    if (!is_there) {
        harness_sim_actor_sleep(actor_of(rank), deadline_ns);
        return ddp_err_set(err, DDP_E_TIMEOUT, "no store at %s:%u", told->master_addr,
                           told->master_port);
    }
    return DDP_OK;
}

static ddp_status wire_store(void *context, struct ddp_env *env, uint64_t deadline_ns,
                             struct ddp_store **out, struct ddp_err *err)
{
    struct harness_sim_rank *rank = context;
    ddp_status status;

    DDP_TRY(harness_injector_identify(rank->injector, env, lookup, rank, &rank->told, err));
    ddp_recorder_wait_begin(env->recorder, DDP_WAIT_STORE, 0);
    status = reach_store(rank, deadline_ns, err);
    ddp_recorder_wait_end(env->recorder);
    DDP_TRY(status);
    status = ddp_loop_store_create(rank->sim->net, env, out);
    return status == DDP_OK ? DDP_OK : ddp_err_set(err, status, "no store on the simulated net");
}

/* The group forms once every rank has come, as with real transports: others wait here for a missing
 * rank. */
static ddp_status wire_transport(void *context, struct ddp_env *env, struct ddp_store *store,
                                 uint64_t deadline_ns, struct ddp_transport **out,
                                 struct ddp_err *err)
{
    struct harness_sim_rank *rank = context;
    ddp_status status;

    /* Returns once all ranks have come: a rank in here waits for those that are not. */
    ddp_recorder_wait_begin(env->recorder, DDP_WAIT_STORE, 0);
    status = ddp_store_enroll(env, store, "world", rank->told.rank, rank->told.world_size,
                              deadline_ns, err);
    if (status == DDP_OK) {
        status = ddp_store_barrier(env, store, "world", rank->told.world_size, deadline_ns);
    }
    ddp_recorder_wait_end(env->recorder);
    if (status == DDP_E_MEMBER) {
        return status;
    }
    if (status != DDP_OK) {
        return ddp_err_set(err, status, "rank %u: not all of %u ranks came", rank->told.rank,
                           rank->told.world_size);
    }
    status = ddp_loop_create(rank->sim->net, env, "world", env->rank, env->world_size, NULL, out);
    rank->has_joined = status == DDP_OK;
    if (status == DDP_OK) {
        status = harness_injector_transport(rank->injector, out);
    }
    return status == DDP_OK ? DDP_OK : ddp_err_set(err, status, "no end on the simulated net");
}

static ddp_status wire_members(void *context, struct ddp_env *env, struct ddp_store *store,
                               const struct harness_rank_members *members, uint64_t deadline_ns,
                               struct ddp_transport **out, struct ddp_err *err)
{
    struct harness_sim_rank *rank = context;
    ddp_status status;

    ddp_recorder_wait_begin(env->recorder, DDP_WAIT_STORE, 0);
    status = ddp_store_enroll(env, store, members->name, members->member, members->count,
                              deadline_ns, err);
    if (status == DDP_OK) {
        status = ddp_store_barrier(env, store, members->name, members->count, deadline_ns);
    }
    ddp_recorder_wait_end(env->recorder);
    if (status == DDP_E_MEMBER) {
        return status;
    }
    if (status != DDP_OK) {
        return ddp_err_set(err, status, "not all of %u ranks came to %s", members->count,
                           members->name);
    }
    status = ddp_loop_create(rank->sim->net, env, members->name, members->member, members->count,
                             members->ranks, out);
    if (status == DDP_OK) {
        status = harness_injector_transport(rank->injector, out);
    }
    return status == DDP_OK ? DDP_OK : ddp_err_set(err, status, "no end on the simulated net");
}

/* The error message that a real rank would have printed into its log. */
static void write_log(struct harness_sim_rank *rank, ddp_status status, const struct ddp_err *err)
{
    const char *run_dir = rank->sim->options.run_dir;
    struct ddp_text path, text;

    if (status == DDP_OK || run_dir == NULL) {
        return;
    }
    /* Nor its memory, which a fault may have exhausted. */
    ddp_text_init(&path, ddp_mem_pool_mem(rank->pool));
    ddp_text_init(&text, ddp_mem_pool_mem(rank->pool));
    ddp_text_add(&path, "%s/rank%u.log", run_dir, rank->rank);
    ddp_text_add(&text, "rank %u: %s: %s\n", rank->rank, ddp_status_name(status),
                 err->text[0] == '\0' ? ddp_status_text(status) : err->text);
    if (!path.is_failed && !text.is_failed) {
        /* Not one of the rank's own files: a real one's is its standard error. */
        ddp_status written =
            ddp_files_write_atomic(ddp_files_memory_files(rank->sim->files), ddp_text_str(&path),
                                   ddp_text_str(&text), text.size_bytes, NULL);

        rank->sim->status = rank->sim->status == DDP_OK ? written : rank->sim->status;
    }
    ddp_text_fini(&text);
    ddp_text_fini(&path);
}

void harness_sim_rank_main(void *context)
{
    struct harness_sim_rank *rank = context;
    struct ddp_err err = {.text = ""};
    struct harness_sim *sim = rank->sim;
    const struct harness_rank_wiring wiring = {
        .context = rank, .store = wire_store, .transport = wire_transport, .members = wire_members};
    ddp_status status =
        harness_rank_run(&rank->env, sim->config->plan, &sim->options, &wiring, &err);
    int code = status == DDP_OK ? 0 : 1;

    write_log(rank, status, &err);
    set_process(rank, HARNESS_PROCESS_EXITED, code);
    rank->end =
        (struct harness_rank_end){.how = HARNESS_END_EXITED, .code = code, .time_ns = now_ns(rank)};
}

ddp_status harness_sim_rank_init(struct harness_sim *sim, uint32_t index, struct ddp_err *err)
{
    struct harness_sim_rank *rank = &sim->ranks[index];

    DDP_TRY(ddp_mem_pool_create(&rank->pool));
    rank->storage = sim->storage + index * sim->storage_bytes_per_rank;
    /* The process id is in the trace, so it must be the same in every run. */
    ddp_recorder_init(&rank->recorder, rank->storage, sim->ring_entry_count,
                      &sim->scheduler.clock.base, index, sim->world_size, index + 1);
    (void)snprintf(rank->rank_text, sizeof(rank->rank_text), "%u", index);
    (void)snprintf(rank->size_text, sizeof(rank->size_text), "%u", sim->world_size);
    rank->env = (struct ddp_env){.rank = index,
                                 .world_size = sim->world_size,
                                 .mem = ddp_mem_pool_mem(rank->pool),
                                 .clock = &sim->scheduler.clock.base,
                                 .files = ddp_files_memory_files(sim->files),
                                 .idle = &actor_of(rank)->idle,
                                 .recorder = &rank->recorder};
    rank->victim = (struct harness_victim){.context = rank,
                                           .kill = victim_kill,
                                           .exit = victim_exit,
                                           .stop = victim_stop,
                                           .delay = victim_delay};
    set_process(rank, HARNESS_PROCESS_RUNNING, 0);
    if (sim->config->plan->fault_count > 0) {
        DDP_TRY(harness_injector_create(&rank->env, sim->config->plan, &rank->victim,
                                        &rank->injector, err));
        rank->env.faults = harness_injector_hook(rank->injector);
        rank->env.files = harness_injector_files(rank->injector, rank->env.files);
        rank->env.mem = harness_injector_mem(rank->injector);
    }
    return DDP_OK;
}

static void drop(struct harness_sim_rank *rank)
{
    DDP_ASSERT(rank->pool != NULL);
    harness_sim_scheduler_remove(&rank->sim->scheduler, rank->rank);
    /* What a rank wrote before it crashed may have been its pool's own: that is left where it is.
     */
    if (!rank->has_crashed) {
        ddp_mem_pool_destroy(rank->pool);
    }
    rank->pool = NULL;
}

static void kill_end(void *context)
{
    const struct harness_sim_rank *rank = context;

    ddp_loop_net_kill(rank->sim->net, rank->rank);
}

/* Whoever crashed in the network may have left it as nobody can close it. */
static void leave_net(struct harness_sim_rank *rank)
{
    if (!rank->sim->is_net_broken && !harness_sim_guard(rank->sim, kill_end, rank)) {
        rank->sim->is_net_broken = true;
    }
}

void harness_sim_rank_settle(struct harness_sim_rank *rank)
{
    DDP_ASSERT(rank->process.state == HARNESS_PROCESS_EXITED ||
               rank->process.state == HARNESS_PROCESS_SIGNALED);
    /* A rank that joined the group has closed its end of the network itself. */
    if (rank->is_vanished || !rank->has_joined) {
        if (rank->sim->config->plan->job.on_loss == HARNESS_ON_LOSS_CONTINUE &&
            rank->recorder.page->seq_posted > 0) {
            ddp_loop_net_excuse(rank->sim->net, rank->rank);
        }
        leave_net(rank);
    }
    if (rank->is_vanished) {
        /* Whatever killed the rank may have taken its machine along. */
        ddp_files_memory_crash(rank->sim->files);
    } else {
        harness_injector_destroy(rank->injector);
        rank->sim->stats.leaked_block_count += ddp_mem_pool_block_count(rank->pool);
    }
    drop(rank);
}

void harness_sim_rank_reap(struct harness_sim_rank *rank)
{
    rank->end =
        (struct harness_rank_end){.how = HARNESS_END_REAPED,
                                  .code = SIGKILL,
                                  .time_ns = now_ns(rank),
                                  .is_stopped = rank->process.state == HARNESS_PROCESS_STOPPED};
    leave_net(rank);
    drop(rank);
}
