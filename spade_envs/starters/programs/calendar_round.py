"""Tool use with calendars: find an hour that suits three people and a room, and move what stands in the way."""

import json
import random

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
HOURS = range(9, 17)


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class CalendarRoundEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=24, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        people = rng.sample(["Amal", "Bea", "Chen", "Dora", "Egon", "Fred"], 4)
        three, lone = people[:3], people[3]
        hour, free_hour = rng.sample(list(HOURS), 2)
        # The three share one hour: in every other, exactly one of them is busy, and often more.
        busy = {person: set() for person in people}
        for slot in HOURS:
            if slot != hour:
                for person in rng.sample(three, rng.randint(1, 2)):
                    busy[person].add(slot)
        busy[three[0]].discard(free_hour)
        busy[three[1]].add(free_hour)
        busy[lone] = set(HOURS) - {free_hour, rng.choice([h for h in HOURS if h != free_hour])}
        seats = {"Oak": 2, "Pine": 4, "Rowan": 6, "Spruce": 12}
        taken = {room: {slot for slot in HOURS if rng.random() < 0.4} for room in seats}
        taken["Pine"].add(hour)
        taken["Rowan"].discard(hour)
        taken["Spruce"].discard(hour)
        taken["Pine"].discard(free_hour)
        self._code = f"{rng.choice('BDFGH')}{rng.randint(100, 999)}"
        chief = three[0]
        self._state = {"busy": busy, "seats": seats, "taken": taken, "meetings": [], "told": []}
        self._plan = (three, hour, free_hour, lone)
        slot_names = ", ".join(three[:2]) + " and " + three[2]
        meeting = {"people": sorted(three), "hour": hour, "room": "Rowan"}
        couple = sorted([chief, lone])

        def pair(state):
            rest = state["meetings"][1:]
            return len(rest) == 1 and rest[0]["people"] == couple and rest[0]["room"] == "Pine"

        self._user_messages = [
            f"Book one meeting of {slot_names} in an hour that is free for all three, in the smallest free room that\n"
            "seats four persons or more.",
            f"Then book a talk between {chief} and {lone}, in an hour free for both, in room Pine.",
            "Send the agenda to each person of the first meeting, but to nobody else.",
        ]
        self._message_criteria = [
            lambda s: s["meetings"][:1] == [meeting],
            lambda s: s["meetings"][:1] == [meeting] and pair(s),
            lambda s: s["told"] == sorted(three) and pair(s),
        ]
        self._expected_answer = f"{hour} {self._code}"
        self._tools = {
            "free_hours": tool("List the hours, 9 to 16, in which a person is free.", person=TEXT),
            "list_rooms": tool("List rooms and their seats."),
            "free_rooms": tool("List the rooms that are free in an hour.", hour=WHOLE),
            "book_meeting": tool(
                "Book a meeting of an hour.",
                people={"type": "array", "items": TEXT},
                hour=WHOLE,
                room=TEXT,
            ),
            "cancel_last": tool("Cancel the meeting booked last."),
            "send_agenda": tool("Send the agenda of the first meeting to a person; gives a receipt.", person=TEXT),
            "recall_agenda": tool("Take back the agenda from a person.", person=TEXT),
            "send_to_all": tool("Send a notice to the whole company."),
            "holidays": tool("List the company's holidays."),
            "room_equipment": tool("Say what equipment a room has.", room=TEXT),
        }
        return (
            "You keep an office's calendars with the tools. Requests come one at a time. When all are done, answer\n"
            "with the hour of the first meeting and the receipt of the last agenda that was sent, separated by one\n"
            f"space.\nOffice: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def tool_free_hours(self, person):
        if person not in self._state["busy"]:
            return self._say(f"Nobody is called {person}.")
        free = [str(hour) for hour in HOURS if hour not in self._state["busy"][person]]
        return self._say(f"{person} is free at {', '.join(free) or 'no hour'}.")

    def tool_list_rooms(self):
        return self._say(", ".join(f"{room}: {seats} seats" for room, seats in self._state["seats"].items()))

    def tool_free_rooms(self, hour):
        if hour not in HOURS:
            return self._say("Hours go from 9 to 16.")
        free = [room for room in self._state["seats"] if hour not in self._state["taken"][room]]
        return self._say(", ".join(free) or "No room is free.")

    def tool_book_meeting(self, people, hour, room):
        state = self._state
        names = sorted(set(people))
        unknown = [name for name in names if name not in state["busy"]]
        if unknown or len(names) < 2:
            return self._say("Two or more known people are needed.")
        if hour not in HOURS or room not in state["seats"]:
            return self._say("Unknown room, or an hour outside 9 to 16.")
        blocked = [name for name in names if hour in state["busy"][name]]
        if blocked:
            return self._say(f"Refused: {', '.join(blocked)} cannot come at {hour}.")
        if hour in state["taken"][room]:
            return self._say(f"Refused: {room} is taken at {hour}.")
        if state["seats"][room] < len(names):
            return self._say(f"Refused: {room} is too small.")
        for name in names:
            state["busy"][name].add(hour)
        state["taken"][room].add(hour)
        state["meetings"].append({"people": names, "hour": hour, "room": room})
        return self._say(f"Booked in {room} at {hour}.")

    def tool_cancel_last(self):
        if not self._state["meetings"]:
            return self._say("Nothing is booked.")
        meeting = self._state["meetings"].pop()
        for name in meeting["people"]:
            self._state["busy"][name].discard(meeting["hour"])
        self._state["taken"][meeting["room"]].discard(meeting["hour"])
        return self._say("The last meeting is cancelled.")

    def tool_send_agenda(self, person):
        told = self._state["told"]
        if person not in self._state["busy"] or person in told:
            return self._say("Unknown person, or one who has the agenda.")
        if not self._state["meetings"]:
            return self._say("Refused: there is no meeting yet.")
        told.append(person)
        told.sort()
        receipt = self._code if len(told) == 3 else f"{person[0]}{100 + 7 * len(told)}"
        return self._say(f"Sent to {person}. Receipt {receipt}.")

    def tool_recall_agenda(self, person):
        if person not in self._state["told"]:
            return self._say(f"{person} has no agenda.")
        self._state["told"].remove(person)
        return self._say(f"The agenda of {person} is taken back.")

    def tool_send_to_all(self):
        return self._say("Refused: only the board writes to the whole company.")

    def tool_holidays(self):
        return self._say("There is no holiday this week.")

    def tool_room_equipment(self, room):
        return self._say(f"{room}: a screen." if room in self._state["seats"] else f"There is no room {room}.")

    def solution(self):
        three, hour, free_hour, lone = self._plan
        steps = [
            call("book_meeting", people=three, hour=hour, room="Rowan"),
            call("book_meeting", people=[three[0], lone], hour=free_hour, room="Pine"),
            *[call("send_agenda", person=person) for person in three],
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
