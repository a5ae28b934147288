/* PyTorch's assignment of parameters to buckets: compute_bucket_assignment_by_size of
 * torch/csrc/distributed/c10d/reducer.cpp, and the turn of the list in nn/parallel/distributed.py.
 *
 * One bucket of each type is open at a time. Walking on, a parameter is appended to its type's open
 * bucket, which closes once it holds its cap: so the parameter that reaches the cap may exceed it.
 * PyTorch leaves the order of the buckets that are still open behind the last parameter, one a
 * type, to a hash table; here it is that of their last parameters, in which gradients fill them. */
#include "ddpcore/ddp/bucket.h"

/* The buckets of one type. */
struct type_walk {
    bool is_open, is_any_closed;
    int32_t bucket;    /* the open one: buckets are numbered as they are opened */
    size_t bytes;      /* in it */
    size_t last_place; /* of its parameters */
};

struct walk {
    const struct ddp_param *params;
    size_t param_count;
    const int32_t *order; /* NULL: forwards */
    struct type_walk types[DDP_DTYPE_COUNT];
    int32_t *bucket_of; /* [place] */
    int32_t *turn;      /* [bucket] its place in the list */
    int32_t opened, closed;
};

static size_t param_at(const struct walk *walk, size_t place)
{
    return walk->order != NULL ? (size_t)walk->order[place] : place;
}

static void close_bucket(struct walk *walk, struct type_walk *type)
{
    DDP_ASSERT(type->is_open && walk->closed < walk->opened);
    walk->turn[type->bucket] = walk->closed++;
    type->is_open = false;
    type->is_any_closed = true;
    type->bytes = 0;
}

static void append(struct walk *walk, size_t place, const size_t caps[2])
{
    const struct ddp_param *param = &walk->params[param_at(walk, place)];
    struct type_walk *type = &walk->types[param->dtype];

    if (!type->is_open) {
        type->bucket = walk->opened++;
        type->is_open = true;
    }
    DDP_ASSERT((size_t)walk->opened <= walk->param_count);
    walk->bucket_of[place] = type->bucket;
    type->last_place = place;
    type->bytes += ddp_param_size_bytes(param);
    if (type->bytes >= caps[type->is_any_closed ? 1 : 0]) {
        close_bucket(walk, type);
    }
}

static void close_rest(struct walk *walk)
{
    while (walk->closed < walk->opened) {
        struct type_walk *next = NULL;

        for (size_t i = 0; i < DDP_DTYPE_COUNT; i++) {
            if (walk->types[i].is_open &&
                (next == NULL || walk->types[i].last_place < next->last_place)) {
                next = &walk->types[i];
            }
        }
        DDP_ASSERT(next != NULL);
        close_bucket(walk, next);
    }
}

/* Bucket by bucket, parameters in the order of the walk. */
static void list_buckets(const struct walk *walk, int32_t *out_order, int32_t *out_sizes)
{
    size_t first = 0;

    for (int32_t b = 0; b < walk->opened; b++) {
        out_sizes[b] = 0;
    }
    for (size_t place = 0; place < walk->param_count; place++) {
        out_sizes[walk->turn[walk->bucket_of[place]]]++;
    }
    for (int32_t b = 0; b < walk->opened; b++) { /* where each bucket's next parameter goes */
        const int32_t size = out_sizes[b];

        out_sizes[b] = (int32_t)first;
        first += (size_t)size;
    }
    for (size_t place = 0; place < walk->param_count; place++) {
        const int32_t turn = walk->turn[walk->bucket_of[place]];

        DDP_ASSERT(turn >= 0 && turn < walk->opened);
        out_order[out_sizes[turn]++] = (int32_t)param_at(walk, place);
    }
    for (int32_t b = walk->opened; b-- > 1;) { /* ends back into sizes */
        out_sizes[b] -= out_sizes[b - 1];
    }
}

ddp_status ddp_bucket_assign(struct ddp_mem *mem, const struct ddp_param *params,
                             size_t param_count, const int32_t *order, const size_t caps[2],
                             int32_t *out_order, int32_t *out_sizes, size_t *out_count)
{
    struct walk walk = {.params = params, .param_count = param_count, .order = order};

    DDP_ASSERT(caps[0] > 0 && caps[1] > 0);
    walk.bucket_of = ddp_mem_array(mem, 2 * param_count, sizeof(*walk.bucket_of));
    if (walk.bucket_of == NULL) {
        return DDP_E_NOMEM;
    }
    walk.turn = walk.bucket_of + param_count;
    for (size_t place = 0; place < param_count; place++) {
        append(&walk, place, caps);
    }
    close_rest(&walk);
    DDP_ASSERT(walk.closed == walk.opened && (size_t)walk.opened <= param_count);
    /* Forwards, the first parameter of a bucket is its lowest: buckets were opened in the order in
     * which PyTorch sorts them, before it turns the list around. */
    for (int32_t b = 0; order == NULL && b < walk.opened; b++) {
        walk.turn[b] = walk.opened - 1 - b;
    }
    list_buckets(&walk, out_order, out_sizes);
    *out_count = (size_t)walk.opened;
    ddp_mem_free(mem, walk.bucket_of);
    return DDP_OK;
}
