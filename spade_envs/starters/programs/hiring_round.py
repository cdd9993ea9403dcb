"""Tool use in recruiting: pick candidates by two records, invite, decline, and never write to the wrong one."""

import json
import random

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NAMES = ["Aino", "Bilal", "Carla", "Dmitri", "Elena", "Farid", "Greta", "Hugo"]


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class HiringRoundEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=26, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        skill = rng.choice(["welding", "bookkeeping", "carpentry"])
        people = rng.sample(NAMES, 6)
        years = rng.randint(3, 6)
        records = {name: {"years": years + rng.randint(0, 5), "skill": skill, "stage": "applied"} for name in people}
        best, second, novice, other, missing, _ = people
        marks = dict(zip(people, rng.sample(range(40, 80), 6), strict=True))
        marks[best], marks[second] = rng.sample(range(85, 99), 2)
        records[novice]["years"] = years - rng.randint(1, 2)
        records[other]["skill"] = rng.choice([x for x in ["welding", "bookkeeping", "carpentry"] if x != skill])
        marks[novice] = rng.randint(85, 99)
        marks[other] = rng.randint(85, 99)
        marks[missing] = None
        slots = sorted(rng.sample(range(8, 18), 4))
        order = rng.sample(people, 6)
        self._records = {name: records[name] for name in order}
        self._state = {"slots": {}, "tests": [], "declined": [], "stage": dict.fromkeys(order, "applied")}
        self._marks, self._slots, self._skill, self._years = marks, slots, skill, years
        self._codes = {name: f"{name[0]}{rng.randint(1000, 9999)}" for name in order}
        pair = sorted([best, second], key=lambda name: -marks[name])
        self._plan = (pair, novice, missing)
        places = {pair[0]: slots[0], pair[1]: slots[1]}
        self._user_messages = [
            f"Invite to an interview the two with the best marks among those with {skill} as their skill and at least"
            f" {years} years: the better one at the earliest hour on offer, the other at the next.",
            "One candidate has no mark yet. Send that one the test.",
            f"Decline every candidate whose skill is {skill} but whose years are too few. Decline nobody else.",
        ]
        self._message_criteria = [
            lambda s: s["slots"] == places,
            lambda s: s["slots"] == places and s["tests"] == [missing],
            lambda s: s["slots"] == places and s["tests"] == [missing] and s["declined"] == [novice],
        ]
        self._expected_answer = f"{self._codes[pair[0]]} {self._codes[pair[1]]}"
        self._tools = {
            "list_candidates": tool("List the candidates' names."),
            "read_application": tool("Read a candidate's skill and years.", name=TEXT),
            "read_mark": tool("Read a candidate's mark in the test.", name=TEXT),
            "open_hours": tool("List the hours on offer for interviews."),
            "invite": tool("Invite a candidate at an hour; gives a code.", name=TEXT, hour=WHOLE),
            "withdraw_invitation": tool("Withdraw an invitation.", name=TEXT),
            "send_test": tool("Send the test to a candidate.", name=TEXT),
            "recall_test": tool("Recall the test from a candidate.", name=TEXT),
            "decline": tool("Decline one candidate; it cannot be undone.", name=TEXT),
            "decline_rest": tool("Decline all candidates without an interview."),
            "rank_by_years": tool("Rank all candidates by years, whatever their skill."),
            "post_vacancy": tool("Publish the vacancy again."),
        }
        return (
            "You run a hiring round with the tools. Requests come one at a time. When all are done, answer "
            "with the code\n"
            "of the earlier invitation and that of the later one, separated by one space.\n"
            f"Manager: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def tool_list_candidates(self):
        return self._say(", ".join(self._records))

    def tool_read_application(self, name):
        if name not in self._records:
            return self._say(f"Nobody called {name} has applied.")
        record = self._records[name]
        return self._say(f"{name}: {record['skill']}, {record['years']} years.")

    def tool_read_mark(self, name):
        if name not in self._records:
            return self._say(f"Nobody called {name} has applied.")
        mark = self._marks[name]
        return self._say(f"{name}: {mark} of 100." if mark is not None else f"{name} has no mark.")

    def tool_open_hours(self):
        taken = self._state["slots"].values()
        return self._say(", ".join(str(hour) for hour in self._slots if hour not in taken))

    def tool_invite(self, name, hour):
        if name not in self._records or name in self._state["declined"]:
            return self._say("Unknown or declined candidate.")
        if hour not in self._slots or hour in self._state["slots"].values() or name in self._state["slots"]:
            return self._say("Refused: the hour is not open, or the candidate is invited already.")
        if self._marks[name] is None:
            return self._say(f"Refused: {name} has not taken the test.")
        self._state["slots"][name] = hour
        return self._say(f"{name} is invited at {hour}. Code {self._codes[name]}.")

    def tool_withdraw_invitation(self, name):
        if name not in self._state["slots"]:
            return self._say(f"{name} is not invited.")
        del self._state["slots"][name]
        return self._say(f"The invitation of {name} is withdrawn.")

    def tool_send_test(self, name):
        if name not in self._records or name in self._state["tests"]:
            return self._say("Unknown candidate, or one who was sent the test.")
        self._state["tests"].append(name)
        return self._say(f"The test was sent to {name}.")

    def tool_recall_test(self, name):
        if name not in self._state["tests"]:
            return self._say(f"{name} was not sent the test.")
        self._state["tests"].remove(name)
        return self._say(f"The test was recalled from {name}.")

    def tool_decline(self, name):
        if name not in self._records or name in self._state["declined"] or name in self._state["slots"]:
            return self._say("Refused: unknown, declined already, or invited.")
        self._state["declined"].append(name)
        return self._say(f"{name} is declined.")

    def tool_decline_rest(self):
        if not self._state["slots"]:
            return self._say("Refused: nobody is invited yet.")
        rest = [name for name in self._records if name not in self._state["slots"]]
        self._state["declined"] = rest
        return self._say(f"Declined: {', '.join(rest)}.")

    def tool_rank_by_years(self):
        ranked = sorted(self._records, key=lambda name: -self._records[name]["years"])
        return self._say(", ".join(ranked))

    def tool_post_vacancy(self):
        return self._say("The vacancy is still published.")

    def solution(self):
        pair, novice, missing = self._plan
        steps = [
            call("invite", name=pair[0], hour=self._slots[0]),
            call("invite", name=pair[1], hour=self._slots[1]),
            call("send_test", name=missing),
            call("decline", name=novice),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
