/* The file of what was learned. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/collective/tuned.h"
#include "tests/ct.h"

#define HEAD  "ddprove collectives 1\nmachine some, 2 cores\n"
#define SMALL "ranks 2 bytes 4096 algorithm recursive_doubling segment 0\n"
#define LARGE "ranks 2 bytes 65536 algorithm ring segment 1024\n"

CT_TEST(tuned, what_is_written_is_read)
{
    static struct ddp_tuned tuned;
    struct ddp_err err;
    struct ddp_text text;

    CT_REQUIRE(ddp_tuned_parse(HEAD SMALL LARGE "ranks 4 bytes 9 algorithm one_shot segment 0\n",
                               &tuned, &err) == DDP_OK);
    CT_CHECK(strcmp(tuned.machine, "some, 2 cores") == 0);
    CT_REQUIRE(tuned.world_count == 2 && tuned.world[0].choice_count == 2);
    CT_CHECK(tuned.world[0].choice[1].segment_bytes == 1024);
    ddp_text_init(&text, ddp_mem_system());
    ddp_tuned_print(&tuned, &text);
    CT_CHECK(strcmp(ddp_text_str(&text),
                    HEAD SMALL LARGE "ranks 4 bytes 9 algorithm one_shot segment 0\n") == 0);
    ddp_text_fini(&text);
}

static void refuse(const char *text, const char *words)
{
    static struct ddp_tuned tuned;
    struct ddp_err err = {""};

    CT_CHECK(ddp_tuned_parse(text, &tuned, &err) == DDP_E_PARSE);
    if (strstr(err.text, words) == NULL) {
        CT_FAIL("\"%s\" does not say \"%s\"", err.text, words);
    }
}

CT_TEST(tuned, what_is_wrong_is_said_with_its_line)
{
    refuse("", "line 0: it ends here");
    refuse("ddprove collectives 2\n", "line 1: it does not begin with");
    refuse("ddprove collectives 1\n", "line 1: it ends here");
    refuse("ddprove collectives 1\nmachines\n", "line 2: the second line names the machine");
    refuse(HEAD "ranks 2 bytes 4096 algorithm ring segment 0", "line 3: it has no end");
    refuse(HEAD "ranks 0 bytes 4096 algorithm ring segment 0\n", "line 3: a choice is");
    refuse(HEAD "ranks 2 bytes 4096 algorithm ring segment 0 \n", "line 3: a choice is");
    refuse(HEAD "ranks 2 bytes -1 algorithm ring segment 0\n", "line 3: a choice is");
    refuse(HEAD "ranks 2 bytes 4096 algorithm bruck_all_gather segment 0\n",
           "line 3: there is no all-reduce \"bruck_all_gather\"");
    refuse(HEAD LARGE SMALL, "line 4: choices are in order of bytes");
    refuse(HEAD SMALL "ranks 1 bytes 9 algorithm ring segment 0\n",
           "line 4: choices are in order of ranks");
}

CT_TEST(tuned, worlds_are_kept_in_order_and_replaced)
{
    static struct ddp_tuned tuned;
    const struct ddp_tuned_world four = {
        .ranks = 4, .choice = {{9, DDP_ALGORITHM_RING, 0}}, .choice_count = 1};
    const struct ddp_tuned_world two = {
        .ranks = 2,
        .choice = {{10, DDP_ALGORITHM_ONE_SHOT, 0}, {20, DDP_ALGORITHM_RING, 0}},
        .choice_count = 2};
    struct ddp_tuned_world other = four;

    other.choice[0].algorithm = DDP_ALGORITHM_LINEAR;
    CT_REQUIRE(ddp_tuned_put(&tuned, &four) == DDP_OK);
    CT_REQUIRE(ddp_tuned_put(&tuned, &two) == DDP_OK);
    CT_REQUIRE(ddp_tuned_put(&tuned, &other) == DDP_OK);
    CT_REQUIRE(tuned.world_count == 2 && tuned.world[0].ranks == 2);
    CT_CHECK(ddp_tuned_find(&tuned, 3) == NULL);
    CT_REQUIRE(ddp_tuned_find(&tuned, 4) != NULL);
    CT_CHECK(ddp_tuned_find(&tuned, 4)->choice[0].algorithm == DDP_ALGORITHM_LINEAR);
}
