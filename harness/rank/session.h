/* One rank's run: what its parts share. Private to rank. */
#ifndef HARNESS_RANK_SESSION_H
#define HARNESS_RANK_SESSION_H

#include "ddpcore/ddp/batch_norm.h"
#include "ddpcore/ddp/ddp.h"
#include "ddpcore/ddp/group.h"
#include "ddpcore/ddp/loader.h"
#include "ddpcore/ddp/scaler.h"
#include "ddpcore/device/transfer.h"
#include "ddpcore/mpi/mpi.h"
#include "harness/plan/continued.h"
#include "harness/plan/group.h"
#include "harness/rank/batches.h"
#include "harness/rank/opaque.h"
#include "harness/rank/plugin.h"
#include "harness/rank/probe.h"
#include "harness/rank/rank.h"

/* Writes each schedule that the rank uses into run_dir/schedules/rank<N>.txt. */
struct harness_schedule_dump {
    struct ddp_schedule_observer observer; /* first: the observer's pointer is the dump's */
    struct ddp_env *env;
    const char *run_dir;
    ddp_status status; /* a schedule could not be written: neither it nor a later one was used */
};

/* Keeps tensors as files. */
struct harness_keeper {
    struct ddp_witness witness; /* whose context is the keeper */
    struct ddp_env *env;
    const struct harness_rank_options *options;
    struct ddp_err *err;
    bool *is_kept;     /* [wanted_count]; NULL: nothing is wanted */
    ddp_status status; /* first failure */
};

/* Reads batches ahead. */
struct harness_reader {
    struct ddp_loader *loader; /* NULL: the rank reads each one when it needs it */
    struct ddp_env *env;
    const struct ref_data *data;
    size_t row_count;
    uint64_t next; /* micro-batch that the loader gives next */
    struct ddp_loader_batch batch;
    /* By faults, for the batch that is read next: */
    int64_t delay_ms; /* atomic; it takes longer; below 0: it never ends */
    bool is_ending;   /* atomic; its worker ends */
    bool has_threads; /* else the loader reads in the rank's own */
};

/* Memory of evaluations, kept from the first one on. */
struct harness_evaluated {
    uint32_t *samples; /* of one batch */
    void *tallies;     /* this rank's, then every rank's */
};

/* Memory of collectives that the plan posts: of the largest so far, for each of their two blocks.
 */
struct harness_post_room {
    char *block[2];
    size_t size_bytes[2];
};

struct harness_session {
    struct ddp_env *env;
    const struct harness_plan *plan;
    const struct harness_rank_options *options;
    struct ddp_err *err;

    struct ref_job job;
    struct ref_data own_data;    /* unless the options share one */
    const struct ref_data *data; /* NULL until open */
    struct ddp_sampler_config sampler;
    size_t batch_rows; /* of this rank */
    struct harness_batches batches;
    struct harness_reader reader;

    struct ddp_store *store;
    struct ddp_group group;
    /* job.groups; of those that it is in, coll != NULL */
    struct ddp_group groups[HARNESS_GROUPS_MAX];
    uint64_t numbers; /* of the last collective of all groups: they count together */
    struct harness_schedule_dump dump;
    struct harness_plugin_emitter plugin; /* if the plan's collective is one */
    struct harness_opaque_mover opaque;   /* if it is one that moves the data itself */
    struct harness_keeper keeper;
    struct ddp_device *device;
    struct ddp_device *card;       /* a GPU, beneath its observer; else NULL */
    struct ddp_transfer transfer;  /* of tensors that the host has to see */
    struct ddp_progress *progress; /* mapped for the device, or NULL */
    struct ddp_coll *engine;       /* what really moves data, below its decorators */
    struct ddp_nccl_library *nccl; /* NULL unless the plan's collective needs it */
    struct ddp_mpi_library *mpi;   /* likewise */
    struct ref_model *model;
    struct ref_optimizer *optimizer;
    struct ddp_hook *hook; /* or NULL */
    struct ddp_mixed_precision mixed;
    struct ddp *ddp;
    struct ddp_batch_norm *batch_norm; /* over all ranks' batches, if is_batch_norm_synced */
    struct ref_exchange exchange;      /* the model's */

