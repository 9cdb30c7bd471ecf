"""The root of the boxes: what Python needs, read-only, and a place for a tmpfs. Nothing else of this machine."""

from __future__ import annotations

import os
import sys

from verifiers.sandbox import linux

HOME = "/box"
_DISK = f"{HOME}/disk"
WORK = f"{_DISK}/work"
_STAGING = ("/tmp", "/var/tmp", "/mnt", "/srv")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKS = {
    "/tmp": f"{_DISK}/tmp",
    "/var/tmp": f"{_DISK}/tmp",
    "/dev/shm": f"{_DISK}/shm",
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}

HELD = 250
"""The descriptor of this Python's folder, in processes that may not come to it by its path."""
_python = os.path.realpath(sys.base_prefix)


def hold_python() -> int:
    return os.open(_python, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def reach_python(held: int) -> None:
    """After a change of user: where Python lies in a folder that this user may not enter, come to it by `held`."""
    global _python
    if not os.access(os.__file__, os.R_OK):
        os.dup2(held, HELD, inheritable=False)
        before, _python = _python, f"/proc/self/fd/{HELD}"
        lists = [sys.path, *(module.__path__ for module in sys.modules.values() if hasattr(module, "__path__"))]
        for paths in lists:
            paths[:] = [_python + path.removeprefix(before) if path.startswith(before) else path for path in paths]
        sys.path_importer_cache.clear()
    os.close(held)


def system_paths() -> list[str]:
    """Folders and files that a program may read: the system's libraries and tools, and this Python."""
    paths = [path for path in _SYSTEM if os.path.exists(path)]
    paths += [path for path in ("/etc/ld.so.cache", "/nix/store") if os.path.exists(path)]
    if not any(_python == path or _python.startswith(f"{path}/") for path in paths):
        paths.append(_python)
    return paths


def build() -> None:
    """Make the root and enter it. The caller is alone in a mount namespace in which it may mount."""
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    sources = {path: os.readlink(path) if os.path.islink(path) else None for path in system_paths()}
    staging = next(path for path in _STAGING if os.path.isdir(path) and not any(s.startswith(path) for s in sources))
    linux.mount("tmpfs", staging, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755,size=1m")
    for path, link in sources.items():
        if link is None:
            _bind(path, staging)
            linux.make_read_only(staging + path)
        else:
            os.symlink(link, staging + path)
    for name in DEVICES:
        _bind(f"/dev/{name}", staging)
    _bind("/proc", staging)
    os.makedirs(staging + _DISK)
    for path, target in _LINKS.items():
        os.makedirs(os.path.dirname(staging + path), exist_ok=True)
        os.symlink(target, staging + path)
    linux.enter_root(staging)
    flags = linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("none", "/", None, flags)


_FLAGS = linux.MS_NOSUID | linux.MS_NODEV
_PROC = linux.Mount("proc", "/proc", "proc", _FLAGS | linux.MS_NOEXEC)


def disk(size: int) -> linux.Mount:
    """A place for `size` bytes of files, to be mounted by `furnish`."""
    return linux.Mount("tmpfs", _DISK, "tmpfs", _FLAGS, f"mode=755,size={size},nr_inodes=20000")


def furnish(files: linux.Mount) -> None:
    """Fill in what each program has for itself: its own /proc and its files."""
    _PROC.make()
    files.make()
    os.mkdir(WORK)
    os.mkdir(f"{_DISK}/tmp")
    os.mkdir(f"{_DISK}/shm")
    os.chdir(WORK)


def _bind(path: str, staging: str) -> None:
    target = staging + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    linux.mount(path, target, None, linux.MS_BIND | linux.MS_REC)
