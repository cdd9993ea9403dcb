"""Tool use at a telephone company: a dead line whose faults hide each other, and repairs that need an order."""

import json
import random

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class LineRepairEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=22, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        dead, fine = (f"L{number}" for number in rng.sample(range(1000, 9999), 2))
        bills = {f"B{number}": rng.randint(15, 60) for number in rng.sample(range(100, 999), 2)}
        masts = rng.sample(["Hill", "Quay", "Mill", "Fort"], 3)
        loads = dict(zip(masts, rng.sample(range(20, 96), 3), strict=True))
        best = min(loads, key=loads.get)
        worst = max(loads, key=loads.get)
        names = rng.sample(["Abel", "Nora"], 2)
        self._owner = {dead: names[0], fine: names[1]}
        fault = rng.choice(["wrong access point", "worn SIM"])
        self._state = {
            "bills": dict(bills),
            "suspended": {dead: True, fine: False},
            "fault": {dead: fault, fine: None},
            "mast": {dead: worst, fine: masts[1]},
            "tests": {},
            "data": {dead: 0, fine: 5},
        }
        self._loads, self._fault = loads, fault
        self._speed = rng.randint(31, 98)
        self._plan = (dead, fine, sorted(bills), best)
        pack = rng.randint(2, 9)
        self._pack = pack
        self._user_messages = [
            f"The line of {names[0]} has no service at all. Bring it back: pay what is owed and do what else "
            "it needs, until"
            " a line check finds nothing.",
            "It works, but it is slow. Move that line to the mast with the least load.",
            f"Now put {pack} GB of data on it; nothing on the line of {names[1]}.",
            "Last, test the speed of the repaired line.",
        ]
        self._message_criteria = [
            lambda s: not s["bills"] and not s["suspended"][dead] and s["fault"][dead] is None,
            lambda s: s["mast"] == {dead: best, fine: masts[1]} and not s["suspended"][dead],
            lambda s: s["data"] == {dead: pack, fine: 5} and s["mast"][dead] == best,
            lambda s: s["tests"].get(dead) == best and s["data"] == {dead: pack, fine: 5},
        ]
        self._expected_answer = f"{sum(bills.values())} {self._speed}"
        self._tools = {
            "find_line": tool("Find a customer's line by first name.", name=TEXT),
            "check_line": tool("Check a line; it reports the first fault that it meets.", line=TEXT),
            "list_bills": tool("List unpaid bills of the dead line's owner."),
            "pay_bill": tool("Take payment of a bill.", bill=TEXT),
            "resume_line": tool("Resume a suspended line.", line=TEXT),
            "reset_access_point": tool("Reset a line's access point.", line=TEXT),
            "exchange_sim": tool("Send a new SIM and activate it.", line=TEXT),
            "mast_loads": tool("Read the load of each mast in percent."),
            "move_line": tool("Attach a line to a mast.", line=TEXT, mast=TEXT),
            "add_data": tool("Add whole GB to a line; cannot be undone.", line=TEXT, amount=WHOLE),
            "speed_test": tool("Measure a line's speed.", line=TEXT),
            "report_outage": tool("Report an outage of the network to the engineers."),
            "offer_contract": tool("Read the present offers for new contracts."),
        }
        return (
            "You serve a telephone company's customers with the tools. Requests come one at a time. When "
            "all are done,\n"
            "answer with the sum of the bills that were paid and the last measured speed, separated by one space.\n"
            f"Desk: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def _unknown(self, line):
        return line not in self._state["suspended"]

    def tool_find_line(self, name):
        found = [line for line, owner in self._owner.items() if owner.lower() == name.strip().lower()]
        return self._say(f"{name} has line {found[0]}." if found else f"No customer is called {name}.")

    def tool_check_line(self, line):
        if self._unknown(line):
            return self._say(f"There is no line {line}.")
        if self._state["suspended"][line]:
            return self._say("Fault: the line is suspended.")
        fault = self._state["fault"][line]
        return self._say(f"Fault: {fault}." if fault else "No fault is found.")

    def tool_list_bills(self):
        return self._say(json.dumps(self._state["bills"]) if self._state["bills"] else "Nothing is owed.")

    def tool_pay_bill(self, bill):
        if bill not in self._state["bills"]:
            return self._say(f"There is no unpaid bill {bill}.")
        return self._say(f"{bill} is paid: {self._state['bills'].pop(bill)}.")

    def tool_resume_line(self, line):
        if self._unknown(line):
            return self._say(f"There is no line {line}.")
        if self._state["bills"]:
            return self._say(f"Refused: {len(self._state['bills'])} unpaid bill(s).")
        self._state["suspended"][line] = False
        return self._say(f"{line} is in service.")

    def tool_reset_access_point(self, line):
        return self._repair(line, "wrong access point")

    def tool_exchange_sim(self, line):
        return self._repair(line, "worn SIM")

    def _repair(self, line, fault):
        if self._unknown(line):
            return self._say(f"There is no line {line}.")
        if self._state["suspended"][line]:
            return self._say("Failed: a suspended line cannot be reached.")
        if self._state["fault"][line] != fault:
            return self._say("Done, and nothing changed.")
        self._state["fault"][line] = None
        return self._say("Done: the fault is gone.")

    def tool_mast_loads(self):
        return self._say(json.dumps(self._loads))

    def tool_move_line(self, line, mast):
        if self._unknown(line) or mast not in self._loads:
            return self._say("Unknown line or mast.")
        self._state["mast"][line] = mast
        return self._say(f"{line} uses mast {mast}.")

    def tool_add_data(self, line, amount):
        if self._unknown(line) or not 1 <= amount <= 50:
            return self._say("Unknown line, or an amount outside 1 to 50.")
        if self._state["suspended"][line] or self._state["fault"][line]:
            return self._say("Refused: the line is not in service.")
        self._state["data"][line] += amount
        return self._say(f"{line} has {self._state['data'][line]} GB.")

    def tool_speed_test(self, line):
        if self._unknown(line):
            return self._say(f"There is no line {line}.")
        if self._state["suspended"][line] or self._state["fault"][line]:
            return self._say("Failed: the line is not in service.")
        if not self._state["data"][line]:
            return self._say("Failed: the line has no data left to test with.")
        mast = self._state["mast"][line]
        self._state["tests"][line] = mast
        speed = self._speed if self._loads[mast] == min(self._loads.values()) else self._speed // 3
        return self._say(f"{line} reaches {speed} megabits.")

    def tool_report_outage(self):
        return self._say("The engineers see no outage.")

    def tool_offer_contract(self):
        return self._say("There are no offers this week.")

    def solution(self):
        dead, _, bills, best = self._plan
        repair = "reset_access_point" if self._fault == "wrong access point" else "exchange_sim"
        steps = [
            *[call("pay_bill", bill=bill) for bill in bills],
            call("resume_line", line=dead),
            call(repair, line=dead),
            call("move_line", line=dead, mast=best),
            call("add_data", line=dead, amount=self._pack),
            call("speed_test", line=dead),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
