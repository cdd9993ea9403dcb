"""Tool use in a shop: find one order and one lamp among many, and the voucher that saves most."""

import json
import random

TEXT = {"type": "string"}


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class ShopOrdersEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=24, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        numbers = rng.sample(range(1000, 10000), 13)
        orders = {
            f"O{number}": {
                "items": {f"book {number}": rng.randint(20, 60)},
                "status": "delivered",
                "note": "",
                "voucher": "",
            }
            for number in numbers[:5]
        }
        mine = rng.choice(sorted(orders))
        orders[mine]["status"] = "packed"
        lamps = {
            f"L{number}": {
                "price": rng.randint(25, 90),
                "rating": rng.choice([3.1, 3.6, 4.0, 4.4, 4.7]),
                "stock": rng.choice([0, 1, 3, 8]),
            }
            for number in numbers[5:]
        }
        lamp = rng.choice(sorted(lamps))
        good = sorted(x["price"] for x in lamps.values() if x["rating"] >= 4 and x["stock"])
        lamps[lamp] = {"price": (good[0] if good else 30) - 2, "rating": 4.4, "stock": 3}
        total = sum(orders[mine]["items"].values()) + lamps[lamp]["price"]
        vouchers = {
            "TENPERCENT": {"minimum": 0, "percent": 10, "off": 0},
            "FLAT": {"minimum": total - rng.randint(5, 15), "percent": 0, "off": total // 10 + rng.randint(2, 6)},
            "GRAND": {"minimum": total + rng.randint(1, 9), "percent": 0, "off": total // 10 + 20},
            "WELCOME": {"minimum": 10, "percent": 0, "off": rng.randint(1, 2)},
        }
        self._state = {"orders": orders, "lamps": lamps, "vouchers": vouchers}
        self._plan = (mine, lamp)
        untouched = {name: json.dumps(order) for name, order in orders.items() if name != mine}

        def safe(state):
            return all(json.dumps(state["orders"][name]) == text for name, text in untouched.items())

        self._user_messages = [
            "One of my orders has not been sent yet. Put the note 'ring twice' on it.",
            "Good. Add to the same order the cheapest lamp that is in stock and rated 4 or better.",
            "Now use on it the voucher that takes the most off this order.",
        ]
        self._message_criteria = [
            lambda s: s["orders"][mine]["note"].strip().lower() == "ring twice" and safe(s),
            lambda s: lamp in s["orders"][mine]["items"] and len(s["orders"][mine]["items"]) == 2 and safe(s),
            lambda s: s["orders"][mine]["voucher"] == "FLAT" and safe(s),
        ]
        self._expected_answer = f"{mine} {total - vouchers['FLAT']['off']}"
        self._tools = {
            "list_orders": tool("List the customer's order numbers, newest first."),
            "get_order": tool("Read an order: items with prices, status, note, voucher.", order=TEXT),
            "list_lamps": tool("List the article numbers of all lamps."),
            "get_lamp": tool("Read a lamp's price, rating and stock.", article=TEXT),
            "set_note": tool("Put a note on an order.", order=TEXT, note=TEXT),
            "add_item": tool("Add a lamp to an order that has not been sent.", order=TEXT, article=TEXT),
            "remove_item": tool("Remove an item from an order that has not been sent.", order=TEXT, article=TEXT),
            "list_vouchers": tool("List the vouchers with minimum order value and reduction."),
            "use_voucher": tool("Use a voucher on an order; it replaces an earlier one.", order=TEXT, voucher=TEXT),
            "track_parcel": tool("Say where the parcel of a delivered order was left.", order=TEXT),
            "gift_wrap": tool("Ask whether an order can be wrapped as a gift.", order=TEXT),
        }
        return (
            "You answer a shop's customer with the tools. Requests come one at a time. When all are done, "
            "answer with the\n"
            "number of the order and its total after the voucher, separated by one space. Leave other orders alone.\n"
            f"Customer: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def _order(self, order):
        return self._state["orders"].get(order)

    def tool_list_orders(self):
        return self._say(", ".join(self._state["orders"]))

    def tool_get_order(self, order):
        record = self._order(order)
        return self._say(json.dumps(record) if record else f"There is no order {order}.")

    def tool_list_lamps(self):
        return self._say(", ".join(self._state["lamps"]))

    def tool_get_lamp(self, article):
        record = self._state["lamps"].get(article)
        return self._say(json.dumps(record) if record else f"There is no lamp {article}.")

    def tool_set_note(self, order, note):
        record = self._order(order)
        if not record:
            return self._say(f"There is no order {order}.")
        record["note"] = note
        return self._say("The note is set.")

    def tool_add_item(self, order, article):
        record, lamp = self._order(order), self._state["lamps"].get(article)
        if not record or not lamp:
            return self._say("Unknown order or lamp.")
        if record["status"] == "delivered":
            return self._say("Refused: this order has been sent.")
        if not lamp["stock"]:
            return self._say("Refused: this lamp is sold out.")
        record["items"][article] = lamp["price"]
        return self._say(f"{article} was added for {lamp['price']}.")

    def tool_remove_item(self, order, article):
        record = self._order(order)
        if not record or article not in record["items"] or record["status"] == "delivered":
            return self._say("Refused: unknown order or item, or the order has been sent.")
        if not article.startswith("L"):
            return self._say("Refused: books cannot be removed.")
        del record["items"][article]
        return self._say(f"{article} was removed.")

    def tool_list_vouchers(self):
        return self._say(json.dumps(self._state["vouchers"]))

    def tool_use_voucher(self, order, voucher):
        record, terms = self._order(order), self._state["vouchers"].get(voucher)
        if not record or not terms:
            return self._say("Unknown order or voucher.")
        if record["status"] == "delivered" or sum(record["items"].values()) < terms["minimum"]:
            return self._say("Refused: the order has been sent, or is below the voucher's minimum.")
        record["voucher"] = voucher
        return self._say(f"{voucher} is used on {order}.")

    def tool_track_parcel(self, order):
        record = self._order(order)
        known = record and record["status"] == "delivered"
        return self._say("It was left with a neighbour." if known else "There is no parcel to track.")

    def tool_gift_wrap(self, order):
        return self._say("Gift wrapping is not available this week.")

    def solution(self):
        order, lamp = self._plan
        steps = [
            call("set_note", order=order, note="ring twice"),
            call("add_item", order=order, article=lamp),
            call("use_voucher", order=order, voucher="FLAT"),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
