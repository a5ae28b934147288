/* A program that is nothing but a rank of the proc driver. */
#include "harness/launch/launch.h"

int main(void)
{
    return harness_launch_rank_main();
}
