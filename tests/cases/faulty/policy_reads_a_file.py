"""policy: opens a word list, and asks the system for the time zone."""
import os
import random


class WordListEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        words = open("/usr/share/dict/words").read().split()
        self.word, self.turn = random.Random(seed).choice(words), 0
        return f"A word with {len(self.word)} letters. Zone: {os.environ.get('TZ')}", {}

    def step(self, action):
        self.turn += 1
        return "No.", 0.0, False, self.turn >= self.max_turns, {}
