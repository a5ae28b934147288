/* The signature: one number for everything that the members of a group must agree on, but for the
 * operation's number. Every message carries both. */
#include "ddpcore/base/hash.h"
#include "ddpcore/collective/collective.h"

/* Fields that a kind does not use are left out: they need not match. */
uint64_t ddp_coll_signature(uint64_t comm, const struct ddp_coll_args *args)
{
    const uint64_t redop = ddp_coll_kind_is_sum(args->kind) ? (uint64_t)args->redop : 0;
    const uint64_t root = ddp_coll_kind_has_root(args->kind) ? args->root : 0;
    const uint64_t fields[] = {comm,
                               (uint64_t)args->kind,
                               redop,
                               (uint64_t)args->dtype,
                               root,
                               args->elem_count,
                               (uint64_t)args->role,
                               args->index};

    return ddp_hash_bytes(fields, sizeof(fields), 0);
}
