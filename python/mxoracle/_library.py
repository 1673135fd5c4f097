"""The extension, loaded at the first call, and the backends that calls share."""
from __future__ import annotations

import os
import sys
import threading

from mxoracle import _checks

_core = None
_engines: dict = {}
_lock = threading.Lock()
_one_thread = False
_abandoned: list = []


def core():
    """The extension module.  Loaded late, so that a torch imported before the first call brings
    the OpenMP runtime that both then share."""
    global _core
    if _core is None:
        from mxoracle import _core as module

        _core = module
    return _core


def _threads() -> int:
    """Those of torch where it is there, whose teams are also ours; 0: as many as OpenMP says."""
    count = getattr(sys.modules.get("torch"), "get_num_threads", None)
    return 0 if count is None else count()


def engine(backend: str = "cpu", threads: int | None = None, stream: int | None = None):
    """The backend of that name; made once for each number of threads, and each stream of a caller."""
    _checks.text("backend", backend, "the name of a backend")
    if threads is not None:
        threads = _checks.whole_between("threads", threads, 0, 2**31 - 1)
    key = backend, 1 if _one_thread else _threads() if threads is None else threads, stream
    found = _engines.get(key)
    if found is None:
        with _lock:
            found = _engines.get(key)
            if found is None:
                found = _engines[key] = core().Engine(*key)
    return found


def _in_forked_child() -> None:
    # The threads of the parent's teams are not here: a team would wait for them for ever.
    global _one_thread, _lock
    _one_thread = True
    _lock = threading.Lock()
    _abandoned.append(dict(_engines))
    _engines.clear()


os.register_at_fork(after_in_child=_in_forked_child)
