/* What a rank's DDP is configured with, as event ddp.config says it. */
#ifndef DDPCORE_SEAM_OPTION_H
#define DDPCORE_SEAM_OPTION_H

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of its argument `options`. X(identifier, option, what it is where the bit is set, where not)
 */
#define DDP_OPTION_TABLE(X)                                                  \
    X(DDP_OPTION_SEMANTICS, "semantics", "pytorch", "strict")                \
    X(DDP_OPTION_BUCKET_ORDER, "bucket_order", "pytorch", "reverse")         \
    X(DDP_OPTION_GRADIENT_SCALE, "gradient_scale", "post", "pre")            \
    X(DDP_OPTION_FIND_UNUSED, "find_unused_parameters", "true", "false")     \
    X(DDP_OPTION_STATIC_GRAPH, "static_graph", "true", "false")              \
    X(DDP_OPTION_BROADCAST_BUFFERS, "broadcast_buffers", "true", "false")    \
    X(DDP_OPTION_INIT_SYNC_SKIPPED, "is_init_sync_skipped", "true", "false") \
    X(DDP_OPTION_BUCKET_VIEW, "gradient_as_bucket_view", "true", "false")
enum ddp_option {
#define X(id, name, set, unset) id,
    DDP_OPTION_TABLE(X)
#undef X
        DDP_OPTION_COUNT
};

#ifdef __cplusplus
}
#endif
#endif
