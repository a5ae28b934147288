if(TARGET harness_coll)
    ddprove_add_unit(NAME coll SOURCES coll/test_coll.c coll/test_guarded.c coll/test_mutants.c coll/test_prover.c
        coll/test_sweep.c
        LIBS harness_coll ddp_schedule)
endif()
if(TARGET harness_coll AND TARGET ddp_collective AND TARGET ddp_device)
    ddprove_add_unit(NAME coll_predict SOURCES coll/test_predict.c collective/coll_world.c
        LIBS harness_coll ddp_collective ddp_device ddp_schedule)
endif()
