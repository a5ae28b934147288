/* The parts of the pipeline. Internal to harness/cell. */
#ifndef HARNESS_CELL_STAGE_H
#define HARNESS_CELL_STAGE_H

#include "ddpcore/cuda/cuda.h"
#include "harness/cell/cell.h"
#include "harness/oracle/oracle.h"
#include "harness/record/record.h"
#include "reference/trainer.h"

/* A run in progress. All its memory is in pool. */
struct harness_cell {
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    struct harness_plan plan; /* a shallow copy; restore runs differ in job and faults */
    struct harness_cell_config config;
    const char *run_dir;
    struct ddp_device
        *judge_device; /* where local gradients are computed again; made when judging */
    struct ddp_device_cuda_info gpu; /* what it is, if it is a GPU */
    struct ref_job job;
    const struct ddp_param *params;
    size_t param_count;
    struct harness_tables model;
    uint64_t *batch_counts; /* [ranks] micro-batches that each rank should take; NULL: not asked */
    struct harness_program program;
    struct harness_program bound; /* the same for the batches that ranks took: what is judged */
    struct harness_trace trace;
    struct harness_trace before; /* the part of it until a loss after which ranks went on */
    bool is_parted;              /* there is one */
    int64_t first_step_alone;    /* that survivors did by themselves; -1: there are none */
    char unwritten[256]; /* why the trace is not in the run folder, or not all of it; else empty */
    struct harness_findings findings;
    const struct harness_watch_accounts *accounts; /* of a guest; NULL: of no guest's record */
    struct harness_hashes wanted; /* tensors that would let the oracles judge or say more */
    struct harness_kept *kept;    /* those at hand, from replays; or NULL */
    uint32_t restored_step;
    int64_t end_ns; /* monotonic */
    int64_t start_ns;
};

/* An empty cell with its pool. */
ddp_status harness_stage_open(struct harness_cell *cell, const struct harness_cell_config *config,
                              struct ddp_err *err);
void harness_stage_close(struct harness_cell *cell);
/* Tables and program of a plan. Errors: unknown names. */
ddp_status harness_stage_prepare(struct harness_cell *cell, struct ddp_err *err);
/* prepare's: the order in which rank 0's parameters become ready, if the program depends on it. */
ddp_status harness_stage_ready_order(struct harness_cell *cell, struct ddp_err *err);
/* The rebuilt buckets that rank 0 announced, if they are whole and others than planned; else none.
 */
ddp_status harness_stage_announced(const struct harness_cell *cell,
                                   const struct harness_index *index, struct harness_buckets *out);
/* The program of the run that was recorded: under join what is posted depends on how many batches
 * each rank took, which only the run can know. That it should be others, the ledger says. */
ddp_status harness_stage_bind(struct harness_cell *cell);
/* The files of the run folder that the judge reads. out: [HARNESS_FILES_COUNT]. Errors: E_IO. */
ddp_status harness_stage_find_files(const struct harness_cell *cell,
                                    struct harness_trace_files *out, struct ddp_err *err);
/* A dump holds what the core's algorithm emits for that rank; true, too, where that cannot be told
 * (plug-ins, groups of some ranks). */
bool harness_stage_is_emitted(const struct harness_plan *plan, struct ddp_mem *mem,
                              const struct harness_schedule *dumped);
/* They are those that the trace was written with. Errors: E_CORRUPT, E_IO. */
ddp_status harness_stage_check_files(const struct harness_cell *cell, struct ddp_err *err);
/* Write plan.yaml and program.txt, launch, write the traces. */
ddp_status harness_stage_launch(struct harness_cell *cell, const struct harness_rank_options *rank,
                                struct ddp_err *err);
/* plan.yaml. Errors: E_IO. */
ddp_status harness_stage_write_plan(const struct harness_cell *cell, struct ddp_err *err);
/* The whole of a guest's cell, and its record judged again (guest.c). Errors: E_NOT_FOUND, its
 * program cannot be started; E_PARSE, E_CORRUPT, the record was damaged; E_IO, E_SYSTEM, E_NOMEM.
 */
ddp_status harness_stage_guest(struct harness_cell *cell, json_t **out, struct ddp_err *err);
ddp_status harness_stage_guest_recorded(struct harness_cell *cell, json_t **out,
                                        struct ddp_err *err);
/* accounts.c: what an oracle of a guest judged, and what it did not; null of no guest's record. */
json_t *harness_stage_judged(const struct harness_watch_accounts *accounts);
json_t *harness_stage_not_judged(const struct harness_watch_accounts *accounts);
/* Oracles that the plan asks for and that judged nothing are missing evidence. */
void harness_stage_ask_for_oracles(const struct harness_plan *plan,
                                   const struct harness_watch_accounts *accounts,
                                   struct harness_findings *findings);
/* proof.c: in the run folder, what is kept of a guest's steps and the proof of them. */
#define HARNESS_STAGE_PROOF "proof"
/* Add what the proof says to the record; nothing if the plan asks for none. Errors: E_PARSE. */
ddp_status harness_stage_add_proof(const struct harness_cell *cell,
                                   struct harness_watch_record *record, struct ddp_err *err);
/* A proof that the plan asks for and that has gaps is missing evidence. */
void harness_stage_ask_for_proof(const struct harness_plan *plan,
                                 const struct harness_watch_accounts *accounts,
                                 struct harness_findings *findings);
