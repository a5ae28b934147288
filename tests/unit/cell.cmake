if(TARGET harness_cell)
    ddprove_add_unit(NAME cell SOURCES cell/test_proof.c LIBS harness_cell)
endif()
