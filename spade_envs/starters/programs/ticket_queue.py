"""Tool use at a help desk: merge a duplicate, hand over work, and close what has waited too long."""

import json
import random

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
TEAM = ["Ines", "Jude", "Kofi"]


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class TicketQueueEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=24, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        numbers = sorted(rng.sample(range(100, 1000), 9))
        products = rng.sample(["router", "scanner", "badge reader", "projector", "printer"], 4)
        tickets = {}
        for place, number in enumerate(numbers):
            tickets[number] = {
                "product": products[2 + place % 2],
                "symptom": rng.choice(["does not start", "is loud", "smells burnt", "shows a red light"]),
                "status": "open",
                "owner": rng.choice(TEAM),
                "idle_days": rng.randint(0, 9),
            }
        older, newer, left, right, stale, fresh = rng.sample(numbers, 6)
        older, newer = min(older, newer), max(older, newer)
        for number in (older, newer):
            tickets[number].update(product=products[0], symptom="drops every call", status="open")
        tickets[stale].update(status="waiting", idle_days=rng.randint(15, 40))
        tickets[fresh].update(status="waiting", idle_days=rng.randint(3, 14))
        self._owner = rng.choice(TEAM)
        away, third = rng.sample([name for name in TEAM if name != self._owner], 2)
        tickets[left].update(product=products[1], status="open", owner=away)
        tickets[right].update(product=products[1], status="open", owner=rng.choice([away, third]))
        self._state = {"tickets": tickets, "away": away}
        self._plan = (older, newer, sorted([left, right]), stale)
        wanted = json.loads(json.dumps({str(k): v for k, v in tickets.items()}))

        def same(state):
            return {str(k): v for k, v in state["tickets"].items()} == stage[self._current_msg]

        wanted[str(newer)]["status"] = f"merged into {older}"
        stage = [json.loads(json.dumps(wanted))]
        for number in (left, right):
            wanted[str(number)]["owner"] = self._owner
        stage.append(json.loads(json.dumps(wanted)))
        wanted[str(stale)]["status"] = "closed"
        stage.append(json.loads(json.dumps(wanted)))
        self._user_messages = [
            f"Two open tickets report that the {products[0]} drops every call. Merge the newer, which has "
            "the higher number,"
            " into the older.",
            f"{away} is away. Hand both open tickets about the {products[1]} to {self._owner}, whoever has them now.",
            "Close every ticket that waits for its customer and has been idle for more than 14 days. Change "
            "nothing else.",
        ]
        self._message_criteria = [same, same, same]
        open_left = sorted(int(k) for k, v in wanted.items() if v["status"] == "open" and v["owner"] == self._owner)
        self._expected_answer = " ".join(str(number) for number in [stale, *open_left])
        self._tools = {
            "search_tickets": tool("List ticket numbers that have a status.", status=TEXT),
            "get_ticket": tool("Read a ticket.", number=WHOLE),
            "merge_tickets": tool("Merge one ticket into another; the first is then done.", number=WHOLE, into=WHOLE),
            "undo_merge": tool("Open a merged ticket again.", number=WHOLE),
            "assign_ticket": tool("Give a ticket to a member of the team.", number=WHOLE, owner={**TEXT, "enum": TEAM}),
            "close_ticket": tool("Close a ticket that waits for its customer.", number=WHOLE),
            "reopen_ticket": tool("Set a closed ticket to waiting again.", number=WHOLE),
            "escalate_ticket": tool("Ask the second level whether it takes a ticket.", number=WHOLE),
            "team_calendar": tool("Say who is away."),
        }
        return (
            "You keep a help desk's queue in order with the tools. Requests come one at a time. When all "
            "are done, answer with\n"
            "the number of the ticket you closed, then the numbers of all tickets that are open and belong "
            "to the colleague\n"
            "who took over the two, ascending; all separated by single spaces.\n"
            f"Lead: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def _ticket(self, number):
        return self._state["tickets"].get(number)

    def tool_search_tickets(self, status):
        rows = [str(number) for number, ticket in self._state["tickets"].items() if ticket["status"] == status]
        return self._say(", ".join(rows) or "None. A status is open, waiting, closed, or 'merged into N'.")

    def tool_get_ticket(self, number):
        ticket = self._ticket(number)
        return self._say(json.dumps(ticket) if ticket else f"There is no ticket {number}.")

    def tool_merge_tickets(self, number, into):
        ticket, target = self._ticket(number), self._ticket(into)
        if not ticket or not target or number == into:
            return self._say("Two different tickets are needed.")
        if (ticket["product"], ticket["symptom"]) != (target["product"], target["symptom"]):
            return self._say("Refused: the tickets differ in product or symptom.")
        if ticket["status"] != "open" or target["status"] != "open":
            return self._say("Refused: both must be open.")
        ticket["status"] = f"merged into {into}"
        return self._say(f"{number} is merged into {into}.")

    def tool_undo_merge(self, number):
        ticket = self._ticket(number)
        if not ticket or not ticket["status"].startswith("merged"):
            return self._say("This ticket is not merged.")
        ticket["status"] = "open"
        return self._say(f"{number} is open again.")

    def tool_assign_ticket(self, number, owner):
        ticket = self._ticket(number)
        if not ticket or ticket["status"] not in ("open", "waiting"):
            return self._say("There is no such open or waiting ticket.")
        if owner == self._state["away"]:
            return self._say(f"Refused: {owner} is away.")
        ticket["owner"] = owner
        return self._say(f"{number} belongs to {owner}.")

    def tool_close_ticket(self, number):
        ticket = self._ticket(number)
        if not ticket or ticket["status"] != "waiting":
            return self._say("Refused: only a waiting ticket can be closed.")
        ticket["status"] = "closed"
        return self._say(f"{number} is closed.")

    def tool_reopen_ticket(self, number):
        ticket = self._ticket(number)
        if not ticket or ticket["status"] != "closed":
            return self._say("This ticket is not closed.")
        ticket["status"] = "waiting"
        return self._say(f"{number} is waiting again.")

    def tool_escalate_ticket(self, number):
        return self._say("The second level takes no tickets today.")

    def tool_team_calendar(self):
        return self._say(f"{self._state['away']} is away this week.")

    def solution(self):
        older, newer, handed, stale = self._plan
        steps = [
            call("merge_tickets", number=newer, into=older),
            *[call("assign_ticket", number=number, owner=self._owner) for number in handed],
            call("close_ticket", number=stale),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
