if(TARGET harness_trace)
    ddprove_add_unit(NAME trace SOURCES trace/test_trace.c trace/test_index.c trace/test_part.c LIBS harness_trace)
endif()
