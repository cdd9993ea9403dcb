"""Tool use in a smart home: several tools could do each thing, and only one does it without side effects."""

import json
import random

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class HouseEveningEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=20, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        rooms = rng.sample(["kitchen", "study", "bedroom", "hall", "parlour", "attic"], 4)
        dim, warm, child, _ = rooms
        level = {room: rng.randrange(50, 101, 10) for room in rooms}
        heat = {room: rng.randint(16, 19) for room in rooms}
        wish, target = rng.randrange(10, 41, 5), rng.randint(20, 23)
        sensors = {f"S{number}": room for number, room in zip(rng.sample(range(10, 99), 4), rooms, strict=True)}
        self._watts = {room: rng.randint(3, 9) for room in rooms}
        self._state = {"light": level, "heat": heat, "night": "", "doors": {"front": False, "garden": False}, "lit": ""}
        self._sensors = sensors
        habit = rng.choice(["garden", "front"])
        self._profile = {"reading light": wish, "sickroom temperature": target, "door used by the cat": habit}
        self._plan = (dim, wish, warm, target, habit)
        light = {**level, dim: wish}
        temperature = {**heat, warm: target}
        locked = {"front": habit != "front", "garden": habit != "garden"}
        self._user_messages = [
            f"Set the light of the {dim} to my reading light, and leave the other lights as they are.",
            f"Somebody lies ill in the {warm}. Heat that room, and only it, to what I use for a sickroom.",
            "Lock the doors for the night, except the one that the cat uses.",
            f"The battery of the sensor in the {child} is low. Mute its warning, not that of another room.",
        ]
        sensor = next(name for name, room in sensors.items() if room == child)
        self._sensor = sensor
        self._message_criteria = [
            lambda s: s["light"] == light,
            lambda s: s["light"] == light and s["heat"] == temperature,
            lambda s: s["heat"] == temperature and s["doors"] == locked,
            lambda s: s["night"] == sensor and s["doors"] == locked and s["light"] == light,
        ]
        power = sum(light[room] * self._watts[room] for room in rooms)
        self._expected_answer = f"{sensor} {power}"
        self._tools = {
            "read_profile": tool("Read the owner's habits: light and temperature values, and more."),
            "house_state": tool("Read all lights in percent, temperatures and doors."),
            "set_light": tool("Set one room's light in percent.", room=TEXT, percent=WHOLE),
            "set_scene": tool("Set the lights of all rooms at once.", percent=WHOLE),
            "set_room_heat": tool("Set the temperature of one room.", room=TEXT, degrees=WHOLE),
            "set_house_heat": tool("Set the temperature of the whole house.", degrees=WHOLE),
            "lock_door": tool("Lock one door.", door=TEXT),
            "unlock_door": tool("Unlock one door.", door=TEXT),
            "secure_house": tool("Lock every door and put all lights at 30 percent."),
            "list_sensors": tool("List sensors with their rooms."),
            "mute_sensor": tool("Mute the warning of one sensor, in place of the one muted before.", sensor=TEXT),
            "lamp_power": tool("Say how many units of power a room's lamps take for each percent.", room=TEXT),
        }
        return (
            "You run a house with the tools. Requests come one at a time. When all are done, answer with the name of\n"
            "the muted sensor and the power of all lights together, which is for each room its percent times the\n"
            f"units of its lamps, summed; separated by one space.\nOwner: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def tool_read_profile(self):
        return self._say(json.dumps(self._profile))

    def tool_house_state(self):
        state = self._state
        return self._say(json.dumps({"light": state["light"], "heat": state["heat"], "locked": state["doors"]}))

    def tool_set_light(self, room, percent):
        if room not in self._state["light"] or not 0 <= percent <= 100:
            return self._say("Unknown room, or a value outside 0 to 100.")
        self._state["light"][room] = percent
        return self._say(f"The light of the {room} is at {percent} percent.")

    def tool_set_scene(self, percent):
        if not 0 <= percent <= 100:
            return self._say("A value from 0 to 100 is needed.")
        for room in self._state["light"]:
            self._state["light"][room] = percent
        return self._say(f"All lights are at {percent} percent.")

    def tool_set_room_heat(self, room, degrees):
        if room not in self._state["heat"] or not 10 <= degrees <= 26:
            return self._say("Unknown room, or a value outside 10 to 26.")
        self._state["heat"][room] = degrees
        return self._say(f"The {room} will be at {degrees} degrees.")

    def tool_set_house_heat(self, degrees):
        if not 10 <= degrees <= 26:
            return self._say("A value from 10 to 26 is needed.")
        for room in self._state["heat"]:
            self._state["heat"][room] = degrees
        return self._say(f"The whole house will be at {degrees} degrees.")

    def tool_lock_door(self, door):
        return self._door(door, True)

    def tool_unlock_door(self, door):
        return self._door(door, False)

    def _door(self, door, locked):
        if door not in self._state["doors"]:
            return self._say("The doors are front and garden.")
        self._state["doors"][door] = locked
        return self._say(f"The {door} door is {'locked' if locked else 'unlocked'}.")

    def tool_secure_house(self):
        for door in self._state["doors"]:
            self._state["doors"][door] = True
        for room in self._state["light"]:
            self._state["light"][room] = 30
        return self._say("The house is secured.")

    def tool_list_sensors(self):
        return self._say(json.dumps(self._sensors))

    def tool_mute_sensor(self, sensor):
        if sensor not in self._sensors:
            return self._say(f"There is no sensor {sensor}.")
        self._state["night"] = sensor
        return self._say(f"{sensor} is muted.")

    def tool_lamp_power(self, room):
        if room not in self._watts:
            return self._say(f"There is no room {room}.")
        return self._say(f"{room}: {self._watts[room]} units for each percent.")

    def solution(self):
        dim, wish, warm, target, habit = self._plan
        steps = [
            call("set_light", room=dim, percent=wish),
            call("set_room_heat", room=warm, degrees=target),
            call("lock_door", door="garden" if habit == "front" else "front"),
            call("mute_sensor", sensor=self._sensor),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
