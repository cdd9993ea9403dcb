"""What verl 0.9.1 lacks on a machine without an accelerator: one module per gap, each saying why it exists.

Nothing here is imported unless `VERL_PLATFORM=cpu` is set.
"""
