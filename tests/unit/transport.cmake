ddprove_add_unit(NAME transport
    SOURCES transport_ranks.c transport_loop.c transport_shm.c test_transport.c test_shm_segment.c
    LIBS ddp_transport)
ddprove_add_unit(NAME store SOURCES test_store.c test_rendezvous.c LIBS ddp_transport)
# The shared segment between threads: the same code as between processes, under ThreadSanitizer. Its
# own executable, because the other tests here fork.
ddprove_add_unit(NAME shm_ring THREADS SOURCES test_shm_ring.c test_shm_threads.c
    LIBS ddp_transport)
