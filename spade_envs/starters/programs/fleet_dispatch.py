"""Tool use for a fleet: choose van and driver under limits of load, range and licence, and plan the way back."""

import json
import random

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class FleetDispatchEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=24, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        town = rng.choice(["Havel", "Iglau", "Jarno"])
        distance, load = rng.randint(60, 140), rng.randrange(400, 1201, 50)
        plates = rng.sample([f"V{number}" for number in range(10, 100)], 6)
        vans = {
            plate: {
                "load": load + rng.randint(50, 400),
                "range": 2 * distance + rng.randint(40, 90),
                "cost": rng.randint(30, 60),
            }
            for plate in plates
        }
        vans[plates[0]]["load"] = load - rng.randint(10, 90)
        vans[plates[1]]["range"] = 2 * distance - rng.randint(5, 40)
        vans[plates[2]]["range"] = distance - rng.randint(1, 9)
        for plate in plates[:3]:
            vans[plate]["cost"] = rng.randint(12, 29)  # cheap, and unsuitable
        for number, plate in enumerate(plates[3:]):
            vans[plate]["cost"] += number
        best = min(plates[3:], key=lambda plate: vans[plate]["cost"])
        vans[best]["cost"] -= 1
        heavy = vans[best]["load"] > 1000
        drivers = dict.fromkeys(["Ayo", "Britt", "Cem", "Dana"])
        able = rng.choice(sorted(drivers))
        for name in drivers:
            drivers[name] = {"hours_left": rng.randint(2, 4), "heavy": True}
            if rng.random() < 0.5:
                drivers[name] = {"hours_left": rng.randint(6, 9), "heavy": False}
        drivers[able] = {"hours_left": rng.randint(6, 9), "heavy": True}
        if not heavy:
            vans[best]["load"] = 1000 + rng.randint(50, 300)
        depots = {f"D{number}": rng.randint(20, 90) for number in rng.sample(range(1, 10), 3)}
        cheap = min(depots, key=lambda name: (depots[name], name))
        depots[cheap] -= 1
        self._state = {"job": None, "driver": None, "stop": None, "sent": False, "washed": []}
        self._vans, self._drivers, self._depots = vans, drivers, depots
        self._town, self._load, self._distance = town, load, distance
        self._code = f"{rng.choice('GHJK')}{rng.randint(100, 999)}"
        self._plan = (best, able, cheap)
        self._user_messages = [
            f"{load} kg must go to {town} and the van must come back without charging. Reserve the van that "
            "does it at the"
            " least cost.",
            "Assign a driver who may drive this van and has at least six hours left.",
            "On the way back it takes on empties: plan a stop at the depot with the smallest detour, then dispatch.",
        ]
        self._message_criteria = [
            lambda s: s["job"] == best,
            lambda s: s["job"] == best and s["driver"] == able,
            lambda s: s["job"] == best and s["driver"] == able and s["stop"] == cheap and s["sent"],
        ]
        self._expected_answer = f"{self._code} {2 * distance + depots[cheap]}"
        self._tools = {
            "list_vans": tool("List the plates of all vans."),
            "get_van": tool("Read a van's load in kg, range in km and cost.", plate=TEXT),
            "distance_to": tool("Say how many km it is to a town, one way.", town=TEXT),
            "reserve_van": tool("Reserve a van for the job, in place of an earlier one.", plate=TEXT),
            "list_drivers": tool("List drivers with hours left and licence."),
            "assign_driver": tool("Assign a driver to the reserved van.", name=TEXT),
            "list_depots": tool("List depots with the km each adds to the way back."),
            "plan_stop": tool("Plan a stop at a depot on the way back.", depot=TEXT),
            "dispatch_van": tool("Send the van; it cannot be called back. Gives a dispatch code."),
            "wash_van": tool("Ask for a van to be washed.", plate=TEXT),
            "fuel_price": tool("Say what power costs at a charger."),
            "hire_van": tool("Ask whether a van can be hired for a load.", kilograms=WHOLE),
        }
        return (
            "You dispatch vans with the tools. A van of more than 1000 kg load needs a driver with the heavy licence.\n"
            "Requests come one at a time. When all are done, answer with the dispatch code and the km of "
            "the whole tour,\n"
            f"detour included, separated by one space.\nYard: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def tool_list_vans(self):
        return self._say(", ".join(sorted(self._vans)))

    def tool_get_van(self, plate):
        return self._say(json.dumps(self._vans[plate]) if plate in self._vans else f"There is no van {plate}.")

    def tool_distance_to(self, town):
        known = town.strip().lower() == self._town.lower()
        return self._say(f"{self._distance} km." if known else f"No road to {town} is known.")

    def tool_reserve_van(self, plate):
        if plate not in self._vans or self._state["sent"]:
            return self._say("Unknown van, or the job is under way.")
        if self._vans[plate]["load"] < self._load:
            return self._say(f"Refused: {plate} cannot carry {self._load} kg.")
        self._state["job"], self._state["driver"] = plate, None
        return self._say(f"{plate} is reserved; it has no driver yet.")

    def tool_list_drivers(self):
        return self._say(json.dumps(self._drivers))

    def tool_assign_driver(self, name):
        if name not in self._drivers or not self._state["job"] or self._state["sent"]:
            return self._say("Unknown driver, or no van is reserved and waiting.")
        if self._vans[self._state["job"]]["load"] > 1000 and not self._drivers[name]["heavy"]:
            return self._say(f"Refused: {name} lacks the heavy licence.")
        self._state["driver"] = name
        return self._say(f"{name} drives {self._state['job']}.")

    def tool_list_depots(self):
        return self._say(json.dumps(self._depots))

    def tool_plan_stop(self, depot):
        if depot not in self._depots or self._state["sent"]:
            return self._say("Unknown depot, or the job is under way.")
        self._state["stop"] = depot
        return self._say(f"The way back goes by {depot}.")

    def tool_dispatch_van(self):
        state = self._state
        if state["sent"]:
            return self._say("The van is under way.")
        missing = [name for name, key in (("van", "job"), ("driver", "driver"), ("stop", "stop")) if not state[key]]
        if missing:
            return self._say(f"Refused: the job lacks a {' and a '.join(missing)}.")
        state["sent"] = True
        return self._say(f"The van is under way. Dispatch code {self._code}.")

    def tool_wash_van(self, plate):
        return self._say("The washing bay is closed.")

    def tool_fuel_price(self):
        return self._say("Power costs 31 a unit.")

    def tool_hire_van(self, kilograms):
        return self._say(f"Nothing for {kilograms} kg can be hired today.")

    def solution(self):
        best, able, cheap = self._plan
        steps = [
            call("reserve_van", plate=best),
            call("assign_driver", name=able),
            call("plan_stop", depot=cheap),
            call("dispatch_van"),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
