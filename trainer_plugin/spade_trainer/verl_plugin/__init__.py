"""The verl plugin: trainer mode `spade`, its agent loops, its advantage estimator, and what verl lacks on a CPU.

verl finds it by the entry-point group `verl.plugins` and imports `hook` at the end of its own import, in every process.
"""

from __future__ import annotations


def status() -> dict[str, str]:
    """Return what `spade-envs doctor` prints: per part of the plugin, whether it can be loaded, or why not.

    verl logs a plugin that fails to load at debug level only, so this loads every part and says what happened.
    """
    from spade_trainer.verl_plugin import lazy

    try:
        import verl

        from spade_trainer.verl_plugin import hook
    except Exception as error:
        return {"verl plugin": f"not loaded: {type(error).__name__}: {error}"}
    found = {"verl plugin": f"loaded into verl {verl.__version__}"}
    for part in hook.PARTS:
        found[f"verl plugin, {part.name}"] = lazy.try_import(part)
    return found
