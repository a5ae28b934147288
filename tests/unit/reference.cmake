ddprove_add_unit(NAME reference
    SOURCES test_data.c test_optimizer.c test_model.c test_trainer.c reference_fp64.c
    LIBS ref)

add_executable(bench_reference bench/bench_reference.c)
target_link_libraries(bench_reference PRIVATE ref)
