"""Tool use in a library: find a book by what a reader half remembers, lend it, and settle what stands in the way."""

import json
import random

TEXT = {"type": "string"}


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class LibraryLoansEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=26, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        subjects = rng.sample(["bees", "bridges", "glaciers", "looms", "maps"], 3)
        numbers = rng.sample(range(1000, 10000), 12)
        books = {}
        for place, number in enumerate(numbers):
            books[f"K{number}"] = {
                "subject": subjects[place % 3],
                "year": rng.randint(1950, 2020),
                "pages": rng.randint(90, 600),
                "state": rng.choice(["in", "in", "out", "in"]),
            }
        topic, other = subjects[0], subjects[1]
        own = [name for name, book in books.items() if book["subject"] == topic]
        after = rng.choice([1970, 1980, 1990])
        wanted = rng.choice(own)
        for name in own:
            books[name]["pages"] += 100
        books[wanted] = {
            "subject": topic,
            "year": after + rng.randint(1, 9),
            "pages": rng.randint(60, 89),
            "state": "in",
        }
        decoy = rng.choice([name for name in own if name != wanted])
        books[decoy].update(year=after - rng.randint(1, 9), pages=rng.randint(40, 58))
        held = rng.choice([name for name, book in books.items() if book["subject"] == other])
        books[held]["state"] = "out"
        reader, someone = (f"R{number}" for number in rng.sample(range(100, 1000), 2))
        overdue = rng.choice([name for name, book in books.items() if book["subject"] == subjects[2]])
        books[overdue]["state"] = "out"
        days, rate = rng.randint(4, 30), rng.choice([2, 3, 5])
        self._state = {
            "books": books,
            "loans": {reader: [overdue], someone: [held]},
            "fines": {reader: days * rate, someone: 0},
            "holds": {},
        }
        self._reader, self._plan = reader, (wanted, overdue, held)
        self._shelf = f"{rng.choice('ABCDEFG')}{rng.randint(10, 99)}"
        self._receipt = f"{rng.choice('WXYZ')}{rng.randint(100, 999)}"
        self._user_messages = [
            f"I am reader {reader}. I bring back everything that I have out; here is the money for the fine.",
            f"I look for your shortest book about {topic} from after {after}. Lend it to me.",
            f"And place a hold for me on the one book about {other} that reader {someone} has out.",
        ]
        self._message_criteria = [
            lambda s: overdue not in s["loans"][reader] and s["fines"][reader] == 0,
            lambda s: s["loans"][reader] == [wanted],
            lambda s: s["holds"] == {held: reader} and s["loans"][reader] == [wanted],
        ]
        self._expected_answer = f"{self._shelf} {self._receipt}"
        self._tools = {
            "reader_record": tool("Read a reader's loans and fine.", reader=TEXT),
            "return_book": tool("Take a book back.", book=TEXT),
            "pay_fine": tool("Take payment of a reader's whole fine, once all overdue books are back.", reader=TEXT),
            "books_about": tool("List the book numbers of a subject.", subject=TEXT),
            "book_record": tool("Read a book's subject, year, pages and whether it is in.", book=TEXT),
            "lend_book": tool("Lend a book that is in; says the shelf to fetch it from.", reader=TEXT, book=TEXT),
            "place_hold": tool("Place a hold on a book that is out; gives a receipt.", reader=TEXT, book=TEXT),
            "cancel_hold": tool("Cancel the hold on a book.", book=TEXT),
            "order_book": tool("Suggest a purchase.", title=TEXT),
            "renew_loan": tool("Renew a loan that is not overdue.", book=TEXT),
            "reading_room": tool("Say how many seats are free."),
        }
        return (
            "You serve a reader at a library's desk with the tools. Requests come one at a time. When all are done,\n"
            "answer with the shelf of the book that you lent and the receipt of the hold, separated by one space.\n"
            f"Reader: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def tool_reader_record(self, reader):
        if reader not in self._state["loans"]:
            return self._say(f"There is no reader {reader}.")
        loans = ", ".join(self._state["loans"][reader]) or "none"
        return self._say(f"Loans: {loans}. Fine: {self._state['fines'][reader]}.")

    def tool_return_book(self, book):
        for loans in self._state["loans"].values():
            if book in loans:
                if loans is not self._state["loans"][self._reader]:
                    return self._say("Refused: this reader does not have that book here.")
                loans.remove(book)
                self._state["books"][book]["state"] = "in"
                return self._say(f"{book} is back.")
        return self._say(f"{book} is not out on loan.")

    def tool_pay_fine(self, reader):
        if reader != self._reader:
            return self._say("Refused: only the reader at the desk pays.")
        if self._plan[1] in self._state["loans"][reader]:
            return self._say("Refused: the fine still grows, as an overdue book is out.")
        paid, self._state["fines"][reader] = self._state["fines"][reader], 0
        return self._say(f"{paid} was paid.")

    def tool_books_about(self, subject):
        found = [name for name, book in self._state["books"].items() if book["subject"] == subject.strip().lower()]
        return self._say(", ".join(found) or f"Nothing about {subject}.")

    def tool_book_record(self, book):
        record = self._state["books"].get(book)
        return self._say(json.dumps(record) if record else f"There is no book {book}.")

    def tool_lend_book(self, reader, book):
        record = self._state["books"].get(book)
        if not record or reader != self._reader:
            return self._say("Unknown book, or a reader who is not at the desk.")
        if self._state["fines"][reader]:
            return self._say("Refused: a fine is open.")
        if record["state"] != "in":
            return self._say("Refused: the book is out.")
        record["state"] = "out"
        self._state["loans"][reader].append(book)
        shelf = self._shelf if book == self._plan[0] else f"H{book[-2:]}"
        return self._say(f"{book} is lent to {reader}. It stands on shelf {shelf}.")

    def tool_place_hold(self, reader, book):
        record = self._state["books"].get(book)
        if not record or reader not in self._state["loans"]:
            return self._say("Unknown book or reader.")
        if record["state"] == "in":
            return self._say("Refused: the book is in.")
        self._state["holds"][book] = reader
        receipt = self._receipt if book == self._plan[2] else f"V{book[-3:]}"
        return self._say(f"The hold is placed. Receipt {receipt}.")

    def tool_cancel_hold(self, book):
        if book not in self._state["holds"]:
            return self._say(f"There is no hold on {book}.")
        del self._state["holds"][book]
        return self._say("The hold is cancelled.")

    def tool_order_book(self, title):
        return self._say("Purchases are decided in spring.")

    def tool_renew_loan(self, book):
        return self._say("Refused: only a loan of the reader at the desk that is not overdue can be renewed.")

    def tool_reading_room(self):
        return self._say("Nine seats are free.")

    def solution(self):
        wanted, overdue, held = self._plan
        steps = [
            call("return_book", book=overdue),
            call("pay_fine", reader=self._reader),
            call("lend_book", reader=self._reader, book=wanted),
            call("place_hold", reader=self._reader, book=held),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
