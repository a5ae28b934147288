/* Random lists of parameters and what ddpcore makes of them in PyTorch's bucket order, as lines
 * that test_assignments.py compares with PyTorch's own function. assignments COUNT SEED
 *
 *   case CAP CAP | DTYPE:ELEMENTS ... | walk: PARAM ... | first: BUCKET / BUCKET ... | rebuilt: ...
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ddpcore/base/prng.h"
#include "ddpcore/ddp/bucket.h"

enum { PARAMS_MAX = 60 };

static const enum ddp_dtype dtypes[] = {DDP_DTYPE_F32, DDP_DTYPE_F16, DDP_DTYPE_BF16,
                                        DDP_DTYPE_F64};

struct list {
    struct ddp_param params[PARAMS_MAX];
    int32_t walk[PARAMS_MAX];
    size_t count, caps[2];
};

/* Sizes as models have them: many small vectors, some large matrices, some empty. */
static size_t draw_elems(struct ddp_prng *prng)
{
    switch (ddp_prng_below(prng, 8)) {
    case 0:
        return 0;
    case 1:
    case 2:
        return ddp_prng_below(prng, 2000000);
    case 3:
        return 1 + ddp_prng_below(prng, 8);
    default:
        return 1 + ddp_prng_below(prng, 5000);
    }
}

static void draw(struct ddp_prng *prng, struct list *list)
{
    static const size_t caps[][2] = {
        {(size_t)1 << 20, (size_t)25 << 20}, {1, 1}, {4096, 65536}, {65536, 65536}, {1000, 100000}};
    const size_t row = ddp_prng_below(prng, sizeof(caps) / sizeof(caps[0]));
    const uint64_t type_count = 1 + ddp_prng_below(prng, sizeof(dtypes) / sizeof(dtypes[0]));

    *list = (struct list){.count = 1 + ddp_prng_below(prng, PARAMS_MAX)};
    list->caps[0] = caps[row][0];
    list->caps[1] = caps[row][1];
    for (size_t i = 0; i < list->count; i++) {
        const size_t other = ddp_prng_below(prng, i + 1);

        list->params[i].dtype = dtypes[ddp_prng_below(prng, type_count)];
        list->params[i].elem_count = draw_elems(prng);
        list->walk[i] = list->walk[other];
        list->walk[other] = (int32_t)i;
    }
}

static int print_buckets(const struct list *list, const char *name, const int32_t *walk)
{
    int32_t order[PARAMS_MAX], sizes[PARAMS_MAX];
    size_t bucket_count = 0, place = 0;

    if (ddp_bucket_assign(ddp_mem_system(), list->params, list->count, walk, list->caps, order,
                          sizes, &bucket_count) != DDP_OK) {
        return 1;
    }
    (void)printf(" | %s:", name);
    for (size_t b = 0; b < bucket_count; b++) {
        (void)printf("%s", b > 0 ? " /" : "");
        for (int32_t i = 0; i < sizes[b]; i++) {
            (void)printf(" %" PRId32, order[place++]);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    const uint64_t count = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    struct ddp_prng prng =
        ddp_prng_make(argc == 3 ? strtoull(argv[2], NULL, 10) : 0, "assignments");

    for (uint64_t c = 0; c < count; c++) {
        struct list list;

        draw(&prng, &list);
        (void)printf("case %zu %zu |", list.caps[0], list.caps[1]);
        for (size_t i = 0; i < list.count; i++) {
            (void)printf(" %s:%zu", ddp_dtype_name(list.params[i].dtype),
                         list.params[i].elem_count);
        }
        (void)printf(" | walk:");
        for (size_t i = 0; i < list.count; i++) {
            (void)printf(" %" PRId32, list.walk[i]);
        }
        if (print_buckets(&list, "first", NULL) != 0 ||
            print_buckets(&list, "rebuilt", list.walk) != 0) {
            return 1;
        }
        (void)printf("\n");
    }
    return count > 0 ? 0 : 2;
}
