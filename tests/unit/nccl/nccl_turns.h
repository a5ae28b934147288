/* NCCL's stand-in (tests/standin/nccl) in turns: opening it, telling it what to do, and what it was
 * called for. */
#ifndef TESTS_UNIT_NCCL_NCCL_TURNS_H
#define TESTS_UNIT_NCCL_NCCL_TURNS_H

#include "ddpcore/nccl/abi.h"

struct ddp_nccl_library *nccl_turns_open(bool has_revoke);
/* Ends what the script makes hang, waits for what was left behind, and looks for communicators that
 * nobody ended. */
void nccl_turns_close(struct ddp_nccl_library *library);
/* Two halves of a script. */
void nccl_turns_script(const char *base, const char *text);
/* Returns when so many calls hang. */
void nccl_turns_await_hanging(uint64_t count);

/* How many lines of the log fit the pattern (fnmatch): "0: ncclCommAbort". */
uint64_t nccl_turns_count(const char *pattern);
#define NCCL_TURNS_DATA "*: nccl[!C]*" /* collectives and messages */
/* The index-th line that fits, or "". */
const char *nccl_turns_line(const char *pattern, uint64_t index);

#endif
