"""`python -m spade_envs`: the same as the command `spade-envs`."""

from spade_envs.cli import main

main(prog_name="spade-envs")
