ddprove_add_unit(NAME probe
    SOURCES test_probe.c test_probe_adversary.c test_probe_declared.c test_probe_limits.c test_probe_tree.c test_tree.c
        probe_world.c probe_sums.c oracle_job.c
    LIBS harness_sim harness_proc harness_oracle)
ddprove_add_unit(NAME probe_nccl THREADS
    SOURCES test_probe_nccl.c probe_sums.c nccl_fake.c nccl_device.c nccl_world.c
    LIBS harness_sim harness_proc harness_oracle)
