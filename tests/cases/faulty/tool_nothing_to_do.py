"""tool schema: the only criterion holds before anything was done."""
import random


class BoilerEnv(ToolUseBaseEnv):
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._call_history = 0, []
        self._state = {"tank": rng.randint(5, 30), "logged": None}
        self._tools = {
            "read_tank": {"description": "Litres in the tank.", "parameters": {"type": "object", "properties": {}}},
            "write_log": {
                "description": "Write litres into the log.",
                "parameters": {
                    "type": "object",
                    "properties": {"litres": {"type": "integer"}},
                    "required": ["litres"],
                },
            },
        }
        self._user_messages = ["Log how much is in the tank, then answer with that number."]
        self._message_criteria = [lambda state: state["tank"] > 0]
        self._current_msg, self._expected_answer = 0, str(self._state["tank"])
        return self._user_messages[0], {}

    def tool_read_tank(self):
        return f"{self._state['tank']} litres"

    def tool_write_log(self, litres):
        self._state["logged"] = litres
        return "Logged." + self._advance_if_done()

    def solution(self):
        tank = self._state["tank"]
        return f"write_log(litres={tank}); <answer>{tank}</answer>"
