/* See the header. */
#include "tests/unit/nccl/nccl_turns.h"

#include <fnmatch.h>
#include <sched.h>
#include <stdio.h>

#include "ddpcore/base/clock.h"
#include "tests/ct.h"
#include "tests/standin/nccl/hooks.h"

#define LEFT_BEHIND_NS (10 * DDP_NS_PER_S)

struct ddp_nccl_library *nccl_turns_open(bool has_revoke)
{
    struct ddp_nccl_library *library = NULL;
    struct ddp_err err = {""};

    ddp_nccl_standin_turns(true);
    ddp_nccl_standin_device(NULL);
    CT_CHECK_OK(ddp_nccl_library_open(ddp_mem_system(), NCCL_STANDIN, &library, &err));
    DDP_ASSERT(library != NULL);
    if (!has_revoke) {
        library->calls.revoke = NULL;
    }
    return library;
}

void nccl_turns_close(struct ddp_nccl_library *library)
{
    uint64_t end_ns = ddp_clock_now_ns(ddp_clock_monotonic()) + LEFT_BEHIND_NS;

    nccl_turns_script("", "");
    while (ddp_nccl_standin_hanging() > 0 || ddp_nccl_standin_comm_count() > 0) {
        ddp_nccl_standin_turn();
        (void)sched_yield();
        CT_REQUIRE(ddp_clock_now_ns(ddp_clock_monotonic()) < end_ns);
    }
    ddp_nccl_standin_turns(false);
    ddp_nccl_library_close(library);
}

void nccl_turns_script(const char *base, const char *text)
{
    char whole[256];

    /* All ranks are on one host. */
    (void)snprintf(whole, sizeof(whole), "bus_id=unique;%s;%s", base, text);
    CT_CHECK_EQ_I64(ddp_nccl_standin_script(whole), DDP_NCCL_SUCCESS);
}

void nccl_turns_await_hanging(uint64_t count)
{
    while (ddp_nccl_standin_hanging() < count) {
        ddp_nccl_standin_turn();
        (void)sched_yield();
    }
}

const char *nccl_turns_line(const char *pattern, uint64_t index)
{
    const char *line;

    for (uint64_t i = 0; (line = ddp_nccl_standin_call(i)) != NULL; i++) {
        if (fnmatch(pattern, line, 0) == 0 && index-- == 0) {
            return line;
        }
    }
    return "";
}

uint64_t nccl_turns_count(const char *pattern)
{
    uint64_t count = 0;

    while (nccl_turns_line(pattern, count)[0] != '\0') {
        count++;
    }
    return count;
}
