ddprove_add_unit(NAME oracle
    SOURCES oracle/test_oracle.c oracle/test_emulation.c oracle/test_kept.c sums/test_schedule_set.c sums/test_residual.c
        oracle/test_oracle_checkpoint.c oracle/test_oracle_timeout.c oracle/test_oracle_slow.c oracle/test_oracle_schedule.c oracle/test_oracle_agree.c oracle/test_oracle_sum.c
        oracle/oracle_job.c oracle/oracle_record.c
    LIBS harness_oracle)
# Its own executable: it links the device that records what it judges.
ddprove_add_unit(NAME happens_before
    SOURCES order/test_happens_before.c order/test_happens_before_device.c
        order/test_happens_before_host.c order/test_happens_before_random.c
        oracle/test_oracle_order.c oracle/oracle_job.c oracle/oracle_record.c order/order_history.c
    LIBS harness_oracle ddp_device)
