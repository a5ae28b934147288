/* Learned programs as text, and what they say of steps. */
#include <stdio.h>
#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/observed/learned.h"
#include "tests/ct.h"

#define HEAD   "ddprove-guest-program 1 world=2 steps=6\n"
#define COMM   "comm 0 nth=0 ranks=0,1 text=world\n"
#define REDUCE "call kind=all_reduce dtype=f32 redop=sum root=0 count=10 bucket=1\n"
#define ANY    "call kind=all_gather dtype=i64 redop=none root=0 count=* bucket=0\n"

static struct ddp_mem_pool *pool;

static ddp_status parse(const char *text, struct harness_learned *out, struct ddp_err *err)
{
    DDP_TRY(ddp_mem_pool_create(&pool));
    return harness_learned_parse(ddp_mem_pool_mem(pool), text, strlen(text), out, err);
}

/* How many calls a step has; -1: nobody knows. */
static int calls_in(const struct harness_learned *learned, uint32_t step)
{
    size_t count = 0;

    return harness_learned_step(learned, &learned->comms[0], step, &count) != NULL ? (int)count
                                                                                   : -1;
}

CT_TEST(learned, is_printed_as_it_was_read)
{
    static const char text[] =
        HEAD COMM "steps 0-0 calls=2\n" REDUCE ANY "steps 2-5 calls=1\n" REDUCE
                  "comm 1 nth=1 ranks=1 text=a name of words\n";
    struct harness_learned learned;
    struct ddp_err err = {{0}};
    struct ddp_text again;

    CT_REQUIRE_OK(parse(text, &learned, &err));
    ddp_text_init(&again, learned.mem);
    harness_learned_print(&learned, &again);
    CT_CHECK_STR(ddp_text_str(&again), text);
    CT_CHECK_EQ_U64(learned.comms[0].steps[0].calls[1].elem_count, HARNESS_LEARNED_ANY);
    ddp_mem_pool_destroy(pool);
}

CT_TEST(learned, nonsense_is_refused)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"", "1:1: the program has no end"},
        {"\n", "1:1: an empty line"},
        {"ddprove-guest-program 2 world=2 steps=6\n", "1:1: this is no learned program"},
        {"ddprove-guest-program 1 world=0 steps=6\n", "1:1: world= wants"},
        {"ddprove-guest-program 1 world=2 steps=0\n", "1:1: world= wants"},
        {"ddprove-guest-program 1 world=2 steps=99999999\n", "1:1: world= wants"},
        {HEAD "call kind=barrier\n", "2:1: steps say how many calls follow"},
        {HEAD "steps 0-0 calls=1\n", "2:1: steps of a communicator"},
        {HEAD "loop 3\n", "2:1: an unknown line"},
        {HEAD "comm 0 nth=0 ranks=0,2 text=x\n", "2:1: ranks= wants rising"},
        {HEAD "comm 0 nth=0 ranks=1,0 text=x\n", "2:1: ranks= wants rising"},
        {HEAD "comm 0 nth=0 ranks=0; text=x\n", "2:1: ranks= wants rising"},
        {HEAD "comm 0 nth=0 text=x\n", "2:1: ranks= is missing"},
        {HEAD "comm 0 nth=0 ranks=0\n", "2:1: a communicator has nth="},
        {HEAD "comm 0 nth=0 ranks=0 text=a name that is much longer than one can be\n",
         "2:1: a communicator has nth="},
        {HEAD COMM "steps 1-0 calls=1\n", "3:1: steps of a communicator"},
        {HEAD COMM "steps 0-6 calls=1\n", "3:1: steps of a communicator"},
        {HEAD COMM "steps 0- calls=1\n", "3:1: steps of a communicator"},
        {HEAD COMM "steps\n", "3:1: steps of a communicator"},
        {HEAD COMM "steps 0-0\n", "3:1: calls=<number> is missing"},
        {HEAD COMM "steps 0-0 calls=1\n" REDUCE "steps 0-1 calls=1\n", "5:1: steps of a comm"},
        {HEAD COMM "steps 0-0 calls=2\n" REDUCE, "5:1: the program has no end"},
        {HEAD COMM "steps 0-0 calls=2\n" REDUCE COMM, "5:1: a call of the steps above"},
        {HEAD COMM "steps 0-0 calls=1\n" REDUCE REDUCE, "5:1: steps say how many calls"},
        {HEAD COMM "steps 0-0 calls=1\ncall kind=sum dtype=f32 redop=sum root=0 count=1 bucket=0\n",
         "4:1: kind=, dtype= or redop="},
        {HEAD COMM "steps 0-0 calls=1\ncall kind=barrier dtype=f32 redop=sum root=0 count=** "
                   "bucket=0\n",
         "4:1: count=<number> is missing"},
        {HEAD COMM "steps 0-0 calls=1\ncall kind=barrier dtype=f32 redop=sum root=4294967296 "
                   "count=1 bucket=0\n",
         "4:1: a number is too large"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct harness_learned learned;
        struct ddp_err err = {{0}};

        CT_CHECK_STATUS(parse(rows[i].text, &learned, &err), DDP_E_PARSE);
        if (strncmp(err.text, rows[i].error, strlen(rows[i].error)) != 0) {
            CT_FAIL("row %zu: \"%s\", not \"%s\"", i, err.text, rows[i].error);
        }
        ddp_mem_pool_destroy(pool);
    }
}

