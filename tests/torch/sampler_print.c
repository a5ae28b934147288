/* Prints what each rank is dealt. A line of input: samples, ranks, seed, epoch, drop_last, shuffle;
 * a line of output for each rank. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ddpcore/ddp/sampler.h"

static int print_rank(const struct ddp_sampler_config *config, uint64_t epoch)
{
    const size_t count = ddp_sampler_count(config);
    uint32_t *indices = ddp_mem_array(ddp_mem_system(), count, sizeof(*indices));

    if (indices == NULL || ddp_sampler_epoch(config, epoch, ddp_mem_system(), indices) != DDP_OK) {
        (void)fprintf(stderr, "sampler_print: refused\n");
        ddp_mem_free(ddp_mem_system(), indices);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        (void)printf("%s%" PRIu32, i > 0 ? " " : "", indices[i]);
    }
    (void)printf("\n");
    ddp_mem_free(ddp_mem_system(), indices);
    return 0;
}

int main(void)
{
    char line[256];

    while (fgets(line, sizeof(line), stdin) != NULL) {
        uint64_t value[6];
        char *at = line;
        struct ddp_sampler_config config;

        for (size_t i = 0; i < 6; i++) {
            value[i] = strtoull(at, &at, 10);
        }
        config = (struct ddp_sampler_config){.sample_count = (size_t)value[0],
                                             .world_size = (uint32_t)value[1],
                                             .seed = value[2],
                                             .drop_last = value[4] != 0,
                                             .is_shuffled = value[5] != 0};
        for (config.rank = 0; config.rank < config.world_size; config.rank++) {
            if (print_rank(&config, value[3]) != 0) {
                return 1;
            }
        }
    }
    return 0;
}
