/* What the program tells by names: what its buckets hold, which parameters got no gradient, which
 * keys are saved and loaded. */
#include <pthread.h>
#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/self.h"

/* Names and what they belong to come in a row. */
static pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER;

void guest_self_record_name(struct guest_page *page, enum guest_event event, uint32_t index,
                            const char *name)
{
    const size_t length = name != NULL ? strlen(name) : 0;
    const size_t size = length < GUEST_TEXT_BYTES - 1 ? length : GUEST_TEXT_BYTES - 1;
    size_t at = 0;

    do {
        const size_t rest = size - at;
        uint64_t arg[GUEST_ARG_COUNT] = {index | (uint64_t)(at / GUEST_NAME_BYTES) << 32};

        memcpy(&arg[1], name != NULL ? name + at : "",
               rest < GUEST_NAME_BYTES ? rest : GUEST_NAME_BYTES);
        guest_self_record(page, event, arg);
        at += GUEST_NAME_BYTES;
    } while (at < size);
}

static void record_names(struct guest_page *page, const char *const *names, uint32_t count,
                         uint32_t first)
{
    for (uint32_t i = 0; i < count; i++) {
        guest_self_record_name(page, GUEST_EVENT_NAME, first + i, names[i]);
    }
}

void ddprove_guest_bucket(uint32_t model, uint32_t bucket, const char *const *names, uint32_t count)
{
    struct guest_page *page = guest_self_page();

    if (page == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&telling);
    record_names(page, names, count, 0);
    guest_self_record(page, GUEST_EVENT_BUCKET,
                      (const uint64_t[GUEST_ARG_COUNT]){model, bucket, count});
    (void)pthread_mutex_unlock(&telling);
}

void ddprove_guest_unused(uint32_t model, const char *const *names, uint32_t count, int is_allowed)
{
    struct guest_page *page = guest_self_page();

    if (page == NULL || guest_self_arena()->is_observed == 0) {
        return;
    }
    (void)pthread_mutex_lock(&telling);
    record_names(page, names, count, 0);
    guest_self_record(page, GUEST_EVENT_UNUSED,
                      (const uint64_t[GUEST_ARG_COUNT]){model, count, is_allowed != 0});
    (void)pthread_mutex_unlock(&telling);
}

void ddprove_guest_keys(enum ddprove_guest_keys_of what, const char *const *keys,
                        uint32_t key_count, const char *const *wanted, uint32_t wanted_count)
{
    struct guest_page *page = guest_self_page();

    if (page == NULL || guest_self_arena()->is_observed == 0) {
        return;
    }
    (void)pthread_mutex_lock(&telling);
    record_names(page, keys, key_count, 0);
    record_names(page, wanted, wanted_count, key_count);
    guest_self_record(page, GUEST_EVENT_KEYS,
                      (const uint64_t[GUEST_ARG_COUNT]){what, key_count, wanted_count});
    (void)pthread_mutex_unlock(&telling);
}
