/* Readers: whose a file is, and what each wording of each program says. */
#include <string.h>

#include "harness/diagnose/internal.h"
#include "harness/dumps/read.h"
#include "tests/ct.h"

CT_TEST(diagnose_read, finds_the_rank_in_a_name)
{
    static const struct {
        const char *path;
        int64_t rank;
    } names[] = {{"nccl_trace_rank_12", 12},
                 {"/tmp/job7/comm_lib_trace_rank_0.json", 0},
                 {"rank3.log", 3},
                 {"dump-rank-5.pkl", 5},
                 {"py38/stack.4.txt", -1},
                 {"stack4.txt", 4},
                 {"trace_0007", 7},
                 {"run_1/attempt_0/3/stdout.log", 3},
                 {"attempt_0/11/error.json", 11},
                 {"console.log", -1},
                 {"rank99999999.log", -1},
                 {"ranks.txt", -1},
                 {"", -1}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CT_CHECK_EQ_I64(harness_diag_path_rank(names[i].path), names[i].rank);
    }
}

/* A diagnosis of one text, and what it came to. */
struct told {
    struct harness_diagnosis *diagnosis;
    ddp_status status;
    struct ddp_err err;
};

static struct told tell(const char *path, const char *text)
{
    struct told told = {0};

    if (harness_diagnosis_create(&told.diagnosis) == DDP_OK) {
        told.status =
            harness_diagnosis_read(told.diagnosis, path, text, strlen(text), 0, &told.err);
    }
    return told;
}

/* The only note of that kind, or NULL. */
static const struct harness_diag_note *only(const struct told *told,
                                            enum harness_diag_note_kind kind)
{
    const struct harness_diag_note *found = NULL;

    for (size_t i = 0; i < told->diagnosis->evidence.note_count; i++) {
        const struct harness_diag_note *note = &told->diagnosis->evidence.notes[i];

        if (note->kind == kind) {
            if (found != NULL) {
                return NULL;
            }
            found = note;
        }
    }
    return found;
}

/* A text in which one thing is said of one rank. */
static void check_note(const char *path, const char *text, enum harness_diag_note_kind kind,
                       int64_t rank, int64_t number)
{
    struct told told = tell(path, text);
    const struct harness_diag_note *note = only(&told, kind);

    CT_CHECK_STATUS(told.status, DDP_OK);
    if (note == NULL) {
        CT_FAIL("%s: not one note of kind %d", text, (int)kind);
    } else {
        CT_CHECK_EQ_I64(note->rank, rank);
        CT_CHECK_EQ_I64(note->number, number);
    }
    harness_diagnosis_destroy(told.diagnosis);
}

CT_TEST(diagnose_read, knows_the_watchdogs_wordings)
{
    check_note("console.log",
               "[rank5]:[E1124 10:00:00.0 ProcessGroupNCCL.cpp:683] [PG ID 2 PG GUID 3(tp) Rank 1] "
               "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=57, "
               "OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600012 "
               "milliseconds before timing out.\n",
               HARNESS_DIAG_NOTE_TIMEOUT, 5, 0);
    check_note("console.log",
               "[E ProcessGroupNCCL.cpp:821] [Rank 2] Watchdog caught collective operation "
               "timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1802710 "
               "milliseconds before timing out.\n",
               HARNESS_DIAG_NOTE_TIMEOUT, 2, 0);
    check_note("console.log",
               "[rank1]:[E ProcessGroupNCCL.cpp:1182] [PG 0 Rank 1] Timeout at NCCL work: 5, last "
               "enqueued NCCL work: 5, last completed NCCL work: 4.\n",
               HARNESS_DIAG_NOTE_TIMEOUT, 1, 0);
}

