/* The learned program as text and back, and what it says of a step. */
#include "harness/observed/learned.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trace/line.h"
#include "harness/watch/names.h"

enum { WORLD_MAX = 4096, STEPS_MAX = 1 << 20, PERIOD_MAX = 4096 };

/* --- printing
 * ----------------------------------------------------------------------------------------------------
 */

static void print_call(const struct harness_learned_call *call, struct ddp_text *out)
{
    ddp_text_add(out, "call kind=%s dtype=%s redop=%s root=%" PRIu32,
                 harness_watch_kind_name(guest_op_kind(call->op)),
                 harness_watch_dtype_name(guest_op_dtype(call->op)),
                 harness_watch_redop_name(guest_op_redop(call->op)), guest_op_root(call->op));
    if (call->elem_count == HARNESS_LEARNED_ANY) {
        ddp_text_add(out, " count=*");
    } else {
        ddp_text_add(out, " count=%" PRIu64, call->elem_count);
    }
    ddp_text_add(out, " bucket=%" PRIu64 "\n", call->bucket);
}

void harness_learned_print(const struct harness_learned *learned, struct ddp_text *out)
{
    ddp_text_add(out, "ddprove-guest-program 1 world=%" PRIu32 " steps=%" PRIu32 "\n",
                 learned->world_size, learned->step_count);
    for (size_t c = 0; c < learned->count; c++) {
        const struct harness_learned_comm *comm = &learned->comms[c];

        ddp_text_add(out, "comm %zu nth=%" PRIu32 " ranks=", c, comm->nth);
        for (uint32_t r = 0; r < comm->rank_count; r++) {
            ddp_text_add(out, "%s%" PRIu32, r > 0 ? "," : "", comm->ranks[r]);
        }
        ddp_text_add(out, " text=%s\n", comm->name);
        for (size_t s = 0; s < comm->count; s++) {
            const struct harness_learned_steps *steps = &comm->steps[s];

            ddp_text_add(out, "steps %" PRIu32 "-%" PRIu32 " calls=%zu\n", steps->first,
                         steps->last, steps->count);
            for (size_t i = 0; i < steps->count; i++) {
                print_call(&steps->calls[i], out);
            }
        }
    }
}

/* --- reading
 * -----------------------------------------------------------------------------------------------------
 */

struct parser {
    struct harness_line line;
    struct harness_learned *out;
    uint64_t calls; /* that the last line of steps announces */
    bool has_head;
};

static ddp_status refuse(struct parser *parser, const char *what)
{
    return harness_line_refuse(&parser->line, parser->line.buffer, what);
}

static struct harness_learned_comm *last_comm(struct parser *parser)
{
    return parser->out->count > 0 ? &parser->out->comms[parser->out->count - 1] : NULL;
}

static struct harness_learned_steps *last_steps(struct parser *parser)
{
    struct harness_learned_comm *comm = last_comm(parser);

    return comm != NULL && comm->count > 0 ? &comm->steps[comm->count - 1] : NULL;
}

static ddp_status parse_head(struct parser *parser)
{
    uint64_t world_size = 0;
    uint64_t step_count = 0;

    if (parser->line.token_count != 4 ||
        strcmp(parser->line.token[0], "ddprove-guest-program") != 0 ||
        strcmp(parser->line.token[1], "1") != 0) {
        return refuse(parser, "this is no learned program, or of another version");
    }
    DDP_TRY(harness_line_find_u64(&parser->line, "world", &world_size));
    DDP_TRY(harness_line_find_u64(&parser->line, "steps", &step_count));
    if (world_size == 0 || world_size > WORLD_MAX || step_count == 0 || step_count > STEPS_MAX) {
        return refuse(parser, "world= wants the number of ranks, and steps= that of steps");
    }
    parser->out->step_count = (uint32_t)step_count;
    parser->out->world_size = (uint32_t)world_size;
    parser->has_head = true;
    return DDP_OK;
}

/* ranks=0,1,3: rising, each of them in the world. */
static ddp_status parse_ranks(struct parser *parser, struct harness_learned_comm *comm)
{
    const char *text = harness_line_find(&parser->line, "ranks");

    comm->ranks = ddp_mem_array(parser->out->mem, parser->out->world_size, sizeof *comm->ranks);
    if (comm->ranks == NULL) {
        return DDP_E_NOMEM;
    }
    while (text != NULL) {
        char *end = NULL;
        const unsigned long long rank = strtoull(text, &end, 10);

        if (end == text || (*end != ',' && *end != '\0') || rank >= parser->out->world_size ||
            (comm->rank_count > 0 && rank <= comm->ranks[comm->rank_count - 1])) {
            return refuse(parser, "ranks= wants rising numbers of ranks, with commas");
        }
        comm->ranks[comm->rank_count++] = (uint32_t)rank;
        text = *end == ',' ? end + 1 : NULL;
    }
    return comm->rank_count > 0 ? DDP_OK : refuse(parser, "ranks= is missing");
}

