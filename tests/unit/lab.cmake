if(TARGET harness_lab)
    ddprove_add_unit(NAME lab SOURCES lab/test_fit.c lab/test_numbers.c lab/test_tuned.c lab/test_orders.c LIBS harness_lab ddp_schedule)
endif()