/* guest_table.c: the text is a guest's record; and what its ranks had come to. */
bool harness_stage_is_guest_record(const char *text);
ddp_status harness_stage_print_guest(const struct harness_cell *cell, const char *run_dir,
                                     const char *text, size_t size_bytes,
                                     const struct harness_diagnosis_options *options,
                                     struct ddp_text *out, struct ddp_err *err);
/* Of a run that is judged as one; and of a part of one that went on after a loss. */
ddp_status harness_stage_check_whole(struct harness_cell *cell, const struct harness_cell *first,
                                     struct ddp_err *err);
ddp_status harness_stage_check_part(struct harness_cell *cell, const struct harness_handover *start,
                                    struct harness_handover *leave, struct ddp_err *err);
/* continued.c: findings of the monitor and of every oracle. first: the run before a restore run, or
 * NULL. */
ddp_status harness_stage_check(struct harness_cell *cell, const struct harness_cell *first,
                               struct ddp_err *err);
/* describe.c: if something differs, repeat the run for its tensors, and judge again from there.
 * first: as above. */
ddp_status harness_stage_describe(struct harness_cell *cell, const struct harness_cell *first,
                                  struct ddp_err *err);
/* The same from what earlier repetitions left in the run folder. */
ddp_status harness_stage_describe_recorded(struct harness_cell *cell,
                                           const struct harness_cell *first, struct ddp_err *err);

/* possible.c: what the plan expects can be found in its job. out_key: as of harness_cell_rehearse.
 */
ddp_status harness_stage_check_possible(const struct harness_plan *plan,
                                        char out_key[HARNESS_BLAMED_KEY_BYTES],
                                        struct ddp_err *err);
/* fired.c: firings that altered something. */
uint32_t harness_stage_fired_count(const struct harness_cell *cell, uint32_t fault);

/* What the restore run showed. Zero-initialise. */
struct harness_restore_result {
    bool is_run;
    int64_t from_step;
    bool is_equal;
    enum harness_verdict verdict;
    struct harness_rank_set culprits;
    bool is_damage_loaded; /* `verdict` says what is wrong with a file that nobody refused */
    char text[512];
    enum harness_verdict other; /* NONE, or the first of what else must be accounted for */
    char other_text[512];
    uint32_t *fired_count; /* of its own faults, in the plan's order */
    bool is_said;          /* a rank said what restore.says asks for, or that asks for nothing */
    const char *said;      /* if not: what was said */
};
/* Copy the checkpoint with the plan's edit, run from it, check. */
ddp_status harness_stage_restore(struct harness_cell *cell, struct harness_restore_result *out,
                                 struct ddp_err *err);

/* Turn a copy of the first run's cell into that of its restore run. Errors: E_NOMEM. */
ddp_status harness_stage_restored(const struct harness_cell *cell, struct harness_cell *second);
/* continued.c: where another number of ranks finds its samples behind so many steps of the cell:
 * at what its ranks together have not used of the epoch. Worked out from the plan, not from what
 * ranks or files say. Nothing is moved where ranks have shares or batches of different sizes. */
void harness_stage_move_start(const struct harness_cell *cell, uint32_t steps_done,
                              struct harness_plan *plan);
/* What a checked restore run showed. Sorts its findings. */
ddp_status harness_stage_conclude(struct harness_cell *second, struct harness_restore_result *out);
/* Evidence that a restore run lacks is missing in the whole. */
void harness_stage_adopt_gap(struct harness_cell *cell, const struct harness_cell *second);

/* Facts for the judge; arrays live in cell->mem. */
ddp_status harness_stage_facts(struct harness_cell *cell,
                               const struct harness_restore_result *restore,
                               struct harness_judge_facts *out);
/* The last line in the log of the first of these ranks that said anything, else of the first rank
 * that did; in cell->mem. NULL: nobody did. */
char *harness_stage_said(const struct harness_cell *cell, const char *run_dir, uint32_t world_size,
                         const struct harness_rank_set *first, uint32_t *out_rank);
/* Whether a rank's last line has this text; if not, *out_said is another rank's, or "". */
bool harness_stage_is_said(const struct harness_cell *cell, const char *run_dir,
                           uint32_t world_size, const char *text, const char **out_said);
/* verdict.json. */
json_t *harness_stage_verdict(const struct harness_cell *cell,
                              const struct harness_judge_facts *facts,
                              const struct harness_judgement *judgement);

/* Where the cell's folder lies. */
struct ddp_files *harness_stage_files(const struct harness_cell_config *config);
/* Make a folder there. */
ddp_status harness_stage_make_dirs(const struct harness_cell_config *config, const char *path,
                                   struct ddp_err *err);
/* A whole file of a run folder, in the cell's memory and followed by a NUL. Errors: E_NOT_FOUND,
 * E_IO. */
ddp_status harness_stage_read(const struct harness_cell *cell, const char *dir, const char *name,
                              void **out, size_t *out_size_bytes, struct ddp_err *err);
/* "<dir>/<name>" in mem. */
char *harness_stage_path(struct ddp_mem *mem, const char *dir, const char *name);
ddp_status harness_stage_write(const struct harness_cell_config *config, const char *dir,
                               const char *name, const struct ddp_text *text, struct ddp_err *err);

#endif
