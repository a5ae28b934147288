ddprove_add_unit(NAME base THREADS
    SOURCES test_status.c test_mem.c test_prng.c test_hash.c test_clock.c test_dtype.c test_text.c
        test_file.c test_idle.c
    LIBS ddp_base)
ddprove_add_unit(NAME seam THREADS
    SOURCES test_seam.c test_recorder.c test_progress.c
    LIBS ddp_seam)
