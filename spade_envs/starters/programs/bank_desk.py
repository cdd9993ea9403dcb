"""Tool use at a bank's desk: transfers with a limit, an invoice to a closed account, a blocked card."""

import json
import random

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class BankDeskEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=20, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        current, savings, old, new = rng.sample([f"A{n}" for n in range(100, 1000)], 4)
        limit = rng.randrange(200, 501, 50)
        amount = limit + rng.randint(20, limit - 20)
        bill, checking = rng.randint(90, 400), rng.randint(450, 900)
        vendor = rng.choice(["Alder Heating", "Brook Roofing", "Cobb Plumbing"])
        invoice = f"INV-{rng.randint(1000, 9999)}"
        self._state = {
            "balance": {current: checking, savings: amount + rng.randint(100, 900)},
            "kind": {current: "current", savings: "savings"},
            "limit": limit,
            "invoice": {"id": invoice, "vendor": vendor, "amount": bill, "account": old, "paid": False},
            "closed": old,
            "successor": new,
            "phone": f"{rng.randint(200, 999)}-{rng.randint(1000, 9999)}",
            "verified": False,
            "card": "blocked",
        }
        self._code = f"{rng.choice('KLMNP')}{rng.randint(10, 99)}{rng.choice('RSTVX')}"
        self._plan = (current, savings, amount, limit, invoice, new)
        final = dict(self._state["balance"])
        final[savings] -= amount
        final[current] += amount
        moved, paid = dict(final), dict(final)
        paid[current] -= bill
        self._user_messages = [
            f"Please move {amount} from my savings account to my current account.",
            f"Thank you. Now pay the open invoice of {vendor} from the current account.",
            "My card is blocked, as I mistyped the number. Please unblock it.",
        ]
        self._message_criteria = [
            lambda s: s["balance"] == moved,
            lambda s: s["invoice"]["paid"] and s["balance"] == paid,
            lambda s: s["card"] == "active",
        ]
        self._expected_answer = f"{paid[current]} {self._code}"
        self._tools = {
            "list_accounts": tool("List the customer's accounts with kind and balance."),
            "transfer": tool(
                "Move money between two accounts of the customer.", source=TEXT, target=TEXT, amount=WHOLE
            ),
            "list_invoices": tool("List the customer's invoices."),
            "account_notice": tool("Read what the bank knows about any account by number.", account=TEXT),
            "pay_invoice": tool(
                "Pay an invoice from an account to an account.", invoice=TEXT, source=TEXT, target=TEXT
            ),
            "customer_profile": tool("Read the customer's address and telephone number."),
            "verify_customer": tool("Verify the customer by the last four digits of the telephone.", digits=TEXT),
            "unblock_card": tool("Unblock the customer's card and issue a release code."),
            "replace_card": tool("Order a new card, delivered in ten days."),
            "request_limit": tool("Ask for a higher transfer limit; decided within five days.", limit=WHOLE),
        }
        return (
            "You serve one customer at a bank's desk with the tools. Requests come one at a time. When all "
            "are done, answer\n"
            "with the balance of the current account and the card's release code, separated by one space.\n"
            f"Customer: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def tool_list_accounts(self):
        kinds, balances = self._state["kind"], self._state["balance"]
        return self._say(
            "; ".join(f"{number}: {kinds[number]}, balance {balances[number]}" for number in sorted(kinds))
        )

    def tool_transfer(self, source, target, amount):
        balance = self._state["balance"]
        if source not in balance or target not in balance or source == target:
            return self._say("Both must be different accounts of the customer.")
        if amount < 1 or amount > balance[source]:
            return self._say(f"The amount must be from 1 to {balance[source]}.")
        if amount > self._state["limit"]:
            return self._say(
                f"Refused: one transfer is limited to {self._state['limit']}. Several transfers are allowed."
            )
        balance[source] -= amount
        balance[target] += amount
        return self._say(f"Moved {amount} from {source} to {target}.")

    def tool_list_invoices(self):
        return self._say(json.dumps(self._state["invoice"]))

    def tool_account_notice(self, account):
        if account == self._state["closed"]:
            return self._say(f"{account} is closed. Its owner now uses {self._state['successor']}.")
        return self._say(f"Nothing is noted about {account}.")

    def tool_pay_invoice(self, invoice, source, target):
        record, balance = self._state["invoice"], self._state["balance"]
        if invoice != record["id"] or source not in balance:
            return self._say("Unknown invoice, or not an account of the customer.")
        if record["paid"]:
            return self._say("This invoice is paid.")
        if target == self._state["closed"]:
            return self._say(f"Returned: account {target} does not accept payments. Its notice may say more.")
        if target != self._state["successor"]:
            return self._say(f"Refused: {target} does not belong to {record['vendor']}.")
        if balance[source] < record["amount"]:
            return self._say("The balance is too low.")
        balance[source] -= record["amount"]
        record["paid"] = True
        return self._say(f"Paid {record['amount']} to {target}.")

    def tool_customer_profile(self):
        return self._say(f"Address: 4 Mill Lane. Telephone: {self._state['phone']}.")

    def tool_verify_customer(self, digits):
        self._state["verified"] = digits == self._state["phone"][-4:]
        return self._say("Verified." if self._state["verified"] else "The digits do not match.")

    def tool_unblock_card(self):
        if not self._state["verified"]:
            return self._say("Refused: verify the customer first.")
        self._state["card"] = "active"
        return self._say(f"The card is active. Release code: {self._code}.")

    def tool_replace_card(self):
        return self._say("Refused: the present card can still be unblocked.")

    def tool_request_limit(self, limit):
        return self._say(f"A limit of {limit} was requested. The answer comes within five days.")

    def solution(self):
        current, savings, amount, limit, invoice, new = self._plan
        steps = [
            call("transfer", source=savings, target=current, amount=limit),
            call("transfer", source=savings, target=current, amount=amount - limit),
            call("pay_invoice", invoice=invoice, source=current, target=new),
            call("verify_customer", digits=self._state["phone"][-4:]),
            call("unblock_card"),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
