"""Design environments and learn in them: the self-play round and its verl plugin."""