/* Behind the last step the last ones are repeated, if they are known to repeat. */
CT_TEST(learned, longer_runs)
{
    static const struct {
        const char *steps;
        uint32_t period;
        int calls[10];
    } rows[] = {
        {"steps 0-5 calls=1\n" REDUCE, 1, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {"", 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        {"steps 0-0 calls=1\n" REDUCE, 1, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        /* every second step, from the first or the second on */
        {"steps 0-0 calls=1\n" REDUCE "steps 2-2 calls=1\n" REDUCE "steps 4-4 calls=1\n" REDUCE,
         2,
         {1, 0, 1, 0, 1, 0, 1, 0, 1, 0}},
        {"steps 1-1 calls=1\n" REDUCE "steps 3-3 calls=1\n" REDUCE "steps 5-5 calls=1\n" REDUCE,
         2,
         {0, 1, 0, 1, 0, 1, 0, 1, 0, 1}},
        /* what the run did at its very end is not repeated */
        {"steps 0-4 calls=1\n" REDUCE "steps 5-5 calls=2\n" REDUCE ANY,
         1,
         {1, 1, 1, 1, 1, 2, 1, 1, 1, 1}},
        /* never twice the same */
        {"steps 2-2 calls=1\n" REDUCE "steps 3-3 calls=2\n" REDUCE REDUCE
         "steps 4-4 calls=3\n" REDUCE REDUCE REDUCE
         "steps 5-5 calls=4\n" REDUCE REDUCE REDUCE REDUCE,
         0,
         {0, 0, 1, 2, 3, 4, -1, -1, -1, -1}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct harness_learned learned;
        struct ddp_err err = {{0}};
        char text[2048];

        (void)snprintf(text, sizeof text, HEAD COMM "%s", rows[i].steps);
        CT_REQUIRE_OK(parse(text, &learned, &err));
        CT_CHECK_EQ_U64(learned.comms[0].period, rows[i].period);
        for (uint32_t s = 0; s < 10; s++) {
            if (calls_in(&learned, s) != rows[i].calls[s]) {
                CT_FAIL("row %zu, step %u: %d calls", i, s, calls_in(&learned, s));
            }
        }
        ddp_mem_pool_destroy(pool);
    }
}

CT_TEST(learned, a_count_may_be_any)
{
    const uint64_t op = guest_op_pack(DDPROVE_GUEST_ALL_GATHER, DDPROVE_GUEST_I64, 0, 0);
    const struct harness_watch_call call = {.op = op, .elem_count = 17};

    CT_CHECK(harness_learned_is_alike(&(struct harness_learned_call){op, HARNESS_LEARNED_ANY, 0},
                                      &call));
    CT_CHECK(!harness_learned_is_alike(&(struct harness_learned_call){op, 16, 0}, &call));
    CT_CHECK(!harness_learned_is_alike(&(struct harness_learned_call){op, HARNESS_LEARNED_ANY, 1},
                                       &call));
}
