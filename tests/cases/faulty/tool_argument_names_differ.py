"""tool schema: the schema says litres, the method takes amount."""
import random


class TankEnv(ToolUseBaseEnv):
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
        self._message_criteria = [lambda state: state["logged"] == state["tank"]]
        self._current_msg, self._expected_answer = 0, str(self._state["tank"])
        return self._user_messages[0], {}

    def tool_read_tank(self):
        return f"{self._state['tank']} litres"

    def tool_write_log(self, amount):
        self._state["logged"] = amount
        return "Logged." + self._advance_if_done()

    def solution(self):
        tank = self._state["tank"]
        return f"write_log(litres={tank}); <answer>{tank}</answer>"
