"""Run designed environments safely, through Gymnasium."""
