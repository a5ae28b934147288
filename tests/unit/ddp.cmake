ddprove_add_unit(NAME ddp
    SOURCES ddp/test_sampler.c ddp/test_loader.c ddp/test_bucket.c ddp/test_assignment.c ddp/test_ddp_rebuild.c ddp/test_ddp_view.c
        ddp/test_group.c ddp/test_group_loop.c ddp/test_ddp.c
        ddp/test_ddp_unused.c ddp/test_ddp_verify.c ddp/test_ddp_join.c ddp/test_ddp_loop.c
        ddp/test_ddp_dtype.c ddp/test_mixed.c ddp/test_ddp_bugs.c ddp/test_ddp_graph.c ddp/test_clip.c ddp/test_drift.c ddp/test_batch_norm.c ddp/test_logging.c ddp/test_ddp_many.c
        ddp/test_hook.c ddp/test_hook_lossy.c ddp/test_scaler.c
        ddp/ddp_world.c ddp/ddp_job.c
    LIBS ddp_hook ddp_ddp ddp_collective ddp_transport ddp_device)

# What a GPU makes of it: bench_gpu [SECONDS]; ci/gpu runs it.
if(TARGET ddp_cuda AND TARGET ref)
    add_executable(bench_gpu "${PROJECT_SOURCE_DIR}/tests/bench/bench_gpu.c")
    target_link_libraries(bench_gpu PRIVATE ddp_ddp ddp_nccl ddp_collective ddp_transport ref
        $<$<NOT:$<BOOL:$<TARGET_PROPERTY:DDPROVE_STANDIN>>>:ddp_cuda>)
endif()

# What compression by a hook is worth: bench_hook [--ranks N] [--max BYTES].
add_executable(bench_hook "${PROJECT_SOURCE_DIR}/tests/bench/bench_hook.c")
target_link_libraries(bench_hook PRIVATE ddp_hook ddp_ddp ddp_collective ddp_transport ddp_store ddp_device)
