/* See the header. */
#include "harness/plan/posted.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/base/text.h"

#define WORDS_MAX  11
#define WORD_BYTES 64

struct words {
    char word[WORDS_MAX][WORD_BYTES];
    size_t count, next;
    const char *text; /* the whole */
    struct ddp_err *err;
};

static const struct {
    enum ddp_coll_kind kind;
    const char *name;
} algorithms[DDP_ALGORITHM_COUNT] = {
#define X(id, kind, name, emit, segment_bytes, meaning) \
    [DDP_ALGORITHM_##id] = {DDP_COLL_##kind, name},
#include "ddpcore/schedule/algorithm.def"
#undef X
};

static ddp_status refuse(const struct words *words, const char *why)
{
    return ddp_err_set(words->err, DDP_E_PARSE,
                       "\"%.80s\": %s; as in \"reduce f32 100 max root 1 by binomial_reduce\"",
                       words->text, why);
}

static ddp_status split(const char *text, struct words *words)
{
    const char *at = text;

    while (*(at += strspn(at, " ")) != '\0') {
        size_t size_bytes = strcspn(at, " ");

        if (words->count == WORDS_MAX || size_bytes >= WORD_BYTES) {
            return refuse(words, "too many or too long words");
        }
        memcpy(words->word[words->count], at, size_bytes);
        words->word[words->count++][size_bytes] = '\0';
        at += size_bytes;
    }
    return DDP_OK;
}

/* The next word; "" at the end. */
static const char *peek(const struct words *words)
{
    return words->next < words->count ? words->word[words->next] : "";
}

static const char *take(struct words *words)
{
    const char *word = peek(words);

    words->next++;
    return word;
}

static ddp_status take_algorithm(struct words *words, struct harness_posted *out)
{
    const char *name = take(words);

    if (out->kind == DDP_COLL_ALL_REDUCE || out->kind == DDP_COLL_ALL_GATHER) {
        return refuse(words, out->kind == DDP_COLL_ALL_REDUCE
                                 ? "the algorithm of all-reduces is job.collective"
                                 : "the algorithm of all-gathers is job.all_gather");
    }
    for (unsigned i = 0; i < DDP_ALGORITHM_COUNT; i++) {
        if (algorithms[i].name != NULL && algorithms[i].kind == out->kind &&
            strcmp(algorithms[i].name, name) == 0) {
            out->algorithm = (enum ddp_algorithm_id)i;
            return DDP_OK;
        }
    }
    return refuse(words, "no algorithm of that name and kind (`ddprove list collectives`)");
}

static ddp_status take_sizes(struct words *words, struct harness_posted *out)
{
    uint64_t root = 0;

    if (ddp_dtype_parse(take(words), &out->dtype) != DDP_OK || out->dtype == DDP_DTYPE_F64) {
        return refuse(words, "the second word is a type: f32, f16, bf16, i32, i64, u8");
    }
    if (ddp_text_parse_u64(take(words), &out->elem_count) != DDP_OK ||
        out->elem_count > HARNESS_POSTED_ELEMS_MAX) {
        return refuse(words, "the third word is a number of elements, up to 1048576");
    }
    if (ddp_coll_kind_is_sum(out->kind)) {
        if (ddp_redop_parse(peek(words), &out->redop) == DDP_OK) {
            words->next++;
        }
        if (out->redop == DDP_REDOP_PROD || out->dtype == DDP_DTYPE_U8) {
            return refuse(words, "what is reduced is no u8, by sum, max or min");
        }
    }
    if (ddp_coll_kind_has_root(out->kind) && strcmp(peek(words), "root") == 0) {
        words->next++;
        if (ddp_text_parse_u64(take(words), &root) != DDP_OK || root > UINT32_MAX) {
            return refuse(words, "root wants a rank");
        }
        out->root = (uint32_t)root;
    }
    if (strcmp(peek(words), "in_place") == 0) {
        words->next++;
        out->is_in_place = true;
    }
    return DDP_OK;
}

ddp_status harness_posted_parse(const char *text, struct harness_posted *out, struct ddp_err *err)
{
    struct words words = {.text = text, .err = err};

    memset(out, 0, sizeof *out);
    out->redop = DDP_REDOP_SUM;
    out->dtype = DDP_DTYPE_U8;
    DDP_TRY(split(text, &words));
    if (strcmp(peek(&words), "monitored_barrier") == 0) {
        out->kind = DDP_COLL_BARRIER;
        out->is_monitored = true;
        return words.count == 1 ? DDP_OK : refuse(&words, "a word too many");
    }
    if (ddp_coll_kind_parse(take(&words), &out->kind) != DDP_OK) {
        return refuse(&words, "the first word is a kind: all_reduce, broadcast, all_gather, "
                              "barrier, monitored_barrier, reduce_scatter, reduce, all_to_all");
    }
    if (out->kind != DDP_COLL_BARRIER) {
        DDP_TRY(take_sizes(&words, out));
    }
    if (strcmp(peek(&words), "by") == 0) {
        words.next++;
        DDP_TRY(take_algorithm(&words, out));
    }
    if (strcmp(peek(&words), "in") == 0) {
        words.next++;
        if (peek(&words)[0] == '\0' || strlen(peek(&words)) >= sizeof out->group) {
            return refuse(&words, "in wants a name of job.groups");
        }
        (void)snprintf(out->group, sizeof out->group, "%s", take(&words));
    }
    return words.next >= words.count ? DDP_OK : refuse(&words, "a word too many");
}

ddp_status harness_posted_group(const struct harness_posted *posted, const struct harness_job *job,
                                uint32_t *out, struct harness_group *out_group, struct ddp_err *err)
{
    *out = 0;
    if (posted->group[0] == '\0') {
        return DDP_OK;
    }
    for (uint32_t i = 0; i < job->groups.count; i++) {
        DDP_TRY(harness_group_parse(job->groups.items[i], out_group, err));
        if (strcmp(out_group->name, posted->group) == 0) {
            *out = i + 1;
            return DDP_OK;
        }
    }
    return ddp_err_set(err, DDP_E_NOT_FOUND, "no group %s: job.groups names those that there are",
                       posted->group);
}

/* Floats of moderate size whose bits are all used, so that every order of adding shows. */
static void put(void *out, enum ddp_dtype dtype, uint64_t i, uint64_t random)
{
    uint64_t sign = random >> 63;
    uint64_t exponent = random >> 32 & 7;
    uint32_t f32 = (uint32_t)(sign << 31 | (121 + exponent) << 23 | (random & 0x7fffff));
    uint16_t f16 = (uint16_t)(sign << 15 | (10 + exponent) << 10 | (random & 0x3ff));
    uint16_t bf16 = (uint16_t)(sign << 15 | (121 + exponent) << 7 | (random & 0x7f));
    int64_t whole = (int64_t)(random % 200001) - 100000;

    switch (dtype) {
    case DDP_DTYPE_F32:
        memcpy((uint32_t *)out + i, &f32, sizeof f32);
        break;
    case DDP_DTYPE_F16:
        ((uint16_t *)out)[i] = f16;
        break;
    case DDP_DTYPE_BF16:
        ((uint16_t *)out)[i] = bf16;
        break;
    case DDP_DTYPE_I32:
        ((int32_t *)out)[i] = (int32_t)whole;
        break;
    case DDP_DTYPE_I64:
        ((int64_t *)out)[i] = whole;
        break;
    default:
        ((uint8_t *)out)[i] = (uint8_t)random;
        break;
    }
}

void harness_posted_fill(const struct harness_posted *posted, uint64_t seed, uint32_t step,
                         uint32_t index, uint32_t rank, uint64_t total_count, void *out)
{
    uint64_t stream = ddp_hash_combine(ddp_hash_combine(seed, step),
                                       ddp_hash_combine((uint64_t)index << 32 | rank, 0x706f7374));

    for (uint64_t i = 0; i < total_count; i++) {
        put(out, posted->dtype, i, ddp_hash_combine(stream, i));
    }
}
