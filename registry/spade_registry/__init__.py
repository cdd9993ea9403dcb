"""Store, measure, sample and package designed environments in one SQLite file."""