CT_TEST(diagnose_read, tells_own_errors_from_those_of_lost_peers)
{
    check_note("console.log",
               "[rank1]: Traceback (most recent call last):\n"
               "[rank1]:   File \"/home/me/train.py\", line 12, in step\n"
               "[rank1]: ValueError: the batch is empty\n",
               HARNESS_DIAG_NOTE_RAISED, 1, 0);
    check_note("rank2.log",
               "Traceback (most recent call last):\n"
               "  File \"train.py\", line 12, in step\n"
               "RuntimeError: [pair.cc:545] Read error [127.0.0.1]:3: Connection reset by peer\n",
               HARNESS_DIAG_NOTE_LOST, 2, 0);
    check_note("attempt_0/3/error.json",
               "{\"message\": {\"message\": \"RuntimeError: shapes differ\", \"extraInfo\": "
               "{\"py_callstack\": \"\", \"timestamp\": \"1700000000\"}}}",
               HARNESS_DIAG_NOTE_RAISED, 3, 1);
}

CT_TEST(diagnose_read, knows_torchruns_summary)
{
    check_note("console.log",
               "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-24_10:00:00\n"
               "  host      : node\n  rank      : 2 (local_rank: 0)\n  exitcode  : -9 (pid: 77)\n"
               "  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 77\n",
               HARNESS_DIAG_NOTE_SIGNAL, 2, 9);
    check_note("console.log", "  rank      : 1 (local_rank: 1)\n  exitcode  : 3 (pid: 77)\n",
               HARNESS_DIAG_NOTE_EXIT, 1, 3);
}

CT_TEST(diagnose_read, knows_where_a_stack_is)
{
    check_note("rank1.txt",
               "Process 12: python train.py\nThread 12 (idle): \"MainThread\"\n"
               "    all_reduce (torch/distributed/distributed_c10d.py:4174)\n"
               "    step (train.py:9)\nThread 13 (idle): \"other\"\n    run (x.py:1)\n",
               HARNESS_DIAG_NOTE_INSIDE, 1, 0);
    check_note("rank1.txt",
               "Thread 12 (idle): \"MainThread\"\n    wait (threading.py:320)\n"
               "    step (train.py:9)\n",
               HARNESS_DIAG_NOTE_OUTSIDE, 1, 0);
    check_note("rank1.json",
               "[{\"pid\": 1, \"thread_name\": \"MainThread\", \"frames\": [{\"name\": \"get\", "
               "\"filename\": \"queue.py\", \"line\": 1}, {\"name\": \"_next_data\", "
               "\"filename\": \"/v/torch/utils/data/dataloader.py\", \"line\": 5}]}]",
               HARNESS_DIAG_NOTE_LOADING, 1, 0);
}

static void check_refused(const char *path, const char *text, const char *expected)
{
    struct told told = tell(path, text);

    CT_CHECK(told.status == DDP_E_PARSE || told.status == DDP_E_UNSUPPORTED);
    CT_CHECK_STR(told.err.text, expected);
    harness_diagnosis_destroy(told.diagnosis);
}

CT_TEST(diagnose_read, refuses_in_one_line_with_a_remedy)
{
    check_refused("empty", "", "empty: the file is empty");
    check_refused(
        "notes.txt", "hello\nworld\n",
        "notes.txt: nothing in it is known: no Flight Recorder dump, watchdog or torchrun "
        "message, error, stack, RAS status or NCCL line");
    check_refused(
        "x.json", "{\"a\": 1}",
        "x.json: JSON, but neither a Flight Recorder dump, nor an error file of torchrun, "
        "nor py-spy's, nor NCCL RAS's");
    check_refused("trace.json", "{\"version\": \"2.10\", \"entries\": []}",
                  "trace.json: a Flight Recorder dump does not say whose it is, and no number in "
                  "the name does; name it ..._rank_<r>");
    check_refused(
        "rank_0", "{\"version\": \"1.5\", \"entries\": []}",
        "rank_0: a Flight Recorder dump of version \"1.5\"; 2.1 to 2.10 are known, so dump "
        "it with PyTorch 2.3 or later");
    check_refused(
        "rank_1.json", "{\"version\": \"2.10\", \"ent",
        "rank_1.json: line 1, column 24: JSON that cannot be read (premature end of input "
        "near '\"ent'); if it was cut short, dump it again or name the pickle");
    check_refused("rank_0", "{\"version\": \"2\\n10\", \"entries\": []}",
                  "rank_0: a Flight Recorder dump of version \"2 10\"; 2.1 to 2.10 are known, so "
                  "dump it with PyTorch 2.3 or later");
}
