"""Folders in memory, for runs of which nothing stays: a disk takes longer for their files than ddprove for the runs."""
import os
import shutil
import tempfile

FOLDER = "/dev/shm"
PREFIX = "ddprove-"
ROOM_BYTES = 8 << 30  # a run of the suite's files take 2 GiB, and there may be three at a time


def available_bytes():
    """Of memory, for a file system in it; 0: there is none, or nobody says."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        room = os.statvfs(FOLDER)
    except OSError:
        return 0
    return min(int(lines["MemAvailable"].split()[0]) << 10, room.f_bavail * room.f_frsize)


def make(otherwise):
    """A new folder in memory if there is room, else in that folder."""
    return tempfile.mkdtemp(prefix=PREFIX, dir=FOLDER if available_bytes() >= ROOM_BYTES else otherwise)


def link(path):
    """A new folder in memory by that name, or just a folder."""
    made = make(os.path.dirname(path))
    if os.path.dirname(made) == FOLDER:
        os.symlink(made, path)
    else:
        os.rename(made, path)


def remove(path):
    """What `link` has made and all that is in it, if it is there."""
    target = os.readlink(path) if os.path.islink(path) else ""
    if os.path.dirname(target) == FOLDER and os.path.basename(target).startswith(PREFIX):
        shutil.rmtree(target, ignore_errors=True)
        os.remove(path)
    shutil.rmtree(path, ignore_errors=True)
