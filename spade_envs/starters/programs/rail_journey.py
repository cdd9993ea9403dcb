"""Tool use for a traveller: two trains that connect, a room near the station, and a saver card in the right order."""

import json
import random

TEXT = {"type": "string"}


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def clock(minutes):
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


class RailJourneyEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=20, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        start, middle, end = rng.sample(["Arden", "Belmar", "Corvo", "Dunes", "Esker", "Fjell"], 3)
        numbers = rng.sample(range(100, 1000), 9)
        trains, leave = {}, 420 + rng.randint(0, 50)
        for number in numbers[:4]:
            arrive = leave + rng.randint(80, 130)
            trains[f"T{number}"] = self._train(rng, start, middle, leave, arrive)
            leave += rng.randint(50, 80)
        leave = min(train["arrive"] for train in trains.values()) + rng.randint(10, 25)
        for number in numbers[4:]:
            trains[f"T{number}"] = self._train(rng, middle, end, leave, leave + rng.randint(60, 140))
            leave += rng.randint(35, 60)
        first = rng.choice([name for name, train in trains.items() if train["to"] == middle][:3])
        gap = 30
        connections = [
            name for name, train in trains.items()
            if train["from"] == middle and train["leave"] >= trains[first]["arrive"] + gap
        ]  # fmt: skip
        if not connections:
            trains[f"T{numbers[8]}"]["leave"] = trains[first]["arrive"] + gap + 5
            trains[f"T{numbers[8]}"]["arrive"] = trains[first]["arrive"] + gap + 95
            connections = [f"T{numbers[8]}"]
        second = min(connections, key=lambda name: trains[name]["arrive"])
        trains[second]["arrive"] -= 1  # so that no other train gets there at the same minute
        inns = {}
        for name in ["Anchor", "Bell", "Crown", "Drum", "Elm"]:
            inns[name] = {
                "city": end,
                "walk": rng.randint(2, 25),
                "price": rng.randint(50, 140),
                "free": rng.random() < 0.7,
            }
        chosen = rng.choice(sorted(inns))
        inns[chosen] = {"city": end, "walk": rng.randint(3, 9), "price": rng.randint(40, 49), "free": True}
        self._state = {"trains": trains, "inns": inns, "booked": [], "room": "", "card": False, "paid": 0}
        self._plan = (start, middle, end, first, second, chosen)
        self._gap = gap
        fare = trains[first]["price"] // 2 + trains[second]["price"] // 2
        self._user_messages = [
            f"Buy me a saver card, then a seat from {start} to {middle} on the train that leaves at "
            f"{clock(trains[first]['leave'])}.",
            f"Next a seat from {middle} to {end}, on the train that gets there first. "
            f"I need {gap} minutes or more to change.",
            f"And the cheapest free room in {end} within ten minutes on foot of the station.",
        ]
        self._message_criteria = [
            lambda s: s["card"] and s["booked"] == [first],
            lambda s: s["booked"] == [first, second],
            lambda s: s["room"] == chosen and s["booked"] == [first, second],
        ]
        self._expected_answer = f"{second} {fare + 30 + inns[chosen]['price']}"
        self._tools = {
            "find_trains": tool("List trains between two cities with times and full price.", start=TEXT, end=TEXT),
            "buy_card": tool("Buy a saver card for 30: seats booked afterwards cost half, rounded down."),
            "book_seat": tool("Book and pay a seat on a train.", train=TEXT),
            "cancel_seat": tool("Cancel a booked seat; the fare is given back.", train=TEXT),
            "find_rooms": tool(
                "List inns in a city: walk from the station in minutes, price, whether free.", city=TEXT
            ),
            "book_room": tool("Book and pay a room for one night.", inn=TEXT),
            "cancel_room": tool("Cancel the booked room; the price is given back."),
            "find_buses": tool("List long-distance buses between two cities.", start=TEXT, end=TEXT),
            "amount_paid": tool("Say what has been paid so far, less what was given back."),
            "rent_car": tool("Ask for a rental car in a city.", city=TEXT),
        }
        return (
            "You book a journey with the tools. Requests come one at a time. When all are done, answer with "
            "the name of the\n"
            "second train and all that has been paid, separated by one space.\n"
            f"Traveller: {self._user_messages[0]}"
        ), {}

    def _train(self, rng, start, end, leave, arrive):
        return {"from": start, "to": end, "leave": leave, "arrive": arrive, "price": rng.randint(18, 64)}

    def _say(self, text):
        return text + self._advance_if_done()

    def _fare(self, train):
        price = self._state["trains"][train]["price"]
        return price // 2 if self._state["card"] else price

    def tool_find_trains(self, start, end):
        rows = [
            f"{name}: leaves {clock(train['leave'])}, arrives {clock(train['arrive'])}, price {train['price']}"
            for name, train in sorted(self._state["trains"].items())
            if (train["from"], train["to"]) == (start, end)
        ]
        return self._say("\n".join(rows) or f"No direct train goes from {start} to {end}.")

    def tool_buy_card(self):
        if self._state["card"]:
            return self._say("The traveller has a card.")
        if self._state["booked"]:
            return self._say("Refused: a card cannot be bought while full-price seats are booked. Cancel them first.")
        self._state["card"] = True
        self._state["paid"] += 30
        return self._say("The saver card is bought.")

    def tool_book_seat(self, train):
        if train not in self._state["trains"] or train in self._state["booked"]:
            return self._say("Unknown train, or booked already.")
        self._state["booked"].append(train)
        self._state["paid"] += self._fare(train)
        return self._say(f"A seat on {train} is booked for {self._fare(train)}.")

    def tool_cancel_seat(self, train):
        if train not in self._state["booked"]:
            return self._say("No such seat is booked.")
        self._state["booked"].remove(train)
        self._state["paid"] -= self._fare(train)
        return self._say(f"The seat on {train} is cancelled.")

    def tool_find_rooms(self, city):
        rows = [
            f"{name}: {inn['walk']} minutes, {inn['price']}, {'free' if inn['free'] else 'full'}"
            for name, inn in sorted(self._state["inns"].items())
            if inn["city"] == city
        ]
        return self._say("\n".join(rows) or f"No inn is known in {city}.")

    def tool_book_room(self, inn):
        record = self._state["inns"].get(inn)
        if not record or not record["free"] or self._state["room"]:
            return self._say("Refused: unknown or full, or a room is booked already.")
        self._state["room"] = inn
        self._state["paid"] += record["price"]
        return self._say(f"A room at the {inn} is booked for {record['price']}.")

    def tool_cancel_room(self):
        if not self._state["room"]:
            return self._say("No room is booked.")
        self._state["paid"] -= self._state["inns"][self._state["room"]]["price"]
        self._state["room"] = ""
        return self._say("The room is cancelled.")

    def tool_find_buses(self, start, end):
        return self._say("No bus runs on this day.")

    def tool_amount_paid(self):
        return self._say(f"Paid so far: {self._state['paid']}.")

    def tool_rent_car(self, city):
        return self._say(f"No car is left in {city}.")

    def solution(self):
        _, _, _, first, second, inn = self._plan
        steps = [
            call("buy_card"),
            call("book_seat", train=first),
            call("book_seat", train=second),
            call("book_room", inn=inn),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