    struct ddp_param *params; /* the model's */
    size_t param_count;
    struct ddp_param *tensors; /* [tensor_count] params, then buffers: what a checkpoint holds */
    size_t tensor_count;
    uint64_t *param_salt; /* [param_count] ddp_hash_text(name) */
    bool *is_used;        /* [param_count] */
    bool *is_delayed;     /* [param_count] job.delayed; NULL: none */
    float *features;      /* of the batch being trained on */
    int32_t *labels;
    float *targets;

    double lr_world;       /* what the learning rate is scaled by, */
    int64_t lr_late_steps; /* and by how much its schedule is late */
    struct ddp_scaler scaler;
    struct ddp_sampler_state resume; /* where the samples go on, if is_resuming */
    uint64_t first_step;             /* steps that the restored checkpoint had completed */
    uint64_t steps_done;             /* completed in all */
    int64_t batch_shift; /* so many batches a fault skipped, less those it made this rank repeat */
    int64_t untimely;    /* the number of a call that comes at a wrong time; 0: none (untimely.c) */
    /* job.on_loss: continue: the buffers as they were when the step `kept_step` began, which is
     * done again if nobody completes it. */
    void **kept_buffers; /* [tensor_count - param_count] */
    uint64_t kept_step;
    struct harness_evaluated evaluated;
    struct harness_post_room post_room;
    /* After the loss: plan and options of the new group, which take the place
     * of the first ones. */
    const struct harness_plan *first_plan;
    struct harness_plan *own_plan; /* NULL: nothing was lost, or it did not go on */
    struct harness_rank_options own_options;
    char *own_dir;
    bool is_group, is_batch_norm_synced; /* `group`, batch_norm are there */
    bool is_group_lost;                  /* `group` is the one that was lost, for the recovery */
    bool is_clip_early;                  /* gradients are clipped before they are reduced */
    bool is_resuming; /* of another number of ranks, and it says where samples go on */
    bool is_parted;   /* this rank has passed the last barrier */
    bool is_left_out; /* a SKIP before the group existed: the rank leaves at once */
};

/* Calls go down this list of files and never up: rank.c; survive.c; setup.c, step.c; device.c,
 * checkpoint.c; reader.c, position.c, buffers.c, session.c. */

/* session.c */
/* Enter a phase unless the rank is in it. */
void harness_session_phase(struct harness_session *session, enum ddp_phase phase);
/* Pass a fault point without payload: OK, or E_INJECTED. *out: what a fault makes of what follows.
 */
DDP_MUST_USE ddp_status harness_session_ask(struct harness_session *session,
                                            enum ddp_fault_point point, enum ddp_fault_action *out);
/* The same. *out_skip (may be NULL): what follows is to be left out. */
DDP_MUST_USE ddp_status harness_session_point(struct harness_session *session,
                                              enum ddp_fault_point point, bool *out_skip);

/* Where the checkpoint lies; out: also after a failure. */
struct ddp_text;
DDP_MUST_USE ddp_status harness_session_checkpoint_path(const struct harness_session *session,
                                                        struct ddp_text *out);

/* model.c: model and optimizer. Errors: E_INJECTED; E_INVALID: a fault made them impossible;
 * E_NOMEM. */
DDP_MUST_USE ddp_status harness_session_build_model(struct harness_session *session);
/* warm.c: on a GPU, before the first collective. */
DDP_MUST_USE ddp_status harness_session_warm_up(struct harness_session *session);
/* device.c: the plan's device, behind its observer where there is something to see. */
DDP_MUST_USE ddp_status harness_session_open_device(struct harness_session *session);
void harness_session_close_device(struct harness_session *session);
/* The plan's collective over a transport, which it takes over, also on failure. */
DDP_MUST_USE ddp_status harness_session_open_collective(struct harness_session *session,
                                                        bool is_strict,
                                                        struct ddp_transport *transport,
                                                        struct ddp_coll **out);
/* The same for a group of some ranks, by schedules; _open_collective comes first. */
DDP_MUST_USE ddp_status harness_session_open_subgroup(struct harness_session *session,
                                                      const struct harness_group *group,
                                                      bool is_strict,
                                                      struct ddp_transport *transport,
                                                      struct ddp_coll **out);
/* A mark in the compute stream, for whoever watches the device. Nothing without a device of its
 * own. */
DDP_MUST_USE ddp_status harness_session_mark(struct harness_session *session, enum ddp_mark mark,
                                             uint64_t index);
