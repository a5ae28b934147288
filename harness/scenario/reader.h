/* From a tree to a plan: a walk over the keys (read.c) reads each value as its row says
 * (read_value.c, read_list.c), then asks what keys mean together (check_*.c). All that a plan keeps
 * is copied into its memory. Errors: E_PARSE, E_INVALID with the place, E_NOMEM. */
#ifndef HARNESS_SCENARIO_READER_H
#define HARNESS_SCENARIO_READER_H

#include "harness/plan/key.h"
#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_reader {
    struct ddp_mem *scratch; /* dropped when parsing ends */
    struct ddp_mem *keep;    /* the plans' */
    struct ddp_err *err;
    const char *path;
    struct harness_plan *plan; /* being read: sections that come first are there */
};

/* Reads one value into the member of its row. node: NULL if the key is absent and has no default
 * that is a plain value; then the member becomes what the type says of absence. */
typedef ddp_status harness_read_value(const struct harness_reader *reader,
                                      const struct harness_key *key,
                                      const struct harness_yaml_node *node, void *member);
harness_read_value harness_read_text, harness_read_model, harness_read_dataset, harness_read_name,
    harness_read_collective, harness_read_int, harness_read_index, harness_read_u64,
    harness_read_number, harness_read_kib, harness_read_ms, harness_read_bool, harness_read_true,
    harness_read_rank, harness_read_forever, harness_read_scalar;
harness_read_value harness_read_texts, harness_read_names, harness_read_set, harness_read_sizes,
    harness_read_per_rank, harness_read_culprit, harness_read_budgets;

/* Reads a section into its struct; map NULL: the section is absent, and its keys get defaults. */
DDP_MUST_USE ddp_status harness_read_section(const struct harness_reader *reader,
                                             enum harness_section section,
                                             const struct harness_yaml_node *map, void *kept);

/* What keys of a section mean together, once they are read. map NULL: the section is absent. */
typedef ddp_status harness_scenario_check_section(const struct harness_reader *reader,
                                                  const struct harness_yaml_node *map, void *kept);
harness_scenario_check_section harness_scenario_check_top, harness_scenario_check_job,
    harness_scenario_check_optimizer, harness_scenario_check_fault, harness_scenario_check_trigger,
    harness_scenario_check_action, harness_scenario_check_expect, harness_scenario_check_op,
    harness_scenario_check_restore, harness_scenario_check_canary, harness_scenario_check_io;

/* check_wait.c: of check_top.c. */
DDP_MUST_USE ddp_status harness_scenario_check_waits(const struct harness_reader *reader,
                                                     const struct harness_yaml_node *top,
                                                     const struct harness_plan *plan);
/* check_posts.c: of check_job.c. */
DDP_MUST_USE ddp_status harness_scenario_check_posts(const struct harness_reader *reader,
                                                     const struct harness_yaml_node *map,
                                                     const struct harness_job *job);

/* check_guest.c: what a guest's job can do, and what only a guest's can. */
DDP_MUST_USE ddp_status harness_scenario_check_guest_trigger(const struct harness_reader *reader,
                                                             const struct harness_yaml_node *map,
                                                             const struct harness_trigger *at);
DDP_MUST_USE ddp_status harness_scenario_check_guest_fault(const struct harness_reader *reader,
                                                           const struct harness_yaml_node *map,
                                                           const struct harness_fault *fault);
DDP_MUST_USE ddp_status harness_scenario_check_guest_action(const struct harness_reader *reader,
                                                            const struct harness_yaml_node *map,
                                                            const struct harness_action *action);
DDP_MUST_USE ddp_status harness_scenario_check_guest_op(const struct harness_reader *reader,
                                                        const struct harness_yaml_node *map);
DDP_MUST_USE ddp_status harness_scenario_check_guest_judged(const struct harness_reader *reader,
                                                            const struct harness_yaml_node *map,
                                                            const struct harness_expect *expect);
DDP_MUST_USE ddp_status harness_scenario_check_guest_top(const struct harness_reader *reader,
                                                         const struct harness_yaml_node *map,
                                                         const struct harness_plan *plan);
/* The node of a key; NULL if it is absent. */
const struct harness_yaml_node *harness_reader_node(const struct harness_yaml_node *map,
                                                    enum harness_row row);
/* "the list of names has no such entry; did you mean ...?" Index and value of an entry else. */
DDP_MUST_USE ddp_status harness_reader_find(const struct harness_reader *reader,
                                            const struct harness_yaml_node *node,
                                            enum harness_names list, size_t *out_index,
                                            int *out_value);
/* "<key> wants <wanted>, not ..." Returns E_PARSE. */
ddp_status harness_reader_refuse(const struct harness_reader *reader, const struct harness_key *key,
                                 const struct harness_yaml_node *node, const char *wanted);
/* "unknown <what> "mpl"; did you mean "mlp"?", or the list if it is short and nothing is near. */
ddp_status harness_reader_refuse_name(const struct harness_reader *reader,
                                      const struct harness_yaml_node *node, const char *what,
                                      const char *const *all, size_t count);
ddp_status harness_reader_out_of_memory(const struct harness_reader *reader);
/* Copies into the plan's memory. NULL text gives NULL. */
DDP_MUST_USE ddp_status harness_reader_keep(const struct harness_reader *reader, const char *text,
                                            const char **out);

#ifdef __cplusplus
}
#endif
#endif
