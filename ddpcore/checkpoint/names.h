/* The dict's name table, for the files of this folder. */
#ifndef DDPCORE_CHECKPOINT_NAMES_H
#define DDPCORE_CHECKPOINT_NAMES_H

#include "ddpcore/checkpoint/state_dict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rebuild the table with room for `count` names more than now, renames included. Cannot fail when
 * the table is large enough already. */
DDP_MUST_USE ddp_status ddp_state_dict_reserve(struct ddp_state_dict *dict, size_t count);
/* Set an entry's name (takes it over, frees the old one); room for it was reserved. Lookups of the
 * old name no longer find the entry. */
void ddp_state_dict_rename(struct ddp_state_dict *dict, size_t entry_index, char *name);
/* Entry called "module." * depth + name, or NULL. */
const struct ddp_tensor_entry *ddp_state_dict_find_prefixed(const struct ddp_state_dict *dict,
                                                            uint32_t depth, const char *name);

#ifdef __cplusplus
}
#endif
#endif