/* End the library (MPI) that all ranks end together, after the last barrier. */
void harness_session_finish_collective(struct harness_session *session);
/* Measure the order of the all-reduce's sums, if the collective does not state it. All ranks
 * call. */
DDP_MUST_USE ddp_status harness_session_probe(struct harness_session *session,
                                              enum harness_probe_round round);

/* logged.c: what DDP says of this rank's job, if the job wants to know (job.logging). */
DDP_MUST_USE ddp_status harness_session_log(struct harness_session *session);

/* setup.c: from nothing to a wrapped model. session->is_left_out may be set. */
DDP_MUST_USE ddp_status harness_session_open(struct harness_session *session,
                                             const struct harness_rank_wiring *wiring);
/* Release whatever exists; posts nothing. */
void harness_session_close(struct harness_session *session);

/* Of a session whose plan and environment have become those of another group: everything that
 * depends on them, up to a wrapped model. */
DDP_MUST_USE ddp_status harness_session_reopen(struct harness_session *session,
                                               struct ddp_transport *transport);
/* In the new group: all tensors, and how many steps the optimizer took, become the source's. */
DDP_MUST_USE ddp_status harness_session_spread_state(struct harness_session *session);
/* What stands on the group, and what _reopen makes anew. */
void harness_session_unwrap(struct harness_session *session);

/* survive.c: ranks that have lost another one, with `status`, agree on who lives, make a group of
 * those, and start from the same state; then there is more to train. */
DDP_MUST_USE ddp_status harness_session_survive(struct harness_session *session,
                                                const struct harness_rank_wiring *wiring,
                                                ddp_status status);

/* buffers.c: keep the model's buffers as they are before a step; and put them back, if it is this
 * one that is done again. Nothing unless the job goes on after a loss. */
DDP_MUST_USE ddp_status harness_session_keep_buffers(struct harness_session *session,
                                                     uint64_t step);
void harness_session_put_back_buffers(struct harness_session *session, uint64_t step);
void harness_session_drop_buffers(struct harness_session *session);

/* hook.c: hook `number` of the plan's choices, NULL for the first. options: local_sgd's start;
 * powersgd's error_feedback, and its seed. */
enum { HARNESS_HOOK_OPTION_COUNT = 3 };
DDP_MUST_USE ddp_status harness_session_open_hook(struct harness_session *session, int64_t number,
                                                  const int64_t options[HARNESS_HOOK_OPTION_COUNT],
                                                  struct ddp_hook **out);
/* is_delayed, from job.delayed. */
DDP_MUST_USE ddp_status harness_session_list_delayed(struct harness_session *session);
/* What it keeps, in a checkpoint, as "hook.<name>"; and from there, once the model was wrapped. */
#define HARNESS_HOOK_PREFIX "hook."
struct ddp_state_dict;
/* Its tensors that differ from rank to rank, of all ranks. */
struct harness_hook_gathered {
    char *block;          /* of the device; NULL: there are none */
    size_t *offset_bytes; /* [state tensors] where all ranks' begin; SIZE_MAX: that is the same */
};
/* All ranks, or none. out: to be dropped, also after an error. */
DDP_MUST_USE ddp_status harness_session_gather_hook(struct harness_session *session,
                                                    struct harness_hook_gathered *out);
void harness_session_drop_gathered(struct harness_session *session,
                                   struct harness_hook_gathered *gathered);
DDP_MUST_USE ddp_status harness_session_save_hook(struct harness_session *session,
                                                  const struct harness_hook_gathered *gathered,
                                                  struct ddp_state_dict *dict);
DDP_MUST_USE ddp_status harness_session_load_hook(struct harness_session *session);
/* Survivors begin with a hook that has kept nothing, and counts passes as the job counts steps. */
void harness_session_set_hook_steps(struct harness_session *session);
/* Post-local SGD: the parameters' averages over ranks, if they are due behind the step. */
DDP_MUST_USE ddp_status harness_session_average(struct harness_session *session, uint32_t step);
/* batch_norm.c: the model's BatchNorms exchange their statistics, if the plan says so. */
DDP_MUST_USE ddp_status harness_session_sync_batch_norm(struct harness_session *session);

