"""Process groups as communicators: who is watched, under which key, and when it ends."""
import atexit
import ctypes
import functools
import hashlib
import inspect
import os
import sys

from ddprove_torch import device, library

_comms = {}  # group name -> handle in the guest library; 0: not shown
_ranks = {}  # group name -> the ranks that its key is made of
_pairs = {}  # (group name, sender, receiver) -> handle
_is_over = False
_joined = 0  # how often the job's group was made


def handle_of(group):
    """The communicator of a process group; 0: nobody watches it."""
    return _comms.get(group.group_name, 0)


def pair_of(group, sender, receiver, tag):
    """Messages from one member to another: a communicator of two, in which the n-th send meets the n-th receive. 0: they
    are not shown, since nobody watches, or since a tag tells which receive a send meets; programs may have any number of
    tags, and a process has 64 communicators at once."""
    name = group.group_name
    if not _comms.get(name) or tag != 0:
        return 0
    place = (name, sender, receiver)
    if place not in _pairs:
        ends = f"{sender}>{receiver}"
        _pairs[place] = library.guest.pair_create(_key_of(f"{name} {ends}", _ranks[name]),
                                                  0 if group.rank() == sender else 1, library.cut(ends))
    return _pairs[place]


def _key_of(name, ranks):
    """The same on all members, and on no other group: PyTorch gives groups that live at once different names, but ranks
    that make groups apart from each other may count alike."""
    digest = hashlib.blake2b(f"{name} {','.join(map(str, ranks))}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def _show(group, ranks):
    guest = library.guest
    is_world = not ranks
    if is_world:
        ranks = list(range(group.size()))
        guest.attach(group.rank(), group.size())
    if not guest.is_watched():
        return
    name = group.group_name
    if is_world:
        said = "world"
    elif getattr(group, "group_desc", "undefined") not in ("", "undefined"):
        said = group.group_desc
    else:
        said = "group " + (name if len(name) < 20 else ",".join(map(str, ranks)))
    _ranks[name] = ranks
    _comms[name] = guest.comm_create(_key_of(name, ranks), group.rank(), group.size(), library.cut(said))


def _forget(names):
    for name in names:
        pairs = [_pairs.pop(place) for place in list(_pairs) if place[0] == name]
        for handle in (*pairs, _comms.pop(name, 0)):
            if handle:
                device.forget(handle)
                library.guest.comm_free(handle)


def _watch_split(c10d):
    """Parts of a group that its backend splits (2.15) come from C++, and are registered in one function."""
    register = getattr(c10d, "_register_pg_in_world", None)
    if register is None:
        return

    @functools.wraps(register)
    def registered(pg, *args, **kwargs):
        result = register(pg, *args, **kwargs)
        ranks = c10d._world.pg_group_ranks.get(pg)
        if pg.group_name not in _comms and ranks and library.guest.is_watched():
            _show(pg, sorted(ranks, key=ranks.get))
        return result

    c10d._register_pg_in_world = registered


def _number(variable):
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else -1


def _join(rank, size):
    """The rank waits for all others until the job's group is made, which is shown as a call of its own. None: it is
    not known how many there are, or nobody watches."""
    global _joined
    if not 0 <= rank < size or not library.guest.is_watched():
        return None
    _joined += 1
    comm = library.guest.comm_create(_key_of(f"init {_joined}", range(size)), rank, size, b"init_process_group")
    if comm == 0:
        return None
    call = library.new_call(comm, "comm_create")
    library.guest.call_post(ctypes.byref(call))
    return call


def install():
    """Groups are made in one function, whatever the program calls, but for those that are split."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    make, destroy, init = c10d._new_process_group_helper, c10d.destroy_process_group, c10d.init_process_group
    parameters = inspect.signature(init)

    @functools.wraps(init)
    def init_process_group(*args, **kwargs):
        """The rank shows itself before it waits for the others."""
        said = parameters.bind_partial(*args, **kwargs).arguments
        rank, size = said.get("rank", -1), said.get("world_size", -1)
        library.guest.attach(rank, size)
        joining = _join(rank if rank >= 0 else _number("RANK"), size if size >= 0 else _number("WORLD_SIZE"))
        if joining is None:
            return init(*args, **kwargs)
        library.guest.call_wait_begin(joining)
        try:
            result = init(*args, **kwargs)
        except Exception:
            library.guest.call_wait_end(joining)
            library.guest.call_failed(joining)
            raise
        library.guest.call_wait_end(joining)
        library.guest.call_done(joining)
        library.guest.comm_free(joining.comm)
        return result

    @functools.wraps(make)
    def new_group(group_size, group_rank, global_ranks_in_group, *args, **kwargs):
        global _is_over
        result = make(group_size, group_rank, global_ranks_in_group, *args, **kwargs)
        if isinstance(result[0], c10d.ProcessGroup):
            _is_over = False
            _show(result[0], list(global_ranks_in_group))
        return result

    @functools.wraps(destroy)
    def destroy_process_group(group=None):
        global _is_over
        is_all = group is None or group is c10d.GroupMember.WORLD
        names = list(_comms) if is_all else [getattr(group, "group_name", "")]
        destroy(group)
        _forget(names)
        _is_over = _is_over or is_all

    _watch_split(c10d)
    c10d._new_process_group_helper = new_group
    c10d.destroy_process_group = dist.destroy_process_group = destroy_process_group
    c10d.init_process_group = dist.init_process_group = init_process_group
    atexit.register(_end)


def _end():
    """The good end: the program has said that it needs its peers no more, and no exception has ended it."""
    if _is_over and getattr(sys, "last_value", None) is None:
        library.guest.detach()