static ddp_status parse_comm(struct parser *parser)
{
    struct harness_learned *out = parser->out;
    struct harness_learned_comm *comms =
        ddp_mem_grow(out->mem, out->comms, out->count, &out->capacity, sizeof *comms);
    struct harness_learned_comm comm = {.nth = 0};
    uint64_t nth = 0;

    if (comms == NULL) {
        return DDP_E_NOMEM;
    }
    out->comms = comms;
    DDP_TRY(harness_line_find_u64(&parser->line, "nth", &nth));
    DDP_TRY(parse_ranks(parser, &comm));
    if (nth > UINT32_MAX || parser->line.tail == NULL ||
        strlen(parser->line.tail) >= sizeof comm.name) {
        return refuse(parser, "a communicator has nth=, ranks= and text=, its name");
    }
    comm.nth = (uint32_t)nth;
    memcpy(comm.name, parser->line.tail, strlen(parser->line.tail) + 1);
    comms[out->count++] = comm;
    return DDP_OK;
}

static ddp_status parse_steps(struct parser *parser)
{
    struct harness_learned_comm *comm = last_comm(parser);
    struct harness_learned_steps *before = last_steps(parser);
    struct harness_learned_steps *steps;
    struct harness_learned_steps next = {.first = 0};
    const char *text = parser->line.token_count > 1 ? parser->line.token[1] : "";
    char *dash = NULL;
    char *end = NULL;
    const unsigned long long first = strtoull(text, &dash, 10);
    const unsigned long long last = *dash == '-' ? strtoull(dash + 1, &end, 10) : 0;

    if (comm == NULL || dash == text || *dash != '-' || end == dash + 1 || *end != '\0' ||
        last < first || last >= parser->out->step_count ||
        (before != NULL && first <= before->last)) {
        return refuse(parser, "steps of a communicator are first-last, rise, and are of the run");
    }
    DDP_TRY(harness_line_find_u64(&parser->line, "calls", &parser->calls));
    steps =
        ddp_mem_grow(parser->out->mem, comm->steps, comm->count, &comm->capacity, sizeof *steps);
    if (steps == NULL) {
        return DDP_E_NOMEM;
    }
    comm->steps = steps;
    next.first = (uint32_t)first;
    next.last = (uint32_t)last;
    steps[comm->count++] = next;
    return DDP_OK;
}

static ddp_status parse_call(struct parser *parser)
{
    struct harness_learned_steps *steps = last_steps(parser);
    const char *kind = harness_line_find(&parser->line, "kind");
    const char *dtype = harness_line_find(&parser->line, "dtype");
    const char *redop = harness_line_find(&parser->line, "redop");
    const char *count = harness_line_find(&parser->line, "count");
    struct harness_learned_call call = {.elem_count = HARNESS_LEARNED_ANY};
    struct harness_learned_call *calls;
    uint32_t numbers[3] = {0, 0, 0};
    uint64_t root = 0;

    if (steps == NULL || steps->count >= parser->calls) {
        return refuse(parser, "steps say how many calls follow");
    }
    if (kind == NULL || !harness_watch_kind_find(kind, &numbers[0]) || dtype == NULL ||
        !harness_watch_dtype_find(dtype, &numbers[1]) || redop == NULL ||
        !harness_watch_redop_find(redop, &numbers[2])) {
        return refuse(parser, "kind=, dtype= or redop= is missing or unknown");
    }
    DDP_TRY(harness_line_find_u64(&parser->line, "root", &root));
    DDP_TRY(harness_line_find_u64(&parser->line, "bucket", &call.bucket));
    if (count == NULL || strcmp(count, "*") != 0) {
        DDP_TRY(harness_line_find_u64(&parser->line, "count", &call.elem_count));
    }
    if (root > UINT32_MAX) {
        return refuse(parser, "a number is too large");
    }
    call.op = guest_op_pack(numbers[0], numbers[1], numbers[2], (uint32_t)root);
    calls =
        ddp_mem_grow(parser->out->mem, steps->calls, steps->count, &steps->capacity, sizeof *calls);
    if (calls == NULL) {
        return DDP_E_NOMEM;
    }
    steps->calls = calls;
    calls[steps->count++] = call;
    return DDP_OK;
}

static ddp_status parse_line(struct parser *parser, const char *line, size_t size)
{
    const struct harness_learned_steps *steps;
    const char *word;

    DDP_TRY(harness_line_tokenise(&parser->line, line, size));
    if (parser->line.token_count == 0) {
        return refuse(parser, "an empty line");
    }
    if (!parser->has_head) {
        return parse_head(parser);
    }
    word = parser->line.token[0];
    steps = last_steps(parser);
    if (strcmp(word, "call") == 0) {
        return parse_call(parser);
    }
    if (steps != NULL && steps->count < parser->calls) {
        return refuse(parser, "a call of the steps above is missing");
    }
    parser->calls = 0;
    return strcmp(word, "comm") == 0    ? parse_comm(parser)
           : strcmp(word, "steps") == 0 ? parse_steps(parser)
                                        : refuse(parser, "an unknown line");
}

