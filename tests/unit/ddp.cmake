ddprove_add_unit(NAME ddp
    SOURCES test_sampler.c test_bucket.c test_group.c test_ddp.c test_ddp_unused.c test_ddp_verify.c
        test_ddp_join.c test_ddp_loop.c ddp_world.c ddp_job.c
    LIBS ddp_ddp ddp_collective ddp_transport ddp_device)
