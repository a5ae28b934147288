/* Which messages a rank has sent, and which one it waits for: words of its page that tell a message
 * that was lost from one that was never sent. Messages have numbers, from 0, for each ordered pair
 * of members of a group.
 *
 * One writer, any number of readers. The words are written one by one, without the page's change
 * counter: they are to be read of ranks that have done nothing for long. */
#ifndef DDPCORE_SEAM_LINKS_H
#define DDPCORE_SEAM_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* So many receivers are remembered, those to whom was sent last. */
#define DDP_LINKS_SENT_COUNT 8

struct ddp_links {
    uint64_t due_from; /* what ddp_links_key gives of the rank whose message is due; 0: of nobody */
    uint64_t due;      /* that message's number */
    uint64_t sent_to[DDP_LINKS_SENT_COUNT]; /* as due_from, the last one first */
    uint64_t sent[DDP_LINKS_SENT_COUNT];    /* how many messages were sent there */
};

/* A rank in a group; not 0. */
uint64_t ddp_links_key(uint64_t comm, uint32_t rank);
/* The rank of a key, + 1; 0 of 0. The same key with another rank. */
uint32_t ddp_links_rank_plus_1(uint64_t key);
uint64_t ddp_links_key_with(uint64_t key, uint32_t rank_plus_1);

/* Each accepts links == NULL, and then does nothing. */
void ddp_links_clear(struct ddp_links *links);
/* sent: how many messages went to that rank so far. */
void ddp_links_send(struct ddp_links *links, uint64_t key, uint64_t sent);
/* key: 0 = no message is due. Cheap when unchanged. */
void ddp_links_await(struct ddp_links *links, uint64_t key, uint64_t number);

/* How many messages have been sent to that rank of that group; 0: not known. */
uint64_t ddp_links_sent_to(const struct ddp_links *links, uint64_t key);
/* The same, and whether it is known: true with 0 if nothing was ever sent there; false if that rank
 * may be one of those that are no longer remembered. */
bool ddp_links_knows(const struct ddp_links *links, uint64_t key, uint64_t *out_sent);

#ifdef __cplusplus
}
#endif
#endif
