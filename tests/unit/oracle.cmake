ddprove_add_unit(NAME oracle
    SOURCES test_oracle.c test_oracle_schedule.c test_oracle_residual.c test_oracle_checkpoint.c
        oracle_job.c
    LIBS harness_oracle)
# Its own executable: it links the device that records what it judges.
ddprove_add_unit(NAME happens_before
    SOURCES test_happens_before.c test_happens_before_device.c test_happens_before_host.c
        test_happens_before_random.c
        test_oracle_order.c oracle_job.c order_history.c
    LIBS harness_oracle ddp_device)
ddprove_add_unit(NAME happens_before_core
    SOURCES test_happens_before_core.c nccl_fake.c nccl_device.c
    LIBS harness_oracle ddp_ddp ddp_nccl ddp_collective ddp_transport ddp_device)
