! A Fortran program with an all-reduce a step. Usage: mpi_program_f [count RANK STEP]
program mpi_program_f
    use mpi
    implicit none
    integer :: error, rank, step, n, fault_rank, fault_step, request
    real :: in(64), out(64)
    character(len=16) :: word

    fault_rank = -1
    fault_step = -1
    if (command_argument_count() == 3) then
        call get_command_argument(2, word)
        read (word, *) fault_rank
        call get_command_argument(3, word)
        read (word, *) fault_step
    end if
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    in = real(rank)
    do step = 0, 29
        n = 64
        if (rank == fault_rank .and. step == fault_step) n = 32
        call MPI_Allreduce(in, out, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
        call MPI_Ibcast(out, 8, MPI_REAL, 0, MPI_COMM_WORLD, request, error)
        call MPI_Wait(request, MPI_STATUS_IGNORE, error)
        call MPI_Allreduce(MPI_IN_PLACE, in, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
    end do
    call MPI_Finalize(error)
end program
