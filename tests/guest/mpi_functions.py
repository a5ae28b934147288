#!/usr/bin/env python3
"""Is the MPI adapter in front of every function in which a rank can wait for another one?

Each function that the mpi.h of an MPI declares is either exported by the adapter, under both of its names, or excused by a
line of EXCUSED, which says why. No line is left over, and nothing is exported that no mpi.h declares, but for what NEWER
says. No MPI program is run.

Usage: mpi_functions.py ADAPTER NM MPICC... (those that are there are asked; none: 77)
"""
import re
import shutil
import subprocess
import sys
import tempfile

# (functions without "MPI_", why nothing is said of them, and, if it is not Open MPI 4 and MPICH 4.0 that have them: one that
# every MPI has that has these). Of those with large counts the same is true as of those without.
LOCAL = "local: returns whatever other ranks do"
AT_ONCE = "returns at once; MPI_Wait shows a wait for its request as one of anything else, MPI_Test is no wait"
EXCUSED = [
    (r"Abort", "ends the program"),
    (r"Initialized|Finalized|Is_thread_main|Query_thread|Get_(library_)?version|Get_processor_name|Pcontrol|Wtime|Wtick",
     LOCAL),
    (r"Add_error_\w+|Error_(class|string)|Errhandler_\w+|(Comm|File|Win)_(call|create|get|set)_errhandler", LOCAL),
    (r"Status_\w+|Get_count|Get_elements(_x)?|Test_cancelled", LOCAL),
    (r"Address|Aint_(add|diff)|Get_address|(Alloc|Free)_mem|Buffer_attach", LOCAL),
    (r"Keyval_\w+|Attr_\w+|(Comm|Type|Win)_(create_keyval|free_keyval|delete_attr|get_attr|set_attr|get_name|set_name)", LOCAL),
    (r"\w+_(c2f|f2c)", LOCAL),
    (r"Group_\w+", LOCAL),
    (r"Info_\w+", LOCAL),
    (r"Op_\w+|Reduce_local", LOCAL),
    (r"Type_(?!.*keyval|.*attr|.*_name|c2f|f2c)\w+", LOCAL),
    (r"Pack\w*|Unpack\w*|Register_datarep", LOCAL),
    (r"Comm_(compare|get_info|get_parent|group|rank|remote_group|remote_size|size|test_inter)", LOCAL),
    (r"Cart(_(coords|get|rank|shift)|dim_get)|Dims_create|Dist_graph_neighbors(_count)?|Graph_(get|neighbors(_count)?)|"
     r"Graphdims_get|Topo_test", LOCAL),
    (r"Grequest_(start|complete)", LOCAL),
    (r"Cancel", LOCAL),
    (r"T_\w+", "for tools: local"),
    (r"Close_port|Lookup_name|Open_port|Publish_name|Unpublish_name",
     "asks the launcher or its name server, and no rank: a name that nobody has published is an error"),
    (r"Win_(attach|detach|get_group|get_info|shared_query|sync)", LOCAL),
    (r"Win_post", "does not wait, by the standard: who starts does, for this"),
    (r"Pready(_list|_range)?", "says that a part is ready; the wait is MPI_Wait's, for a message that is known"),
    (r"File_(delete|get_\w+|seek)", "local, or a file is asked for its pointer: as File_read"),
    (r"File_(read|write)(_at|_shared)?",
     "each rank by itself: who stands in it stands in the file system, or waits for a lock that is held within a call like it, "
     "and not for a rank that has not come; so it is taken for a rank in code of its own"),
    (r"File_i(read|write)(_at|_shared|_all|_at_all)?", AT_ONCE),
    (r"Session_(call|create|get|set)_errhandler|Session_(init|get_\w+)", LOCAL),
    (r"MPIX_Comm_(revoke|failure_ack|failure_get_acked)", LOCAL),
    (r"MPIX_(Delete_error_\w+|Grequest_\w+|GPU_query_support|Query_\w+_support)", LOCAL),
    # MPI 4.1 and 5.0
    (r"(Comm|Session)_attach_buffer|Remove_error_\w+|Get_hw_resource_info", LOCAL, "Buffer_flush"),
    (r"(Buffer_iflush|(Comm|Session)_iflush_buffer)", AT_ONCE, "Buffer_flush"),
    (r"Abi_\w+|\w+_(fromint|toint)", LOCAL, "Abi_get_version"),
    # MPICH 5's and Open MPI 5's own
    (r"MPIX_\w+_create_errhandler_x|MPIX_Op_create_x", LOCAL, "Abi_get_version"),
    (r"MPIX_(Async_\w+|Comm_get_stream|Comm_test_threadcomm|Info_set_hex|Request_is_complete|Start_progress_thread|"
     r"Stop_progress_thread|Type_iov(_len)?|Stream_(create|free|progress))", LOCAL, "MPIX_Stream_create"),
    (r"MPIX_(\w+_enqueue|Stream_i?(send|recv)|Stream_comm_create(_multiplex)?|Threadcomm_\w+)",
     "MPICH's own communication for streams and threads (README: not seen)", "MPIX_Stream_create"),
    (r"MPIX_Comm_get_failed", LOCAL, "MPIX_Comm_get_failed"),
    (r"MPIX_Comm_(ack_failed|is_revoked)|Session_set_info", LOCAL, "MPIX_Comm_iagree"),
    (r"MPIX_Comm_iagree", AT_ONCE, "MPIX_Comm_iagree"),
]
# Exported, and maybe declared by none of the MPIs that are asked: (functions, since when; one that those have that have them).
NEWER = [
    (r"Buffer_flush|(Comm|Session)_(flush|detach)_buffer|Request_get_status_(all|any|some)", "MPI 4.1", "Buffer_flush"),
    (r"MPIX_\w+_init", "what Open MPI 4 calls MPI 4's persistent collectives", "MPIX_Barrier_init"),
    (r"Comm_idup_with_info|Isendrecv(_replace)?|P(send|recv)_init|Parrived|\w+_init|Comm_create_from_group|"
     r"Intercomm_create_from_groups|Session_finalize|MPIX_Comm_(agree|shrink)|\w+_c", "MPI 4.0", "Session_init"),
]
SOURCE = """#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
"""


