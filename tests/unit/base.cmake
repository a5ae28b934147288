ddprove_add_unit(NAME base SHARED
    SOURCES base/test_status.c base/test_mem.c base/test_prng.c base/test_hash.c base/test_clock.c
        base/test_dtype.c base/test_text.c base/test_file.c base/test_idle.c
    LIBS ddp_base)
ddprove_add_unit(NAME seam SHARED
    SOURCES seam/test_seam.c seam/test_recorder.c seam/test_progress.c
    LIBS ddp_seam)