/* rate.c */
/* What this rank's training loop goes by; a fault may alter it. */
DDP_MUST_USE ddp_status harness_session_configure_trainer(struct harness_session *session);
/* The learning rate of a step. */
float harness_session_rate(const struct harness_session *session, uint64_t step);
/* The averaged gradients, if the job scales its loss; and the scale of the next step. */
DDP_MUST_USE ddp_status harness_session_unscale(struct harness_session *session);
void harness_session_rescale(struct harness_session *session);
/* The scale in a checkpoint's metadata. */
struct ddp_state_dict;
DDP_MUST_USE ddp_status harness_session_save_scale(const struct harness_session *session,
                                                   struct ddp_state_dict *dict);
DDP_MUST_USE ddp_status harness_session_load_scale(struct harness_session *session,
                                                   const struct ddp_state_dict *dict);
/* The averaged gradients, if the job clips. */
DDP_MUST_USE ddp_status harness_session_clip(struct harness_session *session);
/* By a fault: the local gradients, which are then handed to DDP. */
DDP_MUST_USE ddp_status harness_session_clip_early(struct harness_session *session);
/* A call of the core at a wrong time, if the rank is to make one here. */
DDP_MUST_USE ddp_status harness_session_untimely(struct harness_session *session, bool is_in_pass);

/* evaluate.c: after a step, if the job evaluates then. */
DDP_MUST_USE ddp_status harness_session_evaluate(struct harness_session *session, uint32_t step);
void harness_session_end_evaluations(struct harness_session *session);

/* step.c: all optimizer steps, or as many as the rank's data allows. */
DDP_MUST_USE ddp_status harness_session_train(struct harness_session *session);

/* checkpoint.c */
/* Rank 0 writes; without join every rank passes a barrier. */
DDP_MUST_USE ddp_status harness_session_save(struct harness_session *session);
/* groups.c: join those of job.groups that the rank is in. */
DDP_MUST_USE ddp_status harness_session_open_groups(struct harness_session *session,
                                                    const struct harness_rank_wiring *wiring,
                                                    uint64_t deadline_ns);
void harness_session_close_groups(struct harness_session *session);
/* posted.c: the collectives of job.posts, once. */
DDP_MUST_USE ddp_status harness_session_post(struct harness_session *session, uint32_t step);
void harness_session_end_posts(struct harness_session *session);
/* Read the options' checkpoint into model and optimizer and set first_step. */
DDP_MUST_USE ddp_status harness_session_restore(struct harness_session *session);

/* reader.c: out's features, labels and targets, of these samples, which are micro-batch `number`.
 */
DDP_MUST_USE ddp_status harness_session_open_reader(struct harness_session *session);
void harness_session_close_reader(struct harness_session *session);
DDP_MUST_USE ddp_status harness_session_read(struct harness_session *session, uint64_t number,
                                             const uint32_t *samples, size_t rows,
                                             struct ref_batch *out, float **out_features);

/* position.c: where the samples go on, in a checkpoint's metadata; and from there into is_resuming
 * and resume. */
struct ddp_state_dict;
DDP_MUST_USE ddp_status harness_session_put_position(const struct harness_session *session,
                                                     struct ddp_state_dict *dict);
DDP_MUST_USE ddp_status harness_session_take_position(struct harness_session *session,
                                                      const struct ddp_state_dict *file);

/* schedule_dump.c */
void harness_schedule_dump_init(struct harness_schedule_dump *dump, struct ddp_env *env,
                                const char *run_dir);

/* payload.c: keeps the tensors that the options want, from here to close. env->recorder's witness.
 * close: also after a failure, with nothing open. */
DDP_MUST_USE ddp_status harness_keeper_open(struct harness_keeper *keeper, struct ddp_env *env,
                                            const struct harness_rank_options *options,
                                            struct ddp_err *err);
void harness_keeper_close(struct harness_keeper *keeper);

/* file_out.c: through env->files, not atomic. A whole file, which is removed if that fails; behind
 * what a file has, of which a part may be left there. */
DDP_MUST_USE ddp_status harness_file_write(struct ddp_env *env, const char *path, const void *data,
                                           size_t size_bytes, struct ddp_err *err);
DDP_MUST_USE ddp_status harness_file_append(struct ddp_env *env, const char *path, const void *data,
                                            size_t size_bytes, struct ddp_err *err);

#endif
