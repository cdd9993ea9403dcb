"""The client behind the Generator seam, against a server on loopback that misbehaves."""

import asyncio
import json

import pytest

pytest.importorskip("openai")

from scripted_endpoint import CUT, HANG, Endpoint, Reply, answer, chunk, refusal, usage

from spade_trainer.generation.generator import ContextOverflow, Sampling
from spade_trainer.generation.openai import EndpointError, OpenAIGenerator
from spade_trainer.toolcalls import ToolCall

KEY = "sk-a-very-secret-key"
DEFAULT = Sampling()
ASK = [{"role": "user", "content": "Hello?"}]
TOOL = {"type": "function", "function": {"name": "pay", "parameters": {"type": "object"}}}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def ask(script, *, tools=(), sampling=DEFAULT, prepare=False, **options):
    """Serve `script`, ask once, and return the answer (or the error) with the endpoint and the client."""
    options = {"timeout": 5.0, "tries": 3, "backoff": 0.001, **options}

    async def run(endpoint):
        client = OpenAIGenerator("m", base_url=endpoint.url, **options)
        try:
            if prepare:
                await client.prepare()
            return await client.generate(ASK, sampling, tools=tools), client
        except Exception as error:
            return error, client
        finally:
            await client.close()

    with Endpoint(script) as endpoint:
        result, client = asyncio.run(run(endpoint))
    return result, endpoint, client


def then_well(first, text="fine"):
    """Misbehave once, then answer."""
    return lambda body, number: first if number == 1 else answer(text)


def test_a_sound_answer_and_what_was_asked():
    result, endpoint, client = ask(lambda body, n: answer("All is well.", prompt=12, completion=4), prepare=True)
    assert (result.text, result.finish, result.prompt_tokens, result.tokens) == ("All is well.", "stop", 12, 4)
    (request,) = endpoint.requests
    assert request["messages"] == ASK
    assert request["temperature"] == 0.6
    assert request["max_tokens"] == 8192
    assert "tools" not in request
    assert endpoint.keys == [f"Bearer {KEY}"]
    assert client.retries == 0


def test_an_answer_that_hit_its_limit_says_so():
    result, *_ = ask(lambda body, n: answer("All is", finish="length"))
    assert result.finish == "length"


@pytest.mark.parametrize(
    "fault",
    [
        refusal(429, "slow down", headers={"Retry-After": "0"}),
        refusal(429, "slow down", headers={"Retry-After": "soon"}),
        refusal(500, "oops"),
        Reply(status=503, body="<html>try later"),
        Reply([chunk("half an ans"), CUT]),
        Reply([CUT]),
        Reply([chunk("no reason given")]),
        Reply([chunk("half"), "{not json"]),
        Reply([chunk("half"), {"error": {"message": "the engine died", "code": 500}}]),
    ],
    ids=["429", "429-odd-header", "500", "503-html", "cut", "cut-at-once", "no-finish", "bad-json", "error-event"],
)
def test_a_passing_fault_is_retried_and_leaves_no_trace_in_the_answer(fault):
    result, endpoint, client = ask(then_well(fault))
    assert result.text == "fine"
    assert len(endpoint.requests) == 2
    assert client.retries == 1


def test_a_silent_server_is_given_up_and_tried_again():
    result, endpoint, _ = ask(then_well(Reply([chunk("half"), HANG])), timeout=0.3)
    assert result.text == "fine"
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("fault", "words", "requests"),
    [
        (refusal(429, "slow down", headers={"Retry-After": "0"}), ["429", "slow down"], 3),
        (refusal(429, "pay first", code="insufficient_quota"), ["pay first"], 1),
        (refusal(500, "oops"), ["500", "oops"], 3),
        (refusal(401, f"key {KEY} is unknown"), ["refuses the key in $OPENAI_API_KEY", "***"], 1),
        (refusal(404, "no such model"), ["does not serve `m`", "it offers big, small"], 1),
        (refusal(400, "temperature must be 1"), ["temperature must be 1"], 1),
        (Reply([chunk("half"), CUT]), ["broke off"], 3),
        (Reply([chunk("half"), "{not json"]), ["not JSON"], 3),
        (Reply(body="<html>", headers={"Content-Type": "text/html"}), ["chat endpoint"], 3),
    ],
)
def test_a_lasting_fault_is_one_plain_sentence_without_the_key(fault, words, requests, monkeypatch):
    with Endpoint(lambda body, n: fault, models=("small", "big")) as endpoint:
        client = OpenAIGenerator("m", base_url=endpoint.url, tries=3, backoff=0.001)

        async def run():
            try:
                await client.generate(ASK, Sampling())
            finally:
                await client.close()

        with pytest.raises(EndpointError) as caught:
            asyncio.run(run())
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert KEY not in text
    assert "\n" not in text
    assert len(endpoint.requests) == requests


