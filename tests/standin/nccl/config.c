/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * The caller's configuration, from whatever version of the header it comes. Follows parseCommConfig
 * of init.cc. */
#include <string.h>

#include "tests/standin/nccl/internal.h"

static struct standin_config config_default(void)
{
    struct standin_config config;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.magic = STANDIN_CONFIG_MAGIC;
    config.blocking = STANDIN_UNDEFINED;
    config.cga_cluster_size = STANDIN_UNDEFINED;
    config.min_ctas = STANDIN_UNDEFINED;
    config.max_ctas = STANDIN_UNDEFINED;
    config.split_share = STANDIN_UNDEFINED;
    config.traffic_class = STANDIN_UNDEFINED;
    config.collnet_enable = STANDIN_UNDEFINED;
    config.cta_policy = STANDIN_UNDEFINED;
    config.shrink_share = STANDIN_UNDEFINED;
    config.nvls_ctas = STANDIN_UNDEFINED;
    config.channels_per_net_peer = STANDIN_UNDEFINED;
    config.nvlink_centric_sched = STANDIN_UNDEFINED;
    return config;
}

static int refuse(const char *name, int value, bool is_wrong)
{
    if (value != STANDIN_UNDEFINED && is_wrong) {
        standin_warn("Invalid config %s attribute value %d", name, value);
        return STANDIN_INVALID_ARGUMENT;
    }
    return STANDIN_SUCCESS;
}

static int check_ranges(const struct standin_config *config)
{
    STANDIN_CHECK(
        refuse("blocking", config->blocking, config->blocking != 0 && config->blocking != 1));
    STANDIN_CHECK(refuse("cgaClusterSize", config->cga_cluster_size, config->cga_cluster_size < 0));
    if ((config->min_ctas != STANDIN_UNDEFINED && config->min_ctas <= 0) ||
        (config->max_ctas != STANDIN_UNDEFINED && config->max_ctas <= 0) ||
        config->min_ctas > config->max_ctas) {
        standin_warn("Invalid config min/max channels attribute value %d/%d", config->min_ctas,
                     config->max_ctas);
        return STANDIN_INVALID_ARGUMENT;
    }
    STANDIN_CHECK(refuse("splitShare", config->split_share,
                         config->split_share != 0 && config->split_share != 1));
    return refuse("shrinkShare", config->shrink_share,
                  config->shrink_share != 0 && config->shrink_share != 1);
}

int standin_config_read(const struct standin_config *given, bool *is_blocking)
{
    struct standin_config fallback = config_default();
    struct standin_config config = fallback;
    if (given != NULL) {
        size_t size_bytes = 0;
        config.magic = 0;
        memcpy(&size_bytes, given, sizeof size_bytes);
        memcpy(&config, given, size_bytes < sizeof config ? size_bytes : sizeof config);
        if (config.magic != STANDIN_CONFIG_MAGIC) {
            standin_warn("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
            return STANDIN_INVALID_ARGUMENT;
        }
        if (config.version < 21400) {
            config.blocking = fallback.blocking;
        }
        if (config.version < 21700) {
            config.cga_cluster_size = fallback.cga_cluster_size;
            config.min_ctas = fallback.min_ctas;
            config.max_ctas = fallback.max_ctas;
        }
        if (config.version < 22700) {
            config.shrink_share = fallback.shrink_share;
        }
    }
    STANDIN_CHECK(check_ranges(&config));
    *is_blocking = config.blocking != 0;
    return STANDIN_SUCCESS;
}
