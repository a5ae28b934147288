/* See the header. */
#include "ddpcore/seam/links.h"

#include <stddef.h>

#include "ddpcore/base/status.h"

static void put(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Its writer's own words, or a reader's copy. */
static uint64_t get(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* 32 bits of the group's identity above, and below them the rank + 1. */
uint64_t ddp_links_key(uint64_t comm, uint32_t rank)
{
    DDP_ASSERT(rank < UINT32_MAX);
    return (comm ^ comm >> 32) << 32 | (rank + UINT64_C(1));
}

uint32_t ddp_links_rank_plus_1(uint64_t key)
{
    return (uint32_t)key;
}

uint64_t ddp_links_key_with(uint64_t key, uint32_t rank_plus_1)
{
    return rank_plus_1 == 0 ? 0 : (key & ~UINT64_C(0xffffffff)) | rank_plus_1;
}

void ddp_links_clear(struct ddp_links *links)
{
    for (size_t i = 0; links != NULL && i < DDP_LINKS_SENT_COUNT; i++) {
        put(&links->sent_to[i], 0);
        put(&links->sent[i], 0);
    }
    ddp_links_await(links, 0, 0);
}

/* Receivers move towards the end until one of them is this one, or the last is forgotten. A reader
 * may see one of them twice in between, or with another one's number: it asks when nothing moves.
 */
void ddp_links_send(struct ddp_links *links, uint64_t key, uint64_t sent)
{
    uint64_t at_key = key;
    uint64_t at_sent = sent;

    DDP_ASSERT(key != 0 && sent > 0);
    for (size_t i = 0; links != NULL && i < DDP_LINKS_SENT_COUNT; i++) {
        const uint64_t next_key = get(&links->sent_to[i]);
        const uint64_t next_sent = get(&links->sent[i]);

        put(&links->sent[i], at_sent);
        if (at_key == next_key) {
            return;
        }
        put(&links->sent_to[i], at_key);
        if (next_key == key || next_key == 0) {
            return;
        }
        at_key = next_key;
        at_sent = next_sent;
    }
}

void ddp_links_await(struct ddp_links *links, uint64_t key, uint64_t number)
{
    if (links == NULL || (get(&links->due_from) == key && get(&links->due) == number)) {
        return;
    }
    put(&links->due, number);
    put(&links->due_from, key);
}

uint64_t ddp_links_sent_to(const struct ddp_links *links, uint64_t key)
{
    for (size_t i = 0; i < DDP_LINKS_SENT_COUNT; i++) {
        if (links->sent_to[i] == key) {
            return links->sent[i];
        }
    }
    return 0;
}

bool ddp_links_knows(const struct ddp_links *links, uint64_t key, uint64_t *out_sent)
{
    *out_sent = ddp_links_sent_to(links, key);
    return *out_sent > 0 || links->sent_to[DDP_LINKS_SENT_COUNT - 1] == 0;
}
