"""A model behind an OpenAI-compatible endpoint: streamed, retried with backoff, its errors told in one sentence.

Answers are streamed even though they are used whole: a server that went silent is then noticed by the gap between two
events, however long an answer may take, and proxies do not cut a request that is still producing. Rate limits, server
errors, timeouts, cut streams and garbled events are tried again (tenacity); `Retry-After` is obeyed. The key is read
from the environment when the client is made and is kept nowhere else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_base, wait_random_exponential

from spade_envs.errors import SpadeError
from spade_trainer.generation.generator import Answer, ChatMessage, ContextOverflow, Sampling
from spade_trainer.toolcalls import ToolCall, from_openai

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
CONNECT_SECONDS = 10.0
LONGEST_WAIT = 60.0  # seconds between two tries, and the most that a Retry-After is obeyed for
OVERFLOW_SIGNS = ("context length", "context_length", "maximum model length", "max_model_len", "context window")


class EndpointError(SpadeError):
    """An endpoint that cannot be used, or gave up on us."""


class CutStream(Exception):
    """A stream that ended before the model said why it stopped."""


class OpenAIGenerator:
    """A chat model at an endpoint.

    Args:
        model: the model's name at the endpoint.
        base_url: the endpoint, up to and including `/v1`; default: $OPENAI_BASE_URL, else the client library's.
        key_variable: name of the environment variable that holds the key; servers without keys need none.
        timeout: seconds without a byte from the server after which a try is given up.
        tries: how often one request is made before its error is final.
        tool_choice: how a model learns of its tools. auto, required and none go to the server with the schemas (none: the
            server does not parse calls, the text is read here); prompt: the schemas stand in the system message instead.
        backoff: seconds of the first wait between tries; later ones grow exponentially, with jitter.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_variable: str = KEY_VARIABLE,
        timeout: float = 300.0,
        tries: int = 8,
        tool_choice: str = "auto",
        backoff: float = 1.0,
    ):
        self.name = self.model = model
        self.native_tools = tool_choice != "prompt"
        self.retries = 0
        """Tries that failed and were made again."""
        self._key_variable = key_variable
        self._key = os.environ.get(key_variable, "")
        url = base_url or os.environ.get(URL_VARIABLE) or None
        if url is None and not self._key:
            raise EndpointError(
                f"the model `{model}` needs an endpoint: give --base-url (or set ${URL_VARIABLE}), "
                f"or put the key into ${key_variable}"
            )
        if url is not None and urlsplit(url).scheme not in ("http", "https"):
            raise EndpointError(f"--base-url must begin with http:// or https://, got {url!r}")
        self._tool_choice = tool_choice
        self._limit_name = "max_tokens"
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key=self._key or "none",
            max_retries=0,
            timeout=openai.Timeout(timeout, connect=CONNECT_SECONDS),
        )
        self.url = _public(str(self._client.base_url))
        self._retrying = AsyncRetrying(
            retry=retry_if_exception(_transient),
            wait=_Wait(backoff),
            stop=stop_after_attempt(tries),
            before_sleep=self._count,
            reraise=True,
        )

    async def prepare(self) -> None:
        """Raise `EndpointError` if nobody answers at the address or the key is refused."""
        try:
            await self._client.models.list()
        except (openai.APIConnectionError, openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise await self._explained(error) from None
        except openai.OpenAIError:
            return  # not every endpoint lists its models; the first request will tell

    async def generate(
        self, messages: Sequence[ChatMessage], sampling: Sampling, *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Answer:
        """Answer one conversation. Raises `ContextOverflow` and `EndpointError`."""
        request = self._request(messages, sampling, tools)
        while True:
            try:
                return await self._retrying(self._stream, request)
            except openai.BadRequestError as error:
                if not self._adapt(request, error):
                    raise await self._explained(error) from None
            except (openai.OpenAIError, CutStream, json.JSONDecodeError) as error:
                raise await self._explained(error) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _request(
        self, messages: Sequence[ChatMessage], sampling: Sampling, tools: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "temperature": sampling.temperature,
            self._limit_name: sampling.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if sampling.top_p < 1.0:
            request["top_p"] = sampling.top_p
        if tools:
            request |= {"tools": [dict(tool) for tool in tools], "tool_choice": self._tool_choice}
        return request

    async def _stream(self, request: dict[str, Any]) -> Answer:
        """Make one request and gather its events."""
        text: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        finish, usage = None, None
        stream = await self._client.chat.completions.create(**request)
        async with stream:
            async for event in stream:
                usage = event.usage or usage
                for choice in event.choices[:1]:
                    delta = choice.delta
                    text.append((delta.content or "") if delta else "")
                    for part in (delta.tool_calls or ()) if delta else ():
                        _merge(calls, part)
                    finish = choice.finish_reason or finish
        if finish is None:
            raise CutStream
        return Answer(
            text="".join(text),
            finish="length" if finish == "length" else "stop",
            calls=_calls(calls),
            prompt_tokens=usage.prompt_tokens if usage else 0,
            tokens=usage.completion_tokens if usage else 0,
        )

    def _adapt(self, request: dict[str, Any], error: openai.BadRequestError) -> bool:
        """Change a refused request so that it may pass, once for each reason; say whether there was one.

        Endpoints disagree on the name of the token limit, and refuse one that does not fit into what the conversation
        leaves of the context; without a limit they use exactly what is left.
        """
        message = str(error).lower()
        if "max_completion_tokens" in message and "max_tokens" in request and "max_tokens" in message:
            self._limit_name = "max_completion_tokens"
            request[self._limit_name] = request.pop("max_tokens")
            return True
        if _overflows(message) and self._limit_name in request:
            del request[self._limit_name]
            return True
        return False

    async def _explained(self, error: Exception) -> SpadeError:
        """Return the error as one sentence for a person, without the key."""
        message = _message(error)
        if self._key:
            message = message.replace(self._key, "***")
        if isinstance(error, openai.BadRequestError) and _overflows(message.lower()):
            return ContextOverflow(f"{self.model}: {message}")
        if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
            state = "the key in" if self._key else "a request without a key; put one into"
            return EndpointError(f"{self.url} refuses {state} ${self._key_variable}: {message}")
        if isinstance(error, openai.NotFoundError):
            return EndpointError(
                f"{self.url} does not serve `{self.model}` ({message}); it offers {await self._offered()}"
            )
        if isinstance(error, openai.APITimeoutError):
            return EndpointError(f"{self.url} sent nothing for too long; raise --timeout or lower --concurrency")
        if isinstance(error, openai.APIConnectionError):
            return EndpointError(f"no server answers at {self.url}, or it broke off: {message}")
        if isinstance(error, CutStream):
            return EndpointError(
                f"{self.url} ends answers before they are complete: is it a chat endpoint that streams?"
            )
        if isinstance(error, json.JSONDecodeError):
            return EndpointError(f"{self.url} streams what is not JSON ({message}); is it a chat endpoint?")
        return EndpointError(f"{self.url} refused the request: {message}")

    async def _offered(self) -> str:
        try:
            names = sorted(model.id for model in (await self._client.models.list()).data)
        except openai.OpenAIError:
            return "no list of its models"
        return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") or "none"

    def _count(self, _: RetryCallState) -> None:
        self.retries += 1


class _Wait(wait_base):
    """Exponential with jitter, or what the server asked for."""

    def __init__(self, first: float):
        self._backoff = wait_random_exponential(multiplier=first, max=LONGEST_WAIT)

    def __call__(self, retry_state: RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        wanted = error.response.headers.get("retry-after", "") if isinstance(error, openai.APIStatusError) else ""
        try:
            return min(max(float(wanted), 0.0), LONGEST_WAIT)
        except ValueError:
            return self._backoff(retry_state)


def _transient(error: BaseException) -> bool:
    """Tell whether the same request may succeed later."""
    if isinstance(error, openai.RateLimitError):
        return error.code != "insufficient_quota"  # an empty account is not a matter of waiting
    if isinstance(error, openai.APIStatusError):
        return error.status_code >= 500 or error.status_code in (408, 409, 425)
    if type(error) is openai.APIError:  # an error event inside a stream
        return True
    return isinstance(error, (openai.APIConnectionError, CutStream, json.JSONDecodeError))


def _overflows(message: str) -> bool:
    return any(sign in message for sign in OVERFLOW_SIGNS)


def _message(error: Exception) -> str:
    body = getattr(error, "body", None)
    inner = body.get("message") if isinstance(body, dict) else None
    status = getattr(error, "status_code", None)
    text = " ".join(str(inner or getattr(error, "message", None) or error).split())[:500]
    return f"{status} {text}" if status and not text.startswith("Error code") else text


def _merge(calls: dict[int, dict[str, Any]], part: Any) -> None:
    """Add a streamed piece of a tool call: the id and name come once, the arguments in pieces."""
    call = calls.setdefault(part.index or 0, {"id": None, "function": {"name": "", "arguments": ""}})
    call["id"] = part.id or call["id"]
    if part.function:
        call["function"]["name"] += part.function.name or ""
        call["function"]["arguments"] += part.function.arguments or ""


def _calls(calls: Mapping[int, dict[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(from_openai(calls[index] for index in sorted(calls)))


def _public(url: str) -> str:
    """Return a base URL without user, password and query, which may be secret."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    netloc = f"[{host}]" if ":" in host else host
    netloc = f"{netloc}:{parts.port}" if parts.port else netloc
    return urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
