ddprove_add_unit(NAME transport
    SOURCES transport_ranks.c transport_loop.c transport_shm.c test_transport.c test_shm_segment.c
    LIBS ddp_transport)
ddprove_add_unit(NAME store SOURCES test_store.c LIBS ddp_transport)
# The slot ring between two threads: the same code as between processes. Its own executable, because
# the tsan preset is meant for it; the other tests here fork.
ddprove_add_unit(NAME shm_ring SOURCES test_shm_ring.c LIBS ddp_transport)