def without_prefix(name):
    """Of PMPI_Send and MPI_Send: Send; an extension's name keeps its own."""
    name = name[1:] if name.startswith("PMPI") else name
    return name[4:] if name.startswith("MPI_") else name


def declared_in(text):
    """The functions that preprocessed source declares, without types that are functions."""
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)|__extension__|__restrict\w*", " ", text)
    found = set()
    for statement in re.split(r"[;{}]", text):
        # A result's type, the name, and parameters up to the end.
        match = re.fullmatch(r"\s*(?:[A-Za-z_]\w*\s+|\*\s*)+(P?MPIX?_\w+)\s*\(.*\)\s*", " ".join(statement.split()))
        if match and not re.match(r"\s*typedef\b", statement):
            found.add(without_prefix(match.group(1)))
    return found


def is_of(pattern, name):
    """The pattern's, or the same with large counts."""
    return re.fullmatch(f"(?:{pattern})(?:_c)?", name) is not None


def compare(declared, exported, excused, newer, is_all_there):
    """What is wrong, in words. declared, exported: names without prefix; is_all_there: the MPIs that EXCUSED is about."""
    wrong = []
    for name in sorted(declared - exported):
        if not any(is_of(row[0], name) for row in excused):
            wrong.append(f"{name} is declared by mpi.h, and the adapter is not in front of it: add it to a table of "
                         "harness/guest/mpi (*.def), or say in EXCUSED why no rank waits in it for another one")
    for name in sorted(exported - declared):
        if not any(is_of(row[0], name) and row[2] not in declared for row in newer):
            if is_all_there or not any(is_of(row[0], name) for row in newer):
                wrong.append(f"{name} is exported, and no mpi.h declares it: is it misspelt? Else say in NEWER since when")
    for row in excused:
        is_due = row[2] in declared if len(row) > 2 else is_all_there
        matched = [name for name in declared if is_of(row[0], name)]
        if is_due and not matched:
            wrong.append(f"EXCUSED has \"{row[0]}\", which no mpi.h declares: take the line out")
        for name in sorted(set(matched) & exported):
            wrong.append(f"EXCUSED has \"{row[0]}\", and {name} is exported: the adapter is in front of it")
    return wrong


