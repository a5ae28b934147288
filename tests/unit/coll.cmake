if(TARGET harness_coll)
    ddprove_add_unit(NAME coll SOURCES coll/test_coll.c coll/test_mutants.c coll/test_prover.c
        LIBS harness_coll ddp_schedule)
endif()