static bool is_same_list(const struct harness_learned_call *a, size_t a_count,
                         const struct harness_learned_call *b, size_t b_count)
{
    return a_count == b_count && (a_count == 0 || memcmp(a, b, a_count * sizeof *a) == 0);
}

/* What the steps of a record say, without a guess. */
static const struct harness_learned_call *recorded_step(const struct harness_learned_comm *comm,
                                                        uint32_t step, size_t *out_count)
{
    static const struct harness_learned_call none;

    *out_count = 0;
    for (size_t s = 0; s < comm->count && comm->steps[s].first <= step; s++) {
        if (step <= comm->steps[s].last) {
            *out_count = comm->steps[s].count;
            return *out_count > 0 ? comm->steps[s].calls : &none;
        }
    }
    return &none;
}

/* For each step, a number that only steps with the same calls share. NULL: out of memory. */
static uint32_t *number_steps(const struct harness_learned *learned,
                              const struct harness_learned_comm *comm)
{
    uint32_t *numbers = ddp_mem_array(learned->mem, learned->step_count, sizeof *numbers);

    for (size_t i = 0; numbers != NULL && i < comm->count; i++) {
        const struct harness_learned_steps *steps = &comm->steps[i];
        size_t same = 0;

        while (!is_same_list(comm->steps[same].calls, comm->steps[same].count, steps->calls,
                             steps->count)) {
            same++;
        }
        for (uint32_t s = steps->first; s <= steps->last; s++) {
            numbers[s] = steps->count > 0 ? (uint32_t)same + 1 : 0;
        }
    }
    return numbers;
}

/* The later half of the steps before `end` are each like the one a period before. */
static bool is_periodic(const uint32_t *numbers, uint32_t end, uint32_t period)
{
    for (uint32_t s = end; s-- > end / 2;) {
        if (numbers[s] != numbers[s - period]) {
            return false;
        }
    }
    return true;
}

/* The smallest period of the steps, after a beginning of its own; 0: none. What the run did at its
 * very end may stand in its last step, which then takes no part. */
static uint32_t find_period(const uint32_t *numbers, uint32_t step_count)
{
    for (uint32_t left_out = 0; left_out < 2 && left_out < step_count; left_out++) {
        const uint32_t end = step_count - left_out;

        for (uint32_t period = 1; period <= end / 2 && period <= PERIOD_MAX; period++) {
            if (is_periodic(numbers, end, period)) {
                return period;
            }
        }
    }
    return 0;
}

const struct harness_learned_call *harness_learned_step(const struct harness_learned *learned,
                                                        const struct harness_learned_comm *comm,
                                                        uint32_t step, size_t *out_count)
{
    const uint32_t period = comm->period;

    if (step >= learned->step_count && period == 0) {
        *out_count = 0;
        return NULL;
    }
    if (step >= learned->step_count) {
        /* the last one that repeats, and before it the one with the same remainder */
        const uint32_t last = learned->step_count - 2;

        step = last - (last % period + period - step % period) % period;
    }
    return recorded_step(comm, step, out_count);
}

bool harness_learned_is_alike(const struct harness_learned_call *learned,
                              const struct harness_watch_call *call)
{
    return learned->op == call->op && learned->bucket == call->bucket &&
           (learned->elem_count == HARNESS_LEARNED_ANY || learned->elem_count == call->elem_count);
}

ddp_status harness_learned_parse(struct ddp_mem *mem, const char *text, size_t size_bytes,
                                 struct harness_learned *out, struct ddp_err *err)
{
    struct parser parser = {.line = {.err = err}, .out = out};
    const struct harness_learned_steps *steps;
    ddp_status status;
    size_t start = 0;

    *out = (struct harness_learned){.mem = mem};
    status = harness_line_open(&parser.line, mem, size_bytes);
    while (status == DDP_OK && start < size_bytes) {
        const char *newline = memchr(text + start, '\n', size_bytes - start);
        const size_t end = newline != NULL ? (size_t)(newline - text) : size_bytes;

        parser.line.line++;
        status = parse_line(&parser, text + start, end - start);
        start = end + 1;
    }
    if (status != DDP_OK) {
        return status;
    }
    steps = last_steps(&parser);
    if (!parser.has_head || (steps != NULL && steps->count < parser.calls)) {
        return ddp_err_set(err, DDP_E_PARSE, "%u:1: the program has no end", parser.line.line + 1);
    }
    for (size_t c = 0; c < out->count; c++) {
        uint32_t *numbers = number_steps(out, &out->comms[c]);

        if (numbers == NULL) {
            return DDP_E_NOMEM;
        }
        out->comms[c].period = find_period(numbers, out->step_count);
        ddp_mem_free(mem, numbers);
    }
    return DDP_OK;
}
