ddprove_add_unit(NAME probe
    SOURCES rank/test_probe.c rank/test_probe_adversary.c rank/test_probe_declared.c
        rank/test_probe_limits.c rank/test_probe_tree.c sums/test_tree.c rank/probe_world.c
        rank/probe_sums.c oracle/oracle_job.c oracle/oracle_record.c
    LIBS harness_sim harness_proc harness_oracle)
ddprove_add_unit(NAME rank SOURCES rank/test_batches.c rank/test_layout.c LIBS harness_rank)
