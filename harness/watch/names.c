/* The guest library's tables as names. */
#include "harness/watch/names.h"

#include <string.h>

#include "harness/guest/ddprove_guest.h"

static const char *const kinds[] = {
#define X(id, name) [DDPROVE_GUEST_##id] = name,
    DDPROVE_GUEST_KIND_TABLE(X)
#undef X
};
static const char *const dtypes[] = {
#define X(id, name, size_bytes) [DDPROVE_GUEST_##id] = name,
    DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
};
static const char *const redops[] = {
#define X(id, name) [DDPROVE_GUEST_##id] = name,
    DDPROVE_GUEST_REDOP_TABLE(X)
#undef X
};
static const char *const states[] = {
#define X(id, name) [HARNESS_WATCH_##id] = name,
    HARNESS_WATCH_STATE_TABLE(X)
#undef X
};

#define COUNT(names) (sizeof(names) / sizeof((names)[0]))

static const char *name_of(const char *const *names, size_t count, uint32_t index)
{
    return index < count ? names[index] : "?";
}

static bool find(const char *const *names, size_t count, const char *name, uint32_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

const char *harness_watch_kind_name(uint32_t kind)
{
    return name_of(kinds, COUNT(kinds), kind);
}

const char *harness_watch_dtype_name(uint32_t dtype)
{
    return name_of(dtypes, COUNT(dtypes), dtype);
}

const char *harness_watch_redop_name(uint32_t redop)
{
    return name_of(redops, COUNT(redops), redop);
}

const char *harness_watch_state_name(enum harness_watch_state state)
{
    return name_of(states, COUNT(states), (uint32_t)state);
}

bool harness_watch_kind_find(const char *name, uint32_t *out)
{
    return find(kinds, COUNT(kinds), name, out);
}

bool harness_watch_dtype_find(const char *name, uint32_t *out)
{
    return find(dtypes, COUNT(dtypes), name, out);
}

bool harness_watch_redop_find(const char *name, uint32_t *out)
{
    return find(redops, COUNT(redops), name, out);
}

bool harness_watch_state_find(const char *name, enum harness_watch_state *out)
{
    uint32_t index = 0;

    if (!find(states, COUNT(states), name, &index)) {
        return false;
    }
    *out = (enum harness_watch_state)index;
    return true;
}
