"""Three notations of a tool call become one type, and the text that programs read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_trainer.toolcalls import ToolCall, contract_text, from_openai, parse, to_openai, without_thinking

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "pay",
            "description": "Pay a bill",
            "parameters": {
                "type": "object",
                "properties": {
                    "bill": {"type": "string"},
                    "amount": {"type": "number"},
                    "urgent": {"type": "boolean"},
                    "lines": {"type": "array", "items": {"type": "integer"}},
                    "note": {"type": ["string", "null"]},
                },
                "required": ["bill"],
            },
        },
    }
]


def test_json_call_with_prose_around_it():
    text = 'I will pay.\n<tool_call>\n{"name": "pay", "arguments": {"bill": "7", "amount": 2.5}}\n</tool_call>'
    assert parse(text) == [ToolCall("pay", {"bill": "7", "amount": 2.5})]


def test_several_calls_keep_their_order():
    text = '<tool_call>{"name": "a", "arguments": {}}</tool_call>\n<tool_call>{"name": "b"}</tool_call>'
    assert [call.name for call in parse(text)] == ["a", "b"]


def test_the_json_decides_where_a_call_ends():
    note = "a </tool_call> inside"
    text = f"<tool_call>{json.dumps({'name': 'pay', 'arguments': {'note': note}})}</tool_call> done"
    assert parse(text) == [ToolCall("pay", {"note": note})]
    assert contract_text(text).endswith("</tool_call> done")


def test_a_forgotten_closing_tag_is_added():
    assert contract_text('<tool_call>{"name": "a", "arguments": {}}') == (
        '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
    )


@pytest.mark.parametrize("key", ["arguments", "parameters"])
def test_arguments_given_as_a_string_of_json_are_opened(key):
    text = f'<tool_call>{{"name": "a", "{key}": "{{\\"x\\": 1}}"}}</tool_call>'
    assert parse(text) == [ToolCall("a", {"x": 1})]


def test_xml_call_takes_its_types_from_the_schema():
    text = (
        "<tool_call>\n<function=pay>\n<parameter=bill>\n7\n</parameter>\n<parameter=amount>\n2.5\n</parameter>\n"
        "<parameter=urgent>\nTrue\n</parameter>\n<parameter=lines>\n[1, 2]\n</parameter>\n</function>\n</tool_call>"
    )
    assert parse(text, TOOLS) == [ToolCall("pay", {"bill": "7", "amount": 2.5, "urgent": True, "lines": [1, 2]})]


def test_xml_text_keeps_its_inner_line_breaks_and_what_does_not_fit_its_type():
    text = "<function=pay><parameter=bill>\nfirst\n\nsecond\n</parameter><parameter=amount>lots</parameter></function>"
    assert parse(text, TOOLS) == [ToolCall("pay", {"bill": "first\n\nsecond", "amount": "lots"})]


def test_xml_null_where_the_schema_allows_it():
    text = "<function=pay><parameter=note>null</parameter></function>"
    assert parse(text, TOOLS) == [ToolCall("pay", {"note": None})]


def test_xml_without_a_schema_is_text():
    assert parse("<function=other><parameter=n>12</parameter></function>") == [ToolCall("other", {"n": "12"})]


def test_xml_with_forgotten_closing_tags():
    text = "<tool_call><function=pay><parameter=bill>7<parameter=amount>3"
    assert parse(text, TOOLS) == [ToolCall("pay", {"bill": "7", "amount": 3})]


def test_xml_becomes_the_contract_form_in_place():
    text = "Now.\n<tool_call>\n<function=pay>\n<parameter=bill>7</parameter>\n</function>\n</tool_call>\nThen."
    assert contract_text(text, tools=TOOLS) == (
        'Now.\n<tool_call>{"name": "pay", "arguments": {"bill": "7"}}</tool_call>\nThen.'
    )


def test_structured_calls_follow_the_text():
    calls = from_openai([{"id": "c1", "function": {"name": "pay", "arguments": '{"bill": "7"}'}}])
    assert calls == [ToolCall("pay", {"bill": "7"}, "c1")]
    written = '<tool_call>{"name": "pay", "arguments": {"bill": "7"}}</tool_call>'
    assert contract_text("Paying.", calls) == f"Paying.\n{written}"
    assert to_openai(calls)[0]["id"] == "c1"
    assert json.loads(to_openai(calls)[0]["function"]["arguments"]) == {"bill": "7"}


@pytest.mark.parametrize("raw", ["{bill: 7", "[1]", '"text"', "{" * 5000])
def test_broken_structured_arguments_reach_the_environment_as_they_are(raw):
    (call,) = from_openai([{"id": None, "function": {"name": "pay", "arguments": raw}}])
    assert call.arguments == raw
    assert raw in contract_text("", [call])


@pytest.mark.parametrize(
    "text",
    ["<tool_call>{'name': 'a'}</tool_call>", "<tool_call>[]</tool_call>", "<tool_call>{}", "<function=", "<tool_call>"],
)
def test_what_cannot_be_read_is_left_as_it_is(text):
    assert parse(text) == []
    assert contract_text(text) == text


def test_a_call_in_a_thought_is_not_made():
    call = '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
    assert contract_text(f"<think>maybe {call}</think>\n<answer>4</answer>") == "<answer>4</answer>"
    assert parse(f"or {call} rather</think>{call}") == [ToolCall("a", {})]
    assert without_thinking("<think>no end") == ""


NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.builds(ToolCall, NAMES, st.dictionaries(st.text(), VALUES, max_size=3)), max_size=3))
def test_written_calls_are_read_back(calls):
    from_text = parse(contract_text("", calls))
    calls_with_tags = [c for c in calls if "think>" in c.text()]
    if not calls_with_tags:
        assert from_text == calls


@given(st.text(st.sampled_from("<tool_cal>/function=parameter{}\"':, \n1"), max_size=80) | st.text(max_size=60))
def test_any_text_is_read_without_an_exception_and_a_second_time_without_a_change(text):
    once = contract_text(text)
    assert contract_text(once) == once
