# MPI's adapter against a scripted MPI, which begins and ends in a thread of its own.
ddprove_add_unit(NAME mpi THREADS SOURCES collective/coll_world.c mpi/mpi_fake.c mpi/test_mpi.c mpi/test_mpi_library.c
    LIBS ddp_mpi ddp_collective ddp_device)
if(NOT TARGET unit_mpi)
    return()
endif()

foreach(part IN ITEMS EMPTY OTHER)
    string(TOLOWER "mpi_${part}" name)
    add_library(${name} MODULE "${CMAKE_CURRENT_LIST_DIR}/mpi/mpi_part.c")
    target_compile_definitions(unit_mpi PRIVATE MPI_${part}_PATH="$<TARGET_FILE:${name}>")
    add_dependencies(unit_mpi ${name})
endforeach()
target_compile_definitions(mpi_other PRIVATE VERSION=4711)
