ddprove_add_unit(NAME reference
    SOURCES reference/test_data.c reference/test_files.c reference/test_optimizer.c reference/test_model.c reference/test_model_layers.c reference/test_model_rounded.c reference/model_fixture.c
        reference/test_trainer.c reference/reference_fp64.c reference/reference_fp64_convnet.c reference/reference_fp64_gpt.c reference/reference_fp64_moe.c
    LIBS ref)

ddprove_add_unit(NAME data_parallel THREADS
    SOURCES reference/test_data_parallel.c
    LIBS ref)

add_executable(bench_reference bench/bench_reference.c)
target_link_libraries(bench_reference PRIVATE ref)
