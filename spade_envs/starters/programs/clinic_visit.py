"""Tool use at a clinic: a visit needs a referral, an approval and a blood test, each before the next."""

import json
import random

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class ClinicVisitEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=22, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        patients = {f"P{number}": name for number, name in zip(rng.sample(range(100, 1000), 3), "ABC", strict=True)}
        mine = rng.choice(sorted(patients))
        births = rng.sample(range(1940, 2005), 3)
        name = rng.choice(["Kim Lund", "Sam Roth", "Lee Voss"])
        records = {number: {"name": name, "born": born} for number, born in zip(sorted(patients), births, strict=True)}
        field = rng.choice(["heart", "skin", "lungs"])
        doctors = dict(
            zip(rng.sample(["Adler", "Bruno", "Cseh", "Duval"], 4), ["heart", "skin", "lungs", field], strict=True)
        )
        days = {doctor: sorted(rng.sample(range(2, 28), 4)) for doctor in doctors}
        fitting = [doctor for doctor, what in doctors.items() if what == field]
        away = rng.randint(6, 10)
        first = min(
            (day, doctor)
            for doctor in fitting
            for day in [*days[doctor], 28]
            if day > away
        )  # fmt: skip
        for doctor in fitting:
            days[doctor] = [day for day in days[doctor] if day != first[0]]
        days[first[1]] = sorted([*days[first[1]], first[0]])
        drug = rng.choice(["Corvin", "Dalsan", "Estrol"])
        self._state = {"visit": None, "approval": None, "lab": None, "drugs": {mine: [drug]}, "referral": False}
        self._records, self._doctors, self._days = records, doctors, days
        self._approval = f"{rng.choice('QRSTV')}{rng.randint(1000, 9999)}"
        self._field, self._mine, self._first = field, mine, first
        self._drug = drug
        self._user_messages = [
            f"Book a visit for {name}, born {records[mine]['born']}, with a doctor for the {field}: the "
            "earliest day after"
            f" day {away}, whoever of them it is. Our office always files the referral and gets the approval first.",
            "Book the blood test exactly two days before that visit.",
            "Put whatever drug the patient takes on pause for the test.",
        ]
        visit = {"patient": mine, "doctor": first[1], "day": first[0]}
        self._message_criteria = [
            lambda s: s["visit"] == visit and s["approval"] is not None,
            lambda s: s["visit"] == visit and s["lab"] == first[0] - 2,
            lambda s: s["visit"] == visit and s["lab"] == first[0] - 2 and s["drugs"][mine] == [f"{drug} (paused)"],
        ]
        self._expected_answer = f"{self._approval} {first[0] - 2}"
        self._tools = {
            "find_patients": tool("Find patients by name: numbers and years of birth.", name=TEXT),
            "file_referral": tool("File a referral of a patient to a field.", patient=TEXT, field=TEXT),
            "request_approval": tool("Ask the insurer to approve the referral that was filed; gives its number."),
            "find_doctors": tool("List doctors of a field: heart, skin or lungs.", field=TEXT),
            "free_days": tool("List a doctor's free days of this month.", doctor=TEXT),
            "book_visit": tool("Book a visit; needs referral and approval.", patient=TEXT, doctor=TEXT, day=WHOLE),
            "cancel_visit": tool("Cancel the visit and, with it, the blood test."),
            "book_lab": tool("Book a blood test on a day before the visit.", day=WHOLE),
            "read_drugs": tool("List the drugs a patient takes.", patient=TEXT),
            "pause_drug": tool("Pause a drug of a patient until after the test.", patient=TEXT, drug=TEXT),
            "stop_drug": tool("Ask whether a drug may be stopped for good.", patient=TEXT, drug=TEXT),
            "emergency_slot": tool("Ask for a place in the emergency ward."),
            "opening_hours": tool("Say when the clinic is open."),
        }
        return (
            "You work at a clinic's desk with the tools. Requests come one at a time. When all are done, "
            "answer with the\n"
            "approval's number and the day of the blood test, separated by one space.\n"
            f"Doctor: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def tool_find_patients(self, name):
        rows = [
            f"{number}: {record['name']}, born {record['born']}"
            for number, record in self._records.items()
            if record["name"].lower() == name.strip().lower()
        ]
        return self._say("\n".join(rows) or f"No patient is called {name}.")

    def tool_file_referral(self, patient, field):
        if patient not in self._records or field not in self._doctors.values():
            return self._say("Unknown patient, or a field other than heart, skin or lungs.")
        self._state["referral"] = [patient, field]
        self._state["approval"] = None
        return self._say(f"{patient} is referred for the {field}. Earlier approvals lapse.")

    def tool_request_approval(self):
        if not self._state["referral"]:
            return self._say("Refused: no referral was filed.")
        right = self._state["referral"] == [self._mine, self._field]
        self._state["approval"] = self._approval if right else "X0000"
        return self._say(f"Approved under number {self._state['approval']}.")

    def tool_find_doctors(self, field):
        found = [doctor for doctor, what in self._doctors.items() if what == field]
        return self._say(", ".join(sorted(found)) or "The fields are heart, skin and lungs.")

    def tool_free_days(self, doctor):
        if doctor not in self._days:
            return self._say(f"No doctor is called {doctor}.")
        return self._say(f"{doctor} is free on days {', '.join(map(str, self._days[doctor]))}.")

    def tool_book_visit(self, patient, doctor, day):
        if patient not in self._records or doctor not in self._days:
            return self._say("Unknown patient or doctor.")
        if self._state["visit"]:
            return self._say("Refused: a visit is booked already.")
        if not self._state["referral"] or not self._state["approval"]:
            return self._say("Refused: a visit needs a referral and then an approval.")
        if self._state["referral"] != [patient, self._doctors[doctor]]:
            return self._say("Refused: the referral is for another patient or field.")
        if day not in self._days[doctor]:
            return self._say(f"Refused: {doctor} is not free on day {day}.")
        self._state["visit"] = {"patient": patient, "doctor": doctor, "day": day}
        return self._say(f"The visit is booked with {doctor} on day {day}.")

    def tool_cancel_visit(self):
        if not self._state["visit"]:
            return self._say("No visit is booked.")
        self._state["visit"] = self._state["lab"] = None
        return self._say("The visit is cancelled.")

    def tool_book_lab(self, day):
        if not self._state["visit"]:
            return self._say("Refused: book the visit first.")
        if not 1 <= day < self._state["visit"]["day"]:
            return self._say("Refused: the day must come before the visit.")
        self._state["lab"] = day
        return self._say(f"The blood test is on day {day}.")

    def tool_read_drugs(self, patient):
        if patient not in self._records:
            return self._say(f"There is no patient {patient}.")
        return self._say(", ".join(self._state["drugs"].get(patient, [])) or "None.")

    def tool_pause_drug(self, patient, drug):
        drugs = self._state["drugs"].get(patient, [])
        if drug not in drugs:
            return self._say("This patient does not take this drug, or it is paused.")
        if self._state["lab"] is None:
            return self._say("Refused: no test is booked to pause it for.")
        drugs[drugs.index(drug)] = f"{drug} (paused)"
        return self._say(f"{drug} is paused.")

    def tool_stop_drug(self, patient, drug):
        return self._say("Refused: only the doctor may stop a drug.")

    def tool_emergency_slot(self):
        return self._say("Refused: this is no emergency.")

    def tool_opening_hours(self):
        return self._say("Open from 8 to 17.")

    def solution(self):
        day, doctor = self._first
        steps = [
            call("file_referral", patient=self._mine, field=self._field),
            call("request_approval"),
            call("book_visit", patient=self._mine, doctor=doctor, day=day),
            call("book_lab", day=day - 2),
            call("pause_drug", patient=self._mine, drug=self._drug),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
