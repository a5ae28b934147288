ddprove_add_unit(NAME launch
    SOURCES launch/test_card.c launch/test_ending.c sim/test_scheduler.c sim/test_sim.c
        sim/test_sim_fault.c sim/sim_job.c
    LIBS harness_sim harness_proc)
