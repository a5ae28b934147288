ddprove_add_unit(NAME oracle
    SOURCES test_oracle.c test_oracle_schedule.c test_oracle_residual.c test_oracle_checkpoint.c
        oracle_job.c
    LIBS harness_oracle)
