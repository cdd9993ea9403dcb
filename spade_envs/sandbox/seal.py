"""Layer 2: how a process gives up everything but computing, by system calls through ctypes.

The load-bearing wall is the seccomp allow-list: a sealed process can use its memory, its clock, and the descriptors
that it has; it cannot open, connect, signal, start or trace anything, nor map new executable memory. Everything else
here (uid, namespaces, Landlock, limits) stands behind that wall in case of a hole in it. Linux on x86-64 and aarch64.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterable

# <linux/prctl.h>
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
_SECCOMP_MODE_FILTER = 2
# <linux/sched.h>
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x08000000, 0x10000000, 0x40000000
# <linux/landlock.h>; the numbers of these calls are the same on every architecture
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 444, 446
_LANDLOCK_VERSION_FLAG = 1
_LANDLOCK_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # rights added by each ABI
_LANDLOCK_TCP, _LANDLOCK_SCOPES = 0b11, 0b11
# <linux/seccomp.h>, <linux/audit.h>, <linux/bpf_common.h>
_KILL, _DENY, _ALLOW = 0x80000000, 0x00050000 | 1, 0x7FFF0000  # the process; errno EPERM; pass
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_X32_BIT = 0x40000000
_PROT_EXEC = 4
_DATA_NR, _DATA_ARCH, _DATA_ARG2 = 0, 4, 16 + 2 * 8  # offsets in struct seccomp_data

# What CPython needs to compute, keep time and talk over descriptors it already has.
# From arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
SYSTEM_CALLS: dict[str, dict[str, int]] = {
    "x86_64": {
        **{"read": 0, "write": 1, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigreturn": 15},
        **{"sched_yield": 24, "mremap": 25, "madvise": 28, "nanosleep": 35, "getpid": 39, "exit": 60},
        **{"gettimeofday": 96, "getrusage": 98, "time": 201, "futex": 202, "restart_syscall": 219},
        **{"clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "getrandom": 318},
    },
    "aarch64": {
        **{"read": 63, "write": 64, "mmap": 222, "mprotect": 226, "munmap": 215, "brk": 214, "rt_sigreturn": 139},
        **{"sched_yield": 124, "mremap": 216, "madvise": 233, "nanosleep": 101, "getpid": 172, "exit": 93},
        **{"gettimeofday": 169, "getrusage": 165, "futex": 98, "restart_syscall": 128},
        **{"clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115, "exit_group": 94, "getrandom": 278},
    },
}
_EXECUTABLE = ("mmap", "mprotect")
"""Calls that could make memory executable: their third argument is looked at."""
FIRST_UID, UIDS = 1_879_100_000, 100_000
"""Workers' uids where the whole range is there: above systemd's containers (UIDS-GIDS.md), below 2^31."""
SMALL_FIRST_UID, SMALL_UIDS = 61184, 4336
"""Where only 65,536 ids are mapped (a container): systemd's range for dynamic users."""

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, value: int, what: str) -> None:
    _checked(_libc.prctl(option, value, 0, 0, 0), what)


def supported() -> str | None:
    """Why this machine cannot seal a process, or None if it seems that it can."""
    if platform.system() != "Linux":
        return f"sealed workers need Linux, and this is {platform.system()}"
    if platform.machine() not in SYSTEM_CALLS:
        return f"no system-call table for {platform.machine()}; there are tables for {', '.join(SYSTEM_CALLS)}"
    return None


def no_new_privileges() -> None:
    """No program that is executed from here on gains anything by being setuid."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS")


def die_with_parent() -> None:
    """Be killed when the parent ends; cleared by a change of uid, so it comes after that."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), "PR_SET_PDEATHSIG")


def undumpable() -> None:
    """No core file, no ptrace, and /proc/PID belongs to root."""
    _prctl(_PR_SET_DUMPABLE, 0, "PR_SET_DUMPABLE")


def drop_root(uid: int) -> bool:
    """As root, become the unprivileged user `uid` without any group or capability; False if we were not root."""
    if os.geteuid() != 0:
        return False
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    return True
    return uid


def worker_uid(index: int, mapped: int) -> int:
    """The uid of worker number `index`, where ids below `mapped` exist."""
    if mapped > FIRST_UID + UIDS:
        return FIRST_UID + index % UIDS
    return SMALL_FIRST_UID + index % SMALL_UIDS


def mapped_ids() -> int:
    """One more than the highest uid that this user namespace maps."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        rows = [[int(word) for word in line.split()] for line in file]
    return max(first + count for first, _, count in rows)


def leave_namespaces() -> list[str]:
    """Enter empty network and IPC namespaces (as a normal user, by way of a user namespace); what worked."""
    flags = CLONE_NEWNET | CLONE_NEWIPC | (0 if os.geteuid() == 0 else CLONE_NEWUSER)
    if _libc.unshare(flags) != 0:
        return []
    return ["namespaces"]


def limit_resources(memory: int, cpu_seconds: int) -> None:
    """Address space in bytes, CPU time in seconds, and none of files, processes, cores, queues or locked memory."""
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: 16,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    for name, value in limits.items():
        hard = resource.getrlimit(name)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (allowed, allowed))


def landlock_abi() -> int:
    """The kernel's Landlock version, 0 where there is none."""
    version = _libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_LANDLOCK_VERSION_FLAG))
    return max(version, 0)


def landlock() -> int:
    """Give up every right that Landlock knows on files, TCP, and other processes; returns its version (0: absent)."""
    abi = landlock_abi()
    if not abi:
        return 0
    files = sum(rights for since, rights in _LANDLOCK_FILE_RIGHTS.items() if abi >= since)
    fields = [files]
    if abi >= 4:
        fields.append(_LANDLOCK_TCP)
    if abi >= 6:
        fields.append(_LANDLOCK_SCOPES)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = _checked(
        _libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    try:
        _checked(_libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    return abi


def seccomp_program(machine: str | None = None) -> bytes:
    """The allow-list as a BPF program: another architecture kills, a call not listed gives EPERM."""
    machine = machine or platform.machine()
    calls = SYSTEM_CALLS[machine]
    program = [
        _instruction(_LOAD, _DATA_ARCH),
        _instruction(_EQUAL, _AUDIT_ARCH[machine], yes=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _DATA_NR),
    ]
    if machine == "x86_64":
        program += [_instruction(_AT_LEAST, _X32_BIT, no=1), _instruction(_RETURN, _KILL)]
    for name in _EXECUTABLE:
        program += [
            _instruction(_EQUAL, calls[name], no=4),
            _instruction(_LOAD, _DATA_ARG2),
            _instruction(_ANY_BIT, _PROT_EXEC, no=1),
            _instruction(_RETURN, _DENY),
            _instruction(_RETURN, _ALLOW),
        ]
    for number in _plain_calls(calls):
        program += [_instruction(_EQUAL, number, no=1), _instruction(_RETURN, _ALLOW)]
    program.append(_instruction(_RETURN, _DENY))
    return b"".join(program)


def _plain_calls(calls: dict[str, int]) -> Iterable[int]:
    return sorted(number for name, number in calls.items() if name not in _EXECUTABLE)


def _instruction(code: int, operand: int, yes: int = 0, no: int = 0) -> bytes:
    """`struct sock_filter`: code, jumps if true and if false, operand."""
    return struct.pack("HBBI", code, yes, no, operand)


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def seccomp(program: bytes) -> None:
    """Install the filter for this process and all it could ever start; there is no way back."""
    buffer = ctypes.create_string_buffer(program, len(program))
    described = _Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _checked(
        _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0),
        "PR_SET_SECCOMP (is seccomp built into this kernel, and allowed here?)",
    )