def test_nobody_at_the_address_is_told_before_any_work():
    with Endpoint(lambda body, n: answer("x")) as endpoint:
        url = endpoint.url

    async def run():
        client = OpenAIGenerator("m", base_url=url)
        try:
            await client.prepare()
        finally:
            await client.close()

    with pytest.raises(EndpointError, match=r"no server answers at http://127\.0\.0\.1"):
        asyncio.run(run())


def test_without_a_key_and_an_address_there_is_nothing_to_ask(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EndpointError, match="give --base-url"):
        OpenAIGenerator("m")


def test_the_address_is_shown_without_its_secrets():
    client = OpenAIGenerator("m", base_url="https://user:password@host.example:8443/v1?token=t")
    assert client.url == "https://host.example:8443/v1"
    asyncio.run(client.close())


def test_a_server_that_wants_the_other_name_of_the_limit_gets_it():
    def script(body, number):
        if "max_tokens" in body:
            return refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return answer("fine")

    result, endpoint, _ = ask(script, sampling=Sampling(max_tokens=77))
    assert result.text == "fine"
    assert endpoint.requests[1]["max_completion_tokens"] == 77


def test_a_limit_larger_than_what_is_left_becomes_what_is_left():
    def script(body, number):
        if "max_tokens" in body:
            return refusal(400, "This model's maximum context length is 4096 tokens; you asked for more.")
        return answer("fine")

    result, endpoint, _ = ask(script)
    assert result.text == "fine"
    assert "max_tokens" not in endpoint.requests[1]


def test_a_conversation_that_does_not_fit_is_told_apart():
    result, *_ = ask(lambda body, n: refusal(400, "maximum context length is 16", code="context_length_exceeded"))
    assert isinstance(result, ContextOverflow)


def test_streamed_tool_calls_are_put_together():
    def part(index, **function):
        return {"index": index, "id": f"c{index}" if "name" in function else None, "function": function}

    def script(body, number):
        pieces = [
            chunk("Paying."),
            chunk(tool_calls=[part(0, name="pay", arguments='{"bi')]),
            chunk(tool_calls=[part(0, arguments='ll": "7"}'), part(1, name="look", arguments="")]),
            chunk(finish="tool_calls"),
            usage(3, 4),
        ]
        return Reply(pieces)

    result, endpoint, _ = ask(script, tools=[TOOL], tool_choice="required")
    assert result.calls == (ToolCall("pay", {"bill": "7"}, "c0"), ToolCall("look", {}, "c1"))
    assert result.finish == "stop"
    assert endpoint.requests[0]["tools"] == [TOOL]
    assert endpoint.requests[0]["tool_choice"] == "required"


def test_many_at_once_through_a_server_that_limits_its_rate():
    def script(body, number):
        slow = refusal(429, "slow down", headers={"Retry-After": "0"})
        return slow if number % 3 == 1 else answer(body["messages"][0]["content"])

    async def run(endpoint):
        client = OpenAIGenerator("m", base_url=endpoint.url, tries=20, backoff=0.001)
        asks = [[{"role": "user", "content": f"number {i}"}] for i in range(24)]
        try:
            return await asyncio.gather(*(client.generate(one, Sampling()) for one in asks))
        finally:
            await client.close()

    with Endpoint(script) as endpoint:
        answers = asyncio.run(run(endpoint))
    assert [one.text for one in answers] == [f"number {i}" for i in range(24)]
    assert json.dumps(endpoint.requests).find(KEY) == -1