def check_itself():
    """A header and an adapter that were made up: each thing that is wrong is said, and nothing else."""
    header = """
typedef int MPI_Comm; typedef int (MPI_Some_function)(void *); typedef int (*MPI_Other_function)(void *);
int MPI_Barrier(MPI_Comm comm) __attribute__((visibility("default"), deprecated("no (really)")));
extern __attribute__((visibility("default"))) int PMPI_Barrier(MPI_Comm comm);
double MPI_Wtime(void); MPI_Comm MPI_Comm_f2c(int comm); const char *MPI_Text(void);
int MPI_Gather_c(const void *in, MPI_Some_function *call, int (*other)(int)); int MPIX_Agree(int *flag);
struct MPI_Status { int MPI_SOURCE; };
"""
    declared = declared_in(header)
    excused = [("Wtime|Text", ""), ("Comm_f2c", ""), ("MPIX_Agree", "")]
    if declared != {"Barrier", "Wtime", "Comm_f2c", "Text", "Gather_c", "MPIX_Agree"}:
        sys.exit(f"mpi_functions: a header was read wrongly: {sorted(declared)}")
    cases = [  # exported, excused, newer, what is said: names
        ({"Barrier", "Gather_c"}, excused, [], []),
        ({"Gather_c"}, excused, [], ["Barrier is declared"]),
        ({"Barrier"}, excused, [], ["Gather_c is declared"]),
        ({"Barrier"}, excused + [("Gather", "")], [], []),
        ({"Barrier", "Gather_c", "Scater"}, excused, [], ["Scater is exported"]),
        ({"Barrier", "Gather_c", "Flush"}, excused, [("Flush", "", "Flush")], []),
        ({"Barrier", "Gather_c", "Flush"}, excused, [("Flush", "", "Barrier")], ["Flush is exported"]),
        ({"Barrier", "Gather_c"}, excused + [("Gone", "")], [], ['EXCUSED has "Gone"']),
        ({"Barrier", "Gather_c"}, excused + [("Gone", "", "Absent")], [], []),
        ({"Barrier", "Gather_c", "Wtime"}, excused, [], ['EXCUSED has "Wtime|Text", and Wtime is exported']),
    ]
    for exported, rows, newer, said in cases:
        wrong = compare(declared, exported, rows, newer, True)
        if len(wrong) != len(said) or not all(line.startswith(begin) for line, begin in zip(wrong, said)):
            sys.exit(f"mpi_functions: of a header that was made up it said {wrong}, not {said}")


def exports_of(nm, adapter):
    """{name without prefix: its prefixes}"""
    names = {}
    text = subprocess.run([nm, "-D", "--defined-only", adapter], check=True, capture_output=True, text=True).stdout
    for name in re.findall(r" [TW] (P?MPIX?_\w+)", text):
        names.setdefault(without_prefix(name), set()).add(name[0] == "P")
    return names


def ask(mpicc):
    """What the MPI of this compiler declares; None: it is not there."""
    if shutil.which(mpicc) is None:
        return None
    with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
        source.write(SOURCE)
        source.flush()
        done = subprocess.run([mpicc, "-E", "-P", source.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{mpicc} finds no mpi.h: {done.stderr.strip()}")
        return None
    return declared_in(done.stdout)


def main():
    adapter, nm, *compilers = sys.argv[1:]
    check_itself()
    asked = {mpicc: names for mpicc, names in ((mpicc, ask(mpicc)) for mpicc in compilers) if names is not None}
    if not asked:
        print("skipped: no mpi.h, as there is none of " + ", ".join(compilers))
        return 77
    declared = set().union(*asked.values())
    exported = exports_of(nm, adapter)
    is_all_there = "Session_init" in declared and any("MPIX_Barrier_init" in names for names in asked.values())
    wrong = [f"{name} is exported by one of its names alone" for name in sorted(exported) if len(exported[name]) == 1]
    wrong += [f"{mpicc}: {len(names)} functions are too few to be all of an mpi.h" for mpicc, names in asked.items()
              if len(names) < 400]
    wrong += compare(declared, set(exported), EXCUSED, NEWER, is_all_there)
    print("\n".join(wrong + [", ".join(f"{mpicc}: {len(names)} functions" for mpicc, names in asked.items()) +
                             f"; {len(exported)} are exported, {len(declared - set(exported))} excused, {len(wrong)} wrong" +
                             ("" if is_all_there else "; lines that nothing needs were not looked for")]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
