"""extract: two classes end in Env, and neither is complete."""


class MazeEnv:
    def reset(self, seed=None):
        return "A maze.", {}


class DoorEnv:
    def step(self, action):
        return "Nothing happens.", 0.0, False, True, {}
