"""Words of the nano domain: the nouns that name environments, and the sentences that a program may say.

A title is what grounds a design: its noun becomes the class name and the thing that hides something. The nouns here are
split once into those of the warm start and those kept for evaluation, so that copying an unseen title is measured.
"""

from __future__ import annotations

import random
from typing import Final

NOUNS: Final = ["Abbey", "Acorn", "Acre", "Adobe", "Album", "Alder", "Alley", "Almond", "Alpaca", "Altar", "Amber", "Anchor", "Anvil", "Apple", "Apron", "Arch", "Arrow", "Ash", "Aspen", "Atlas", "Attic", "Aviary", "Axle", "Badge", "Badger", "Bakery", "Balcony", "Ballad", "Bamboo", "Banner", "Barge", "Barley", "Barn", "Barrel", "Basin", "Basket", "Beacon", "Beaver", "Beehive", "Beetle", "Bell", "Bellows", "Bench", "Berry", "Birch", "Bishop", "Bison", "Blanket", "Blossom", "Boat", "Bobbin", "Bonfire", "Book", "Boot", "Border", "Bottle", "Boulder", "Bow", "Bramble", "Brass", "Bread", "Brick", "Bridge", "Brook", "Broom", "Bucket", "Buckle", "Buoy", "Burrow", "Butter", "Button", "Cabbage", "Cabin", "Cable", "Cactus", "Camel", "Camp", "Canal", "Candle", "Canoe", "Canvas", "Canyon", "Caravan", "Cargo", "Carpet", "Carriage", "Castle", "Cave", "Cedar", "Cellar", "Chalk", "Chapel", "Chart", "Cheese", "Cherry", "Chess", "Chest", "Chimney", "Cinder", "Circle", "Circus", "Cistern", "Citrus", "Clay", "Cliff", "Clinic", "Cloak", "Clock", "Cloud", "Clover", "Coal", "Coast", "Cobbler", "Coin", "Comet", "Compass", "Copper", "Coral", "Cork", "Corridor", "Cottage", "Cotton", "Crane", "Crater", "Creek", "Crown", "Crystal", "Cupboard", "Current", "Curtain", "Dairy", "Dam", "Deck", "Delta", "Depot", "Desert", "Diamond", "Dial", "Diary", "Dock", "Dome", "Donkey", "Door", "Dragon", "Drawer", "Drum", "Dune", "Eagle", "Easel", "Echo", "Eclipse", "Elm", "Ember", "Engine", "Estuary", "Falcon", "Farm", "Feather", "Fern", "Ferry", "Field", "Fig", "Flag", "Flask", "Fleet", "Flint", "Flower", "Flute", "Foal", "Fog", "Forge", "Fossil", "Fountain", "Fox", "Frost", "Furnace", "Gallery", "Garden", "Gate", "Gear", "Geyser", "Ginger", "Glacier", "Glade", "Glass", "Globe", "Goat", "Goose", "Gorge", "Granary", "Granite", "Grape", "Gravel", "Grove", "Guild", "Gull", "Hamlet", "Hammer", "Hammock", "Harbor", "Harp", "Harvest", "Hatch", "Hawk", "Hazel", "Heron", "Hill", "Hive", "Hollow", "Honey", "Horn", "Horse", "Inlet", "Inn", "Island", "Ivory", "Ivy", "Jar", "Jetty", "Jewel", "Juniper", "Kayak", "Kennel", "Kettle", "Key", "Kiln", "Kite", "Knight", "Knot", "Ladder", "Lagoon", "Lake", "Lamp", "Lantern", "Larch", "Lattice", "Laurel", "Lava", "Leaf", "Ledger", "Lemon", "Lens", "Letter", "Library", "Lily", "Linen", "Loaf", "Lock", "Locket", "Lodge", "Loom", "Lotus", "Lyre", "Magnet", "Mango", "Manor", "Mantle", "Maple", "Marble", "Market", "Marsh", "Mask", "Mast", "Meadow", "Melon", "Mermaid", "Mesa", "Metal", "Meteor", "Mill", "Mine", "Mint", "Mirror", "Mitten", "Moat", "Mole", "Monk", "Moon", "Moss", "Moth", "Mountain", "Museum", "Nebula", "Needle", "Nest", "Net", "Nickel", "Night", "Nut", "Oak", "Oasis", "Oat", "Ocean", "Olive", "Onion", "Opal", "Orbit", "Orchard", "Orchid", "Organ", "Otter", "Oven", "Owl", "Oyster", "Paddle", "Palace", "Palm", "Panther", "Paper", "Parcel", "Parrot", "Pasture", "Path", "Peach", "Pearl", "Pebble", "Pendant", "Pepper", "Petal", "Piano", "Pier", "Pigeon", "Pillar", "Pilot", "Pine", "Pipe", "Pirate", "Planet", "Plaza", "Plough", "Plum", "Pocket", "Pond", "Poplar", "Poppy", "Porch", "Portal", "Post", "Pottery", "Prairie", "Prism", "Pulley", "Pump", "Quarry", "Quartz", "Quill", "Quilt", "Rabbit", "Raft", "Rail", "Rain", "Ranch", "Raven", "Reef", "Ribbon", "Rice", "Ridge", "River", "Robin", "Rocket", "Rope", "Rose", "Ruby", "Saddle", "Saffron", "Sail", "Salmon", "Salt", "Sand", "Satchel", "Scarf", "School", "Scroll", "Seed", "Shadow", "Shed", "Shell", "Shelf", "Shepherd", "Shield", "Ship", "Shore", "Shrine", "Signal", "Silk", "Silver", "Slate", "Sledge", "Snow", "Socket", "Soil", "Sparrow", "Spice", "Spider", "Spindle", "Spring", "Spruce", "Squirrel", "Stable", "Star", "Station", "Statue", "Steam", "Stone", "Stork", "Storm", "Stove", "Stream", "Street", "Studio", "Sugar", "Summit", "Swamp", "Swan", "Switch", "Tailor", "Tapestry", "Tavern", "Temple", "Tent", "Terrace", "Theatre", "Thistle", "Thread", "Thunder", "Tide", "Tiger", "Tile", "Timber", "Tinker", "Toast", "Torch", "Tower", "Trail", "Train", "Treasure", "Trellis", "Trumpet", "Tulip", "Tunnel", "Turbine", "Turtle", "Valley", "Valve", "Vault", "Velvet", "Village", "Vine", "Violet", "Violin", "Wagon", "Walnut", "Walrus", "Warehouse", "Watch", "Water", "Wave", "Wax", "Weasel", "Weaver", "Well", "Whale", "Wharf", "Wheat", "Wheel", "Whistle", "Willow", "Window", "Wing", "Winter", "Wolf", "Wool", "Wren", "Yacht", "Yard", "Yarn", "Zebra", "Zinc"]
SECOND_WORDS: Final = (
    ["of Stones", "in Rain", "at Dawn", "Keeper", "and Mist", "Works", "by Night", "for Two", "Trade", "Road", "in Spring", "of Old"]
)
FIRST_WORDS: Final = ["The", "Old", "A Quiet", "Small", "Red", "The Lost", "Deep", "Seven"]

LOOK_VERBS: Final = ("look", "open", "check", "peek")
SAY_VERBS: Final = ("say", "name", "answer")
TRY_VERBS: Final = ("try", "guess", "dig")
GO_VERBS: Final = ("go", "walk", "step")
PULL_VERBS: Final = ("pull", "push", "flip")
WEIGH_VERBS: Final = ("weigh", "match")
THINGS: Final = ("boxes", "rooms", "jars", "bags", "cards")
LEVERS: Final = ("levers", "ropes", "keys", "wires")

_split = random.Random(7)
HELD_OUT_NOUNS: Final = sorted(_split.sample(NOUNS, 60))
TRAIN_NOUNS: Final = sorted(set(NOUNS) - set(HELD_OUT_NOUNS))


def title(noun: str, rng: random.Random) -> str:
    """Return a title of one to four words that contains `noun`."""
    form = rng.random()
    if form < 0.4:
        return noun
    if form < 0.7:
        return f"{rng.choice(FIRST_WORDS)} {noun}"
    return f"{noun} {rng.choice(SECOND_WORDS)}"
