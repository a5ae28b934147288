ddprove_add_unit(NAME transport
    SOURCES transport/transport_ranks.c transport/transport_loop.c transport/transport_shm.c
        transport/transport_tcp.c transport/test_transport.c transport/test_shm_segment.c
        transport/test_tcp.c transport/test_tcp_frame.c
    LIBS ddp_transport)
ddprove_add_unit(NAME store SOURCES store/test_store.c store/test_rendezvous.c LIBS ddp_transport)
# The shared segment between threads: the same code as between processes, under ThreadSanitizer. Its
# own executable, because the other tests here fork.
ddprove_add_unit(NAME shm_ring SHARED SOURCES transport/test_shm_ring.c transport/test_shm_threads.c
    LIBS ddp_transport)
