/* Slurm's node lists: "node[03-05,9],other", "rack[1-2]-n[01-40]". Internal to the rendezvous. */
#ifndef DDPCORE_STORE_NODE_LIST_H
#define DDPCORE_STORE_NODE_LIST_H

#include <stddef.h>

#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first host of a list. The whole list must be well-formed: host names of letters, digits, '.',
 * '_' and '-', in which brackets hold numbers and rising ranges of numbers; the first number of a
 * bracket is used as it is written, zeros included. host: char[size_bytes]. Errors: E_PARSE (err
 * says where), E_OVERFLOW (the host's name does not fit). */
DDP_MUST_USE ddp_status ddp_node_list_first(const char *list, char *host, size_t size_bytes,
                                            struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
