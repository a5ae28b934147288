# NCCL's adapter on the stand-ins, in processes. Included where these are defined. Not for
# ThreadSanitizer: the ranks are forked, and leave without joining what a library started.
if(TARGET ddp_cuda_standin AND TARGET ddp_nccl_standin)
    ddprove_add_unit(NAME nccl_processes
        SOURCES transport/transport_ranks.c transport/transport_shm.c nccl/test_nccl_processes.c
        LIBS ddp_nccl ddp_collective ddp_cuda_standin)
    add_dependencies(unit_nccl_processes ddp_nccl_standin ddp_nccl_standin_old ddp_cublas_standin)
    target_compile_definitions(unit_nccl_processes PRIVATE
        CUBLAS_STANDIN="$<TARGET_FILE:ddp_cublas_standin>"
        NCCL_STANDIN="$<TARGET_FILE:ddp_nccl_standin>"
        NCCL_STANDIN_OLD="$<TARGET_FILE:ddp_nccl_standin_old>")
endif()
