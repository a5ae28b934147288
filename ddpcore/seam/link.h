/* What became of a connection to another rank, as event link.lost says it. */
#ifndef DDPCORE_SEAM_LINK_H
#define DDPCORE_SEAM_LINK_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, meaning) */
#define DDP_LINK_TABLE(X)                                                     \
    X(DDP_LINK_STANDS, "is connected")                                        \
    X(DDP_LINK_DEPARTED, "has left the group")                                \
    X(DDP_LINK_ENDED, "ended its connections without a farewell")             \
    X(DDP_LINK_RESET, "has a connection that broke")                          \
    X(DDP_LINK_SILENT, "answers no more: its host or the link to it is gone") \
    X(DDP_LINK_DAMAGED, "sent what is no frame of this group, or a damaged one")
enum ddp_link {
#define X(id, meaning) id,
    DDP_LINK_TABLE(X)
#undef X
        DDP_LINK_COUNT
};

#ifdef __cplusplus
}
#endif
#endif
