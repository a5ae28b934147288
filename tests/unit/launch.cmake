ddprove_add_unit(NAME launch
    SOURCES test_card.c test_fiber.c test_scheduler.c test_sim.c test_sim_fault.c
        sim_job.c
    LIBS harness_sim harness_proc)
