/* A program that is nothing but a rank of the proc driver. */
#include "harness/proc/proc.h"

int main(void)
{
    return harness_proc_rank_main();
}
