"""Runs one program: the part of the sandbox that touches the program's own objects.

It works in the sealed worker, and in process for programs that their user trusts. A *world* is one run of the whole
source: module, class, instance, private randomness. Every reset makes a new world from the episode's seed, so nothing
that a program keeps in a module, a class or a default argument survives into another episode.

Results are checked by exact type before anything else looks at them: a subclass of `str` may lie about its length.
"""

from __future__ import annotations

import builtins
import inspect
import json
import math
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import msgspec

from spade_envs.errors import PolicyViolation
from spade_envs.sandbox import guards, modules, policy
from spade_envs.sandbox.protocol import MAX_INFO, Answer, Broken, Item, Load, LoadReport, Text, encode
from spade_envs.tooluse import ToolUseBaseEnv, schema_mismatches

MAX_MESSAGE = 500
_MAX_DEPTH = 16
_MAX_NODES = 10_000
_UNSIGNED_64 = 2**64


class World:
    """One run of a program's source, with its instance and its randomness."""

    __slots__ = ("env", "generator", "step")

    def __init__(self, env: Any, generator: Any) -> None:
        self.env = env
        self.generator = generator
        self.step: Callable[[str], Any] = env.step


class Runner:
    """Loads one program and plays any number of its instances."""

    def __init__(self, *, extras: tuple[str, ...] = (), layers: list[str] | None = None) -> None:
        self.shared = modules.shared_modules(extras)
        self.layers = layers or []
        self.worlds: dict[int, World] = {}
        self.code: Any = None
        self.class_name = ""
        self.kind = "game"
        self.max_observation = 0
        self.weight = 0  # characters and bytes in the answers since the worker last looked
        self._guarded = True
        self._builtins: dict[str, Any] = {}
        self._globals: dict[str, Any] = {}

    def load(self, request: Load) -> LoadReport:
        """Compile the program, run it once, and look at its class."""
        self.class_name, self.kind, self.max_observation = request.class_name, request.kind, request.max_observation
        self._guarded = request.guarded
        self._builtins = modules.safe_builtins() if request.guarded else dict(vars(builtins))
        self._globals = {**modules.injected(self.shared), **modules.GUARD_NAMES, "ToolUseBaseEnv": ToolUseBaseEnv}
        stage = "parse"
        try:
            self.code = policy.compile_program(request.source, guarded=request.guarded, extras=request.extras)
            stage = "load"
            _, namespace = self._namespace(0)
            found = self._class(namespace)
            self._instance(found, {}, 0)
        except PolicyViolation as error:
            return self._report("policy", str(error), violations=error.violations)
        except SyntaxError as error:
            return self._report("parse", _describe_syntax(error))
        except BaseException as error:
            return self._report(stage, describe(error))
        return self._report(
            None, "", max_turns=_default_max_turns(found), has_solution=callable(getattr(found, "solution", None))
        )

    def _report(self, stage: str | None, message: str, **facts: Any) -> LoadReport:
        defaults: dict[str, Any] = {"violations": [], "max_turns": None, "has_solution": False}
        return LoadReport(stage, message, layers=self.layers, **{**defaults, **facts})

    def _namespace(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """Run the program's module in a new namespace; its generator is the current one from here on."""
        own_random, generator = modules.private_random(seed)
        modules.Randomness.current = generator
        module = types.ModuleType(guards.PROGRAM_MODULE)
        namespace = module.__dict__
        namespace.update(self._globals)
        fallback = None if self._guarded else builtins.__import__
        table = dict(self._builtins)
        table["__import__"] = modules.importer(self.shared, own_random, fallback)
        namespace.update(random=own_random, __builtins__=table, __name__=guards.PROGRAM_MODULE)
        sys.modules[guards.PROGRAM_MODULE] = module  # dataclasses, enum and typing look a class's module up
        exec(self.code, namespace)
        return generator, namespace

    def _class(self, namespace: dict[str, Any]) -> type:
        found = namespace.get(self.class_name)
        if not isinstance(found, type):
            raise TypeError(f"the program defines no class {self.class_name}")
        for method in ("reset", "step"):
            if not callable(getattr(found, method, None)):
                raise TypeError(f"the class {self.class_name} must define {method}()")
        return found

    def _instance(self, found: type, keywords: dict[str, Any], seed: int) -> Any:
        accepted, anything = _parameters(found.__init__)  # type: ignore[misc]
        offered = {"seed": seed, **keywords} if "seed" in accepted else keywords
        usual = ("max_turns", "seed")
        chosen = {key: value for key, value in offered.items() if anything or key in accepted or key not in usual}
        return found(**chosen)

    def reset(self, identifier: int, seed: int, keywords: dict[str, Any]) -> Item:
        """Make a new world for the instance and open its episode."""
        self.worlds.pop(identifier, None)
        try:
            generator, namespace = self._namespace(seed)
            env = self._instance(self._class(namespace), keywords, seed)
            generator.seed(seed)
            accepted, anything = _parameters(env.reset)
            result = env.reset(seed=seed) if anything or "seed" in accepted else env.reset()
            world = World(env, generator)
        except BaseException as error:
            return Broken(f"reset() failed: {describe(error)}")
        answer = self._opening(result, env)
        if type(answer) is Answer:
            self.worlds[identifier] = world
        return answer

    def _opening(self, result: Any, env: Any) -> Item:
        if type(result) is str:
            result = (result, {})
        if type(result) is not tuple or len(result) != 2:
            return Broken(f"reset() must return (str, dict) or str, not {_kind_of(result)}")
        observation, info = result
        if self.kind == "tool_use" and type(info) is dict:
            try:
                info = {**info, "tools": env.get_tools()}
            except BaseException as error:
                return Broken(f"get_tools() failed after reset(): {describe(error)}")
        return self._checked("reset", observation, 0.0, False, False, info)

    def step(self, identifier: int, action: str) -> Item:
        """One turn; a world that breaks is over."""
        world = self.worlds.get(identifier)
        if world is None:
            return Broken("step() was called before reset(), or after the program failed")
        modules.Randomness.current = world.generator
        try:
            result = world.step(action)
        except BaseException as error:
            del self.worlds[identifier]
            return Broken(f"step() failed: {describe(error)}")
        if type(result) is tuple and len(result) == 5:
            answer = self._checked("step", *result)
        else:
            answer = Broken(
                "step() must return a tuple of five (observation, reward, terminated, truncated, info), not "
                + _kind_of(result)
            )
        if type(answer) is Broken:
            del self.worlds[identifier]
        return answer

    def _checked(
        self, method: str, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any
    ) -> Answer | Broken:
        """The result as an `Answer` if every type is exactly right."""
        if type(reward) is not float or type(terminated) is not bool or type(truncated) is not bool:
            reward, terminated, truncated = _scalar(reward), _scalar(terminated), _scalar(truncated)
        if type(observation) is not str:
            return Broken(f"{method}(): the observation must be a str, not {_kind_of(observation)}")
        if len(observation) > self.max_observation:
            limit = self.max_observation
            return Broken(f"{method}(): the observation has {len(observation)} characters; at most {limit} are allowed")
        if type(reward) is int:
            try:
                reward = float(reward)
            except OverflowError:
                return Broken(f"{method}(): the reward must be a finite number")
        if type(reward) is not float:
            return Broken(f"{method}(): the reward must be a number, not {_kind_of(reward)}")
        if not math.isfinite(reward):
            return Broken(f"{method}(): the reward must be a finite number, not {reward}")
        if type(terminated) is not bool or type(truncated) is not bool:
            kinds = f"{_kind_of(terminated)} and {_kind_of(truncated)}"
            return Broken(f"{method}(): terminated and truncated must be bool, not {kinds}")
        if type(info) is not dict:
            return Broken(f"{method}(): info must be a dict, not {_kind_of(info)}")
        self.weight += len(observation)
        if info:
            try:
                info, size = plain(info)
                self.weight += size
            except ValueError as error:
                return Broken(f"{method}(): {error}")
            except BaseException as error:
                return Broken(f"{method}(): info cannot be read: {describe(error)}")
        return Answer(observation, reward, terminated, truncated, info)

    def solution(self, identifier: int) -> Item:
        """What the program says its solution is, if it says anything."""
        world = self.worlds.get(identifier)
        if world is None:
            return Broken("solution() was asked for before reset(), or after the program failed")
        modules.Randomness.current = world.generator
        try:
            method = getattr(world.env, "solution", None)
            text = method() if callable(method) else None
        except BaseException as error:
            return Broken(f"solution() failed: {describe(error)}")
        if text is not None and type(text) is not str:
            return Broken(f"solution() must return a str, not {_kind_of(text)}")
        if text is not None and len(text) > self.max_observation:
            return Broken(f"solution() returned {len(text)} characters; at most {self.max_observation} are allowed")
        self.weight += len(text or "")
        return Text(text)

    def inspect(self, identifier: int) -> Item:
        """Facts for the gate about a tool-use instance: where schemas and methods disagree, and its criteria
        now, and how many instructions it has."""
        world = self.worlds.get(identifier)
        if world is None:
            return Broken("an instance is inspected after reset()")
        modules.Randomness.current = world.generator
        try:
            facts = {
                "mismatches": [str(one)[:MAX_MESSAGE] for one in schema_mismatches(world.env._tools, world.env)[:20]],
                "messages": len(list(world.env._user_messages)),
                "criteria": [_criterion(one, world.env._state) for one in list(world.env._message_criteria)[:100]],
            }
            return Text(json.dumps(facts))
        except BaseException as error:
            return Broken(f"the tools cannot be read after reset(): {describe(error)}")

    def mend(self, source: str) -> Item:
        """The repaired text of a program, and what was changed; nothing of it runs."""
        from spade_envs.gate.repair import repair  # the gate imports this package; a zygote has it loaded

        try:
            mended = repair(source)
        except BaseException as error:
            return Broken(f"the text cannot be repaired: {describe(error)}")
        return Text(json.dumps({"source": mended.source, "changes": mended.changes}))

    def close(self, identifier: int) -> None:
        """Forget an instance, after its own `close()` if it has one."""
        world = self.worlds.pop(identifier, None)
        method = getattr(world.env, "close", None) if world else None
        if callable(method):
            try:
                method()
            except BaseException:
                return  # the episode is over; nobody is left to tell


def _criterion(criterion: Any, state: Any) -> bool | str:
    """Whether a criterion holds, or what it raised."""
    try:
        return bool(criterion(state))
    except BaseException as error:
        return describe(error)


def plain(info: dict[Any, Any]) -> tuple[dict[str, Any], int]:
    """A copy of an info dict that holds only what JSON holds, and its size in bytes.

    Raises `ValueError` that names the first entry which JSON cannot hold, or says that the whole is too large.
    """
    copied: dict[str, Any] = _plain(info, "info", 0, [_MAX_NODES])
    size = len(encode(copied))
    if size > MAX_INFO:
        raise ValueError(f"info takes more than {MAX_INFO} bytes")
    return copied, size


def _plain(value: Any, path: str, depth: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0 or depth > _MAX_DEPTH:
        raise ValueError(f"info has more than {_MAX_NODES} entries or {_MAX_DEPTH} levels")
    if value is None or type(value) is bool:
        return value
    if isinstance(value, str):
        return str.__str__(value).encode("utf-8", "replace").decode()
    if isinstance(value, int):
        number = int.__int__(value)
        if not -(_UNSIGNED_64 // 2) <= number < _UNSIGNED_64:
            raise ValueError(f"{path} is an integer beyond 64 bits")
        return number
    if isinstance(value, float):
        return _finite(float.__float__(value), path)
    if isinstance(value, dict):
        return {_key(key, path): _plain(item, f"{path}[{_key(key, path)!r}]", depth + 1, budget)
                for key, item in dict.items(value)}  # fmt: skip
    if isinstance(value, (list, tuple)):
        items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        return [_plain(item, f"{path}[{index}]", depth + 1, budget) for index, item in enumerate(items)]
    scalar = _scalar(value)
    if scalar is not value:
        return _plain(scalar, path, depth + 1, budget)
    raise ValueError(f"{path} is {_kind_of(value)}, which JSON cannot hold")


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return str.__str__(key).encode("utf-8", "replace").decode()[:256]
    if key is None or type(key) in (bool, int, float):
        return str(key)[:256]
    raise ValueError(f"{path} has a key that is {_kind_of(key)}; JSON has keys of text only")


def _finite(number: float, path: str) -> float:
    if not math.isfinite(number):
        raise ValueError(f"{path} is {number}, which JSON cannot hold")
    return number


def _scalar(value: Any) -> Any:
    """A numpy scalar as the Python value it stands for; anything else as it is."""
    if type(value).__module__ == "numpy" and "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].generic):
        return value.item()
    return value


def _kind_of(value: Any) -> str:
    return "None" if value is None else str(type(value).__name__)[:60]


def _parameters(function: Any) -> tuple[frozenset[str], bool]:
    """Names of a function's parameters, and whether it takes any keyword."""
    code = getattr(function, "__code__", None) or getattr(getattr(function, "__func__", None), "__code__", None)
    if code is None:
        return frozenset(), False
    count = code.co_argcount + code.co_kwonlyargcount
    return frozenset(code.co_varnames[:count]), bool(code.co_flags & inspect.CO_VARKEYWORDS)


def _default_max_turns(found: type) -> int | None:
    try:
        default = inspect.signature(found).parameters["max_turns"].default
    except (KeyError, ValueError, TypeError):
        return None
    return default if type(default) is int and 0 < default < 1_000_000 else None


def describe(error: BaseException) -> str:
    """`line N in f: Kind: message`, the line being the innermost one of the program's own."""
    try:
        kind, text = str(type(error).__name__)[:60], str(error)[:MAX_MESSAGE]
        if type(text) is not str:
            text = ""
    except BaseException:
        kind, text = "an exception", "its own text cannot be read"
    text = text.encode("utf-8", "replace").decode()
    where = ""
    try:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__, limit=-200)
                  if frame.filename == policy.FILENAME]  # fmt: skip
        if frames:
            where = f"line {frames[-1].lineno} in {frames[-1].name}: "
    except BaseException:
        where = ""
    return f"{where}{kind}: {text}" if text else f"{where}{kind}"


def _describe_syntax(error: SyntaxError) -> str:
    place = f"line {error.lineno}, column {error.offset}: " if error.lineno else ""
    return f"{place}{error.msg}"


def encoded(items: list[Item]) -> bytes:
    """Answers as MessagePack; one that cannot be encoded (a lone surrogate) becomes `Broken`, and only that one."""
    try:
        return encode(items)
    except (UnicodeEncodeError, ValueError, msgspec.MsgspecError, TypeError, OverflowError):
        return encode([_encodable(item) for item in items])


def _encodable(item: Item) -> Item:
    try:
        encode(item)
    except (UnicodeEncodeError, ValueError, msgspec.MsgspecError, TypeError, OverflowError):
        return Broken("the observation must be Unicode text, but it holds a lone surrogate")
    return item
